"""From a task, or the name of a kind of task, to its service."""

from collections.abc import Callable
from typing import Any

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
    question_answering,
    token_classification,
)
from albert_tf.model.heads import embedding as embedding_head
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.services import (
    answer_service,
    choice_service,
    embedding_service,
    service,
    tag_service,
    text_service,
)
from albert_tf.text import tokenization


def of_texts(
    model: classification.AlbertClassifier,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    **about: Any,
) -> service.Service:
    """Serve a classifier; without labels a regression.

    Args:
        about: See `TextService`. With `thresholds` of probabilities a text may
            have several labels.
    """
    kind: Callable[..., text_service.TextService]
    if "thresholds" in about:
        kind = text_service.MultiLabelService
    elif about["labels"]:
        kind = text_service.ClassifierService
    else:
        kind = text_service.RegressionService
    return kind(model, tokenizer, max_seq_length, **about)


def _about(task: glue.TextTask) -> dict[str, Any]:
    about: dict[str, Any] = {"labels": task.labels, "pairs": task.has_pairs}
    if isinstance(task, tables.TableTask):
        about["long"] = task.options.long
    if isinstance(task, multi_label.MultiLabelTask):
        about["thresholds"] = list(task.thresholds.values())
    return about


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
            return of_texts(model, *rest, **_about(task))
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
