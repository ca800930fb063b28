"""What every pretraining system has; its file in this folder is one."""

from typing import Protocol

from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import model_with_head
from albert_tf.model.losses import objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training import pretraining_options


class System(Protocol):
    """A way to pretrain an encoder."""

    # The number that chooses the best checkpoint where no option does.
    BEST_METRIC: str

    def make_objective(
        self, recipe: pretraining_options.RecipeOptions
    ) -> objectives.Objective:
        """Return what is trained for."""

    def make_model(
        self, recipe: pretraining_options.RecipeOptions, encoder: AlbertModel
    ) -> model_with_head.ModelWithHead:
        """Add to an encoder what only pretraining needs."""

    def forward_flops(
        self,
        recipe: pretraining_options.RecipeOptions,
        config: AlbertConfig,
        length: int,
        predictions: int,
        outputs: int | None,
    ) -> float:
        """Return the operations of a forward pass, see `config.forward_flops`.

        Args:
            outputs: Positions of the last layer that the heads read; None: all.
        """

    def count_others(self, predictions: int) -> int:
        """Return the tokens that layers compute beside those of the text."""

    def describe(
        self, recipe: pretraining_options.RecipeOptions, config: AlbertConfig
    ) -> str | None:
        """Return one line for the log on what else is trained."""
