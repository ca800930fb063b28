"""The services of tasks without a slice, by the class of their head."""

from typing import Any

from albert_tf.finetuning.glue import glue
from albert_tf.finetuning.squad import squad
from albert_tf.model.heads import classification, question_answering
from albert_tf.serving import make
from albert_tf.serving.services import answer_service, service


def _of_texts(
    task: glue.TextTask, model: classification.AlbertClassifier
) -> service.Service:
    rest = task.tokenizer, task.max_seq_length
    return make.of_texts(model, *rest, **task.about)


def _of_answers_1(task: squad.SquadTask, model: Any) -> service.Service:
    return answer_service.AnswerServiceV1(
        model, task.tokenizer, task.max_seq_length, task.options
    )


def _of_answers_2(task: squad.SquadTask, model: Any) -> service.Service:
    rest = task.tokenizer, task.max_seq_length, task.options
    return answer_service.AnswerServiceV2(model, *rest, task.threshold)


SERVICES = {
    classification.AlbertClassifier: _of_texts,
    question_answering.AlbertSquadV1: _of_answers_1,
    question_answering.AlbertSquadV2: _of_answers_2,
}
