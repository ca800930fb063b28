"""Spans of a text, written by a decoder: T5, arXiv 1910.10683."""

import tensorflow as tf

from albert_tf.data import span_corruption
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import decoder
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options

BEST_METRIC = "target_accuracy"


def make_objective(
    recipe: pretraining_options.RecipeOptions,
) -> objectives.Objective:
    """See `System`."""
    part = objectives.Part("target", 1.0, _weights, _values)
    return objectives.combine(
        [part],
        lambda model, batch, seed: (
            objectives.outputs(model, batch, seed),
            batch,
        ),
    )


def _weights(batch: objectives.Batch) -> tf.Tensor:
    """Return 1 for pieces and the end, 0 for padding: float32 [B, P]."""
    return tf.cast(batch["target_ids"] > 0, tf.float32)


def _values(
    outputs: objectives.Tensors, batch: objectives.Batch
) -> objectives.Tensors:
    return cross_entropy.loss_and_accuracy(
        "target", outputs["target_logits"], batch["target_ids"]
    )


def make_model(
    recipe: pretraining_options.RecipeOptions, encoder: AlbertModel
) -> decoder.SpanPretrainer:
    """See `System`."""
    return decoder.SpanPretrainer(encoder)


def forward_flops(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    length: int,
    predictions: int,
    outputs: int | None,
) -> float:
    """See `System`."""
    target = count_others(predictions)
    width = config.hidden_size
    # Queries and outputs of the target, keys and values of the text.
    cross = 4 * (target + length) * width**2 + 4 * target * length * width
    layers = config.num_hidden_layers * config.inner_group_num
    return (
        config.forward_flops(length, 0)
        + config.forward_flops(target, target)
        + layers * cross
    )


def count_others(predictions: int) -> int:
    """See `System`; a target has sentinels and an end beside predictions."""
    return predictions + span_corruption.count_spans(predictions) + 1


def describe(
    recipe: pretraining_options.RecipeOptions, config: AlbertConfig
) -> None:
    """See `System`."""
