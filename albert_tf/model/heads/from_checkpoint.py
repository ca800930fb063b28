"""Which model a checkpoint belongs to, told from the names of its weights."""

from collections.abc import Callable

import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    layouts,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    classification,
    decoder,
    head,
    model_with_head,
    permutation,
    pretraining,
    pretraining_tasks,
    replaced_tokens,
)
from albert_tf.model.network.encoder import AlbertModel

_ENCODER = "bert"
# Heads of models without need of a pooler, beside those of slices: none, masked
# words.
_WITHOUT_POOLER = [set(), {"cls/predictions"}]


def make_untrained_model(
    config: AlbertConfig, checkpoint: checkpoint_reader.Checkpoint
) -> keras.Model:
    """Build the encoder, with the head whose weights a checkpoint holds.

    The weights are still random; see `restoring.restore`. One label may be a
    regression or the score of a choice (RACE); the weights are the same, and a
    classifier of one label is returned.
    """
    encoder = AlbertModel(config)
    scopes = _head_scopes(checkpoint)

    def maker(one: head.Head) -> Callable[[AlbertModel], keras.Model]:
        width = checkpoint.shapes.get(one.width_of, [0])[0]
        return lambda encoder: one.make(encoder, width)

    makers: dict[frozenset[str], Callable[[AlbertModel], keras.Model]] = {
        frozenset(): lambda e: e,
        frozenset({"cls/predictions", "cls/seq_relationship"}): (
            pretraining.AlbertPretrainer
        ),
        frozenset({"cls/predictions"}): (
            lambda e: pretraining.AlbertPretrainer(e, sentence_order=False)
        ),
        **{frozenset({one.scope}): maker(one) for one in head.of_slices()},
        # A computed head; how vectors are pooled is no matter of weights.
        frozenset({"classifier", sentence_modules.SCOPE}): lambda e: (
            classification.AlbertClassifier(
                e,
                checkpoint.shapes["output_bias"][0],
                vectors=("mean", checkpoint.projection_size),
            )
        ),
    }
    if scopes not in makers:
        allowed = "; ".join(", ".join(sorted(h)) for h in makers if h)
        raise errors.UserError(
            f"{checkpoint.path} holds weights that belong to no model of this "
            f"project: {', '.join(sorted(scopes))}. Known heads are: {allowed}."
        )
    return makers[scopes](encoder)


def missing_scopes(checkpoint: checkpoint_reader.Checkpoint) -> tuple[str, ...]:
    """Return the scope of the pooler, if transformers saved a model without."""
    pooler = layouts.POOLER
    has_pooler = any(n.startswith(f"{pooler}/") for n in checkpoint.shapes)
    free = [{one.scope} for one in head.of_slices() if not one.reads_pooler]
    scopes = _head_scopes(checkpoint)
    if has_pooler or scopes not in [*_WITHOUT_POOLER, *free]:
        return ()
    return (pooler,)


def only_for_training(
    checkpoint: checkpoint_reader.Checkpoint,
) -> frozenset[str]:
    """Return the names of weights that only training needs.

    They are the heads of permutations and of replaced tokens, a generator, a
    decoder, heads of tasks about sentences, exits before the last layer, and
    of masked words beside vectors.
    The masked LM head of an encoder that was its own generator is kept.
    """
    parts = {n: checkpoint_reader.part_of(n) for n in checkpoint.shapes}
    unused = replaced_tokens.HEAD, permutation.HEAD, decoder.SCOPE
    if not {*unused, pretraining_tasks.TASKS} & set(parts.values()):
        beside: tuple[str, ...] = (model_with_head.EXIT,)
        if sentence_modules.SCOPE in parts.values():
            beside = *beside, "cls/predictions"
        return frozenset(n for n in parts if parts[n].startswith(beside))
    kept = {_ENCODER}
    if "cls/predictions" in parts.values():
        kept |= {"cls/predictions", "cls/seq_relationship"}
    return frozenset(name for name, part in parts.items() if part not in kept)


def _head_scopes(checkpoint: checkpoint_reader.Checkpoint) -> frozenset[str]:
    """Return the scopes of the heads whose weights a checkpoint holds."""
    names = checkpoint.shapes.keys() - only_for_training(checkpoint)
    return frozenset(map(checkpoint_reader.part_of, names)) - {_ENCODER}
