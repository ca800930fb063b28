"""What every pretraining system has; each other file of this folder is one."""

import abc
from typing import NamedTuple

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import model_with_head
from albert_tf.model.losses import objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options


class Shape(NamedTuple):
    """The shape of a forward pass."""

    config: AlbertConfig
    length: int
    predictions: int
    # Positions of the last layer that the heads read; None: all.
    outputs: int | None


class System(abc.ABC):
    """A way to pretrain an encoder."""

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
    def forward_flops(self, shape: Shape) -> float:
        """Return the operations of a pass, see `config.forward_flops`."""

    def count_other_tokens(self, predictions: int) -> int:
        """Return the tokens that layers compute beside those of the text."""
        return 0

    def describe(self, config: AlbertConfig) -> str:
        """Return a line for the log on what else is trained, if anything is."""
        return ""
