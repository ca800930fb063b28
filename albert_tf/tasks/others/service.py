"""The services of tasks without a slice, by the class of their head."""

from albert_tf.finetuning.glue import glue
from albert_tf.model.heads import classification
from albert_tf.serving import make
from albert_tf.serving.services import service


def _of_texts(
    task: glue.TextTask, model: classification.AlbertClassifier
) -> service.Service:
    rest = task.tokenizer, task.max_seq_length
    return make.of_texts(model, *rest, **task.about)


SERVICES = {
    classification.AlbertClassifier: _of_texts,
}
