"""Pieces in a random order, from those before: XLNet, arXiv 1906.08237."""

import dataclasses

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import permutation
from albert_tf.model.losses import objectives, pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options

BEST_METRIC = "masked_lm_accuracy"


def make_objective(
    recipe: pretraining_options.RecipeOptions,
) -> objectives.Objective:
    """See `System`."""
    return pretraining_objective.make(
        "none", masked_lm_factor=recipe.masked_lm_factor
    )


def make_model(
    recipe: pretraining_options.RecipeOptions, encoder: AlbertModel
) -> permutation.PermutationPretrainer:
    """See `System`."""
    return permutation.PermutationPretrainer(encoder)


def forward_flops(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    length: int,
    predictions: int,
    outputs: int | None,
) -> float:
    """See `System`."""
    # In all layers but the last, queries stand beside the content.
    config = dataclasses.replace(config, pooling="cls")
    whole, without = (
        config.forward_flops(length, predictions, queries)
        for queries in (predictions, 0)
    )
    layers = config.num_hidden_layers * config.inner_group_num
    return whole + (layers - 1) * (whole - without)


def count_others(predictions: int) -> int:
    """See `System`."""
    return predictions


def describe(
    recipe: pretraining_options.RecipeOptions, config: AlbertConfig
) -> None:
    """See `System`."""
