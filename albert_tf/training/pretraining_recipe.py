"""Objective, initial weights and learning rate of pretraining.

Shared by run_pretraining and export_train_step, so that the same options make
the same update.
"""

import math

from absl import logging

from albert_tf.data import manifests
from albert_tf.model import (
    model_options,
    modeling,
    objectives,
    optimization,
)
from albert_tf.model.heads import pretraining
from albert_tf.training import training_options

# The batch that the default learning rate was found for. Source: ALBERT §4.1.
_PAPER_BATCH = 4096
_PAPER_LEARNING_RATE = 0.00176
# Learning rates above so many times that of the square-root rule are warned of.
_TOO_HIGH = 2.5


def make_objective(
    recipe: training_options.RecipeOptions,
) -> objectives.Objective:
    """Return what is trained for."""
    return pretraining.make_objective(
        recipe.sentence_objective,
        recipe.masked_lm_factor,
        recipe.sentence_factor,
    )


def make_model(
    recipe: training_options.RecipeOptions,
    config: modeling.AlbertConfig,
    update: training_options.UpdateOptions,
    *,
    loop_layers: bool = False,
) -> pretraining.AlbertPretrainer:
    """Return a model with random weights; see `modeling.AlbertModel`."""
    encoder = modeling.AlbertModel(
        config,
        precision=update.precision,
        recompute=update.recompute,
        loop_layers=loop_layers,
    )
    return pretraining.AlbertPretrainer(
        encoder, sentence_order=recipe.sentence_objective != "none"
    )


def make_optimizer(
    recipe: training_options.RecipeOptions, by_the_clock: bool = False
) -> optimization.AdamW:
    """Return the optimizer; see `optimization.make_optimizer`."""
    return optimization.make_optimizer(
        recipe.optimizer,
        recipe.num_train_steps,
        recipe.num_warmup_steps,
        by_the_clock=by_the_clock,
    )


def warn_of_learning_rate(
    optimizer: model_options.OptimizerOptions, batch_size: int
) -> None:
    """Warn of a learning rate that is too high for the batch."""
    learning_rate = optimizer.learning_rate
    scaled = _PAPER_LEARNING_RATE * math.sqrt(batch_size / _PAPER_BATCH)
    if optimizer.optimizer == "lamb" and learning_rate > _TOO_HIGH * scaled:
        logging.warning(
            "`learning_rate=%g` is much for batches of %d: the paper's %g is "
            "for %d, and the square-root rule gives %.2e here. Such runs often "
            "diverge.",
            learning_rate,
            batch_size,
            _PAPER_LEARNING_RATE,
            _PAPER_BATCH,
            scaled,
        )
    # LAMB moves weights by a share of their size, AdamW by about the rate. 1e-3
    # learns at 32 (configs/pretraining); BERT took 1e-4 at 256 (Devlin et al.,
    # appendix A.2).
    is_adamw = optimizer.optimizer != "lamb"
    if is_adamw and batch_size < 256 and learning_rate > 1.5e-3:
        logging.warning(
            "`learning_rate=%g` is much for `optimizer=adamw` and batches of "
            "%d: the default, %g, is for lamb and %d. Such runs often diverge; "
            "1e-3 or less is usual.",
            learning_rate,
            batch_size,
            _PAPER_LEARNING_RATE,
            _PAPER_BATCH,
        )


def written_objective(manifest: manifests.Manifest) -> str:
    """Return which sentence objective the labels of records belong to."""
    if written := manifest.options.get("sentence_objective"):
        return str(written)
    return "nsp" if manifest.options.get("random_next_sentence") else "sop"
