"""Pieces in a random order, from those before: XLNet, arXiv 1906.08237."""

import dataclasses

from albert_tf.model.heads import permutation
from albert_tf.model.losses import objectives, pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training.systems import system


class PermutationLm(system.PretrainingSystem):
    """Pieces that are asked for in a random order."""

    def make_objective(self) -> objectives.Objective:
        return pretraining_objective.make("none", self.recipe.masked_lm_factor)

    def make_model(
        self, encoder: AlbertModel
    ) -> permutation.PermutationPretrainer:
        return permutation.PermutationPretrainer(encoder)

    def forward_flops(self, shape: system.PassShape) -> float:
        # `config.forward_flops` counts the queries in the last layer only, and
        # only with pooling=cls; here every layer has them beside its tokens.
        config = dataclasses.replace(shape.config, pooling="cls")
        with_queries, without_queries = (
            config.forward_flops(shape.length, shape.num_predictions, queries)
            for queries in (shape.num_predictions, 0)
        )
        layers = config.num_hidden_layers * config.inner_group_num
        return with_queries + (layers - 1) * (with_queries - without_queries)

    def count_extra_tokens(self, num_predictions: int) -> int:
        return num_predictions
