"""Which model a checkpoint belongs to, told from the names of its weights."""

from collections.abc import Callable

import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import checkpoint_reader, huggingface, modeling
from albert_tf.model.heads import (
    classification,
    pretraining,
    question_answering,
)

MakeModel = Callable[[modeling.AlbertModel], keras.Model]
_ENCODER = "bert"
# Heads of models that do not need a pooler: none, masked words, SQuAD 1.1.
_WITHOUT_POOLER = [set(), {"cls/predictions"}, {"cls/squad"}]


def make_model(
    config: modeling.AlbertConfig, checkpoint: checkpoint_reader.Checkpoint
) -> keras.Model:
    """Build the encoder, with the head whose weights a checkpoint holds.

    The weights are still random; see `checkpoints.restore`. One label may be a
    regression or the score of a choice (RACE); the weights are the same, and a
    classifier of one label is returned.

    Args:
        config: The architecture.
        checkpoint: From `checkpoint_reader.read`.

    Raises:
        errors.UserError: It holds weights of a head that is not known.
    """
    encoder = modeling.AlbertModel(config)
    heads = _heads(checkpoint)
    labels = checkpoint.shapes.get("output_weights", [0])[0]
    known: dict[frozenset[str], MakeModel] = {
        frozenset(): lambda e: e,
        frozenset({"cls/predictions", "cls/seq_relationship"}): (
            pretraining.AlbertPretrainer
        ),
        frozenset({"cls/predictions"}): (
            lambda e: pretraining.AlbertPretrainer(e, sentence_order=False)
        ),
        frozenset({"classifier"}): (
            lambda e: classification.AlbertClassifier(e, labels)
        ),
        frozenset({"cls/squad"}): question_answering.AlbertSquadV1,
        frozenset({"squad_v2"}): question_answering.AlbertSquadV2,
    }
    if heads not in known:
        allowed = "; ".join(", ".join(sorted(h)) for h in known if h)
        raise errors.UserError(
            f"{checkpoint.path} holds weights that belong to no model of this "
            f"project: {', '.join(sorted(heads))}. Known heads are: {allowed}."
        )
    return known[heads](encoder)


def missing_scopes(checkpoint: checkpoint_reader.Checkpoint) -> tuple[str, ...]:
    """Return the scope of the pooler, if a model without one was saved.

    transformers saves some models so; see `checkpoints.restore`, `new_scopes`.
    """
    pooler = huggingface.POOLER
    if _heads(checkpoint) not in _WITHOUT_POOLER or any(
        name.startswith(f"{pooler}/") for name in checkpoint.shapes
    ):
        return ()
    return (pooler,)


def _heads(checkpoint: checkpoint_reader.Checkpoint) -> frozenset[str]:
    """Return the scopes of the heads whose weights a checkpoint holds."""
    parts = {checkpoint_reader.part_of(name) for name in checkpoint.shapes}
    return frozenset(parts - {_ENCODER})
