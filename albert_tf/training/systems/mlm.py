"""Masked words and, usually, two segments: ALBERT, BERT and RoBERTa."""

from albert_tf.data import arrangements
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import objectives, pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options

BEST_METRIC = "masked_lm_accuracy"


def make_objective(
    recipe: pretraining_options.RecipeOptions,
) -> objectives.Objective:
    """See `System`."""
    return pretraining_objective.make(
        recipe.sentence_objective,
        recipe.masked_lm_factor,
        recipe.sentence_factor,
        recipe.token_objective,
        recipe.token_factor,
    )


def make_model(
    recipe: pretraining_options.RecipeOptions, encoder: AlbertModel
) -> pretraining.AlbertPretrainer:
    """See `System`."""
    order, tasks = arrangements.heads(
        recipe.sentence_objective, len(recipe.markers)
    )
    token_tasks = arrangements.parse_tokens(recipe.token_objective)
    return pretraining.AlbertPretrainer(
        encoder, order, tasks=tasks, token_tasks=token_tasks
    )


def forward_flops(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    length: int,
    predictions: int,
    outputs: int | None,
) -> float:
    """See `System`."""
    if arrangements.parse_tokens(recipe.token_objective):
        outputs = None  # All positions are read.
    return config.forward_flops(length, predictions, outputs)


def count_others(predictions: int) -> int:
    """See `System`."""
    return 0


def describe(
    recipe: pretraining_options.RecipeOptions, config: AlbertConfig
) -> None:
    """See `System`."""
