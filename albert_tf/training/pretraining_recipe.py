"""Objective, model, cost and learning rate of pretraining, from its options."""

import math
from collections.abc import Sequence

from absl import logging

from albert_tf.common import errors
from albert_tf.model import model_options
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import model_with_head
from albert_tf.model.losses import objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import (
    pretraining_options,
    systems,
    training_options,
)

# The batch that the default learning rate was found for. Source: ALBERT §4.1.
_PAPER_BATCH = 4096
_PAPER_LEARNING_RATE = 0.00176
# Learning rates above so many times that of the square-root rule are warned of.
_TOO_HIGH = 2.5
# How far, in nats, the loss must be below the entropy of the labels: more than
# the mean of 500 small batches varies by chance.
_LEARNED = 0.1


def system_of(
    recipe: pretraining_options.RecipeOptions,
) -> systems.PretrainingSystem:
    """Return what `--objective` means: objective, model and cost."""
    return systems.SYSTEMS[recipe.objective](recipe)


def make_objective(
    recipe: pretraining_options.RecipeOptions,
) -> objectives.Objective:
    """Return what is trained for; refuse factors that are all 0."""
    objective = system_of(recipe).make_objective()
    if not any(objective.losses.values()):
        raise errors.UserError(
            f"The factors of {' and '.join(objective.losses)} are 0: nothing "
            "would be learned. Leave one of them above 0."
        )
    return objective


def best_metric(
    recipe: pretraining_options.RecipeOptions, name: str | None
) -> str:
    """Return the metric that chooses the best checkpoint; check the option."""
    metrics = ("loss", *make_objective(recipe).names)
    names = [name for name in metrics if not name.endswith("share")]
    if name is None:
        return system_of(recipe).best_metric
    if name not in names:
        raise errors.UserError(
            f"`best_metric={name}` is not measured. With "
            f"`objective={recipe.objective}` and "
            f"`sentence_objective={recipe.sentence_objective}` there are "
            f"{', '.join(names)}. Choose one of them."
        )
    return name


def make_model(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    update: training_options.UpdateOptions,
    *,
    loop_layers: bool = False,
) -> model_with_head.ModelWithHead:
    """Return a model with random weights; see `AlbertModel`."""
    encoder = AlbertModel(
        config,
        precision=update.precision,
        recompute=update.recompute,
        loop_layers=loop_layers,
    )
    return system_of(recipe).make_model(encoder)


def forward_flops(
    recipe: pretraining_options.RecipeOptions,
    config: AlbertConfig,
    length: int,
    num_predictions: int,
    num_instances: int | None = 1,
) -> float:
    """Return the operations of a forward pass, see `config.forward_flops`.

    Args:
        num_instances: In a row, at most: the last layer is computed at the
            first token of each and where tokens are predicted; None: at all
            positions.
    """
    count = None if num_instances is None else num_instances + num_predictions
    shape = systems.PassShape(
        config, length, num_predictions, num_outputs=count
    )
    return system_of(recipe).forward_flops(shape)


def warn_of_learning_rate(
    optimizer: model_options.OptimizerOptions, batch_size: int
) -> None:
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
    # learns at 32, with bias correction 1.5e-3 (configs/pretraining); BERT took
    # 1e-4 at 256 (Devlin et al., appendix A.2).
    is_adamw = optimizer.optimizer != "lamb"
    if is_adamw and batch_size < 256 and learning_rate > 1.5e-3:
        logging.warning(
            "`learning_rate=%g` is much for `optimizer=%s` and batches of "
            "%d: the default, %g, is for lamb and %d. Such runs often diverge; "
            "1e-3 or less is usual, with `bias_correction` 1.5e-3.",
            learning_rate,
            optimizer.optimizer,
            batch_size,
            _PAPER_LEARNING_RATE,
            _PAPER_BATCH,
        )


def warn_of_plateau(
    recipe: pretraining_options.RecipeOptions,
    losses: Sequence[tuple[int, float]],
    entropy_of_labels: float | None,
) -> None:
    """Warn if after a tenth of the run the loss is that of a unigram model.

    Once: at the first line of the log from that step on.

    Args:
        losses: Step and training `masked_lm_loss` of each line of the log.
        entropy_of_labels: The loss of the unigram model, in nats.
    """
    due = recipe.num_train_steps / 10
    steps = [0, *(step for step, _ in losses)]
    if entropy_of_labels is None or not recipe.masked_lm_factor:
        return
    if steps[-1] < due or max(steps[:-1]) >= due:
        return
    recent = [loss for step, loss in losses if step > due / 2]
    mean = sum(recent) / len(recent)
    if mean >= entropy_of_labels - _LEARNED:
        logging.warning(
            "After %d updates the masked_lm_loss is %.3f. The entropy of the "
            "labels is %.3f: the model knows no more than how frequent pieces "
            "are. What can help, unless you use it already: the config key "
            "position_bias=alibi, `bias_correction`, a lower `learning_rate`, "
            "a longer `num_warmup_steps`, shorter sequences first. See "
            "docs/recipes.md.",
            steps[-1],
            mean,
            entropy_of_labels,
        )
