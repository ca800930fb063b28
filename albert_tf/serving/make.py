"""From a task, or the name of a kind of task, to its service."""

from collections.abc import Callable
from typing import Any

from albert_tf.common import errors
from albert_tf.finetuning import base
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.services import service, text_service
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


def of_task(task: base.Task, encoder: AlbertModel) -> service.Service:
    """Serve the model of a task, with a new head."""
    model = task.make_model(encoder)
    # A subclass of a head may compute something else.
    head = type(model)
    maker = task.services().get(head)
    if maker is None:
        raise errors.UserError(
            f"The task {task.name} with the head {head.__name__} cannot be "
            "exported: only the heads of GLUE, RACE, SQuAD, run_embeddings "
            "and run_tagger can. Use albert_tf.predict."
        )
    made: service.Service = maker(task, model)
    return made
