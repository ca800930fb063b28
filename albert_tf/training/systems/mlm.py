"""Masked words and, usually, two segments: ALBERT, BERT and RoBERTa."""

from albert_tf.data import arrangements
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import objectives, pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training.systems import system


class MaskedWords(system.PretrainingSystem):
    """Masked words, and tasks about segments and about tokens."""

    def make_objective(self) -> objectives.Objective:
        return pretraining_objective.make(
            self.recipe.sentence_objective,
            self.recipe.masked_lm_factor,
            self.recipe.sentence_factor,
            self.recipe.passages.token_objective,
            self.recipe.passages.token_factor,
        )

    def make_model(self, encoder: AlbertModel) -> pretraining.AlbertPretrainer:
        order, tasks = arrangements.pretraining_heads(
            self.recipe.sentence_objective, len(self.recipe.passages.markers)
        )
        return pretraining.AlbertPretrainer(
            encoder,
            order,
            tasks=tasks,
            token_tasks=self.recipe.passages.token_tasks,
        )

    def forward_flops(self, shape: system.PassShape) -> float:
        config, length, num_predictions, num_outputs = shape
        if self.recipe.passages.token_tasks:
            num_outputs = None  # All positions are read.
        return config.forward_flops(length, num_predictions, num_outputs)
