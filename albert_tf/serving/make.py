"""From a task, or the name of a kind of task, to its service."""

import functools
from collections.abc import Callable, Sequence

from albert_tf.common import errors
from albert_tf.finetuning import (
    base,
    embedding,
    multi_label,
    race,
    tables,
    tagging,
    task_models,
)
from albert_tf.finetuning.glue import glue
from albert_tf.finetuning.squad import squad
from albert_tf.model.heads import (
    classification,
    multiple_choice,
    pretraining,
    question_answering,
    token_classification,
)
from albert_tf.model.heads import embedding as embedding_head
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.services import (
    answer_service,
    choice_service,
    embedding_service,
    encoder_service,
    service,
    tag_service,
    text_service,
)
from albert_tf.text import tokenization


def of_encoder(
    encoder: AlbertModel,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> service.Service:
    """Serve an encoder alone."""
    return encoder_service.EncoderService(encoder, tokenizer, max_seq_length)


def of_pretraining(
    encoder: AlbertModel,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    *,
    sentence_order: bool,
) -> service.Service:
    """Serve an encoder with the heads of pretraining, new ones."""
    model = pretraining.AlbertPretrainer(encoder, sentence_order)
    return encoder_service.PretrainedService(model, tokenizer, max_seq_length)


def of_labels(
    encoder: AlbertModel,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    *,
    labels: Sequence[str],
    are_several: bool,
    pairs: bool,
) -> service.Service:
    """Serve a classifier, new; without labels a regression.

    Args:
        are_several: A text has the labels whose probability is above 0.5.
    """
    model = classification.AlbertClassifier(encoder, len(labels) or 1)
    thresholds = [multi_label.EVEN] * len(labels) if are_several else None
    kind = _text_service(labels, thresholds)
    return kind(model, tokenizer, max_seq_length, labels=labels, pairs=pairs)


def _text_service(
    labels: Sequence[str], thresholds: Sequence[float] | None = None
) -> Callable[..., text_service.TextService]:
    if thresholds:
        kind = text_service.MultiLabelService
        return functools.partial(kind, thresholds=thresholds)
    if labels:
        return text_service.ClassifierService
    return text_service.RegressionService


def _of_texts(
    task: glue.TextTask, model: classification.AlbertClassifier
) -> service.Service:
    thresholds = None
    if isinstance(task, multi_label.MultiLabelTask):
        thresholds = list(task.thresholds.values())
    return _text_service(task.labels, thresholds)(
        model,
        task.tokenizer,
        task.max_seq_length,
        labels=task.labels,
        pairs=task.has_pairs,
        long=task.options.long if isinstance(task, tables.TableTask) else None,
    )


def of_task(task: base.Task, encoder: AlbertModel) -> service.Service:
    """Serve the model of a task, with a new head."""
    model = task_models.make_model(task, encoder)
    rest = task.tokenizer, task.max_seq_length
    # A subclass of a head may compute something else.
    head = type(model)
    is_embedder = head is embedding_head.AlbertEmbedder
    is_tagger = head is token_classification.AlbertTokenClassifier
    if isinstance(task, glue.TextTask):
        if head is classification.AlbertClassifier:
            return _of_texts(task, model)
    elif isinstance(task, embedding.EmbeddingTask) and is_embedder:
        return embedding_service.EmbeddingService(model, *rest)
    elif isinstance(task, tagging.TaggingTask) and is_tagger:
        return tag_service.TagService(model, *rest, task.labels)
    elif isinstance(task, race.RaceTask):
        if head is multiple_choice.AlbertMultipleChoice:
            return choice_service.ChoiceService(model, *rest, task.options)
    elif isinstance(task, squad.SquadTask):
        if head is question_answering.AlbertSquadV1:
            return answer_service.AnswerServiceV1(model, *rest, task.options)
        if head is question_answering.AlbertSquadV2:
            return answer_service.AnswerServiceV2(
                model, *rest, task.options, task.threshold
            )
    raise errors.UserError(
        f"The task {task.name} with the head {head.__name__} cannot be "
        "exported: only the heads of GLUE, RACE, SQuAD, run_embeddings "
        "and run_tagger can. Use albert_tf.predict."
    )
