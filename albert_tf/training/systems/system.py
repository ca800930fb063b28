"""What every pretraining system has; each other file of this folder is one."""

import abc
from typing import NamedTuple

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import model_with_head
from albert_tf.model.losses import objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options


class PassShape(NamedTuple):
    """The shape of a forward pass of one sequence; lengths are in tokens."""

    config: AlbertConfig
    length: int
    num_predictions: int  # Masked tokens, or what is asked for instead.
    # How many positions of the last layer the heads read; None: all.
    num_outputs: int | None


class PretrainingSystem(abc.ABC):
    """A way to pretrain an encoder: what one value of `--objective` means."""

    # The number that chooses the best checkpoint where no option does.
    best_metric = "masked_lm_accuracy"

    def __init__(self, recipe: pretraining_options.RecipeOptions):
        self.recipe = recipe

    @abc.abstractmethod
    def make_objective(self) -> objectives.Objective:
        """Return what is trained for."""

    @abc.abstractmethod
    def make_model(self, encoder: AlbertModel) -> model_with_head.ModelWithHead:
        """Add to an encoder what only pretraining needs."""

    @abc.abstractmethod
    def forward_flops(self, shape: PassShape) -> float:
        """Return the operations of a pass, see `config.forward_flops`."""

    def count_extra_tokens(self, num_predictions: int) -> int:
        """Return how many tokens layers compute beside those of a sequence."""
        return 0

    def describe(self, config: AlbertConfig) -> str:
        """Return a line for the log on what else is trained, if anything is."""
        return ""
