"""Spans of a text, written by a decoder: T5, arXiv 1910.10683."""

import tensorflow as tf

from albert_tf.data import span_corruption
from albert_tf.model.heads import decoder
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training.systems import system


class SpanCorruption(system.System):
    """Hidden spans, after sentinels that stand for them."""

    best_metric = "target_accuracy"

    def make_objective(self) -> objectives.Objective:
        term = objectives.LossTerm(
            "target",
            1.0,
            # Pieces and the end count, padding does not: float32 [B, P].
            lambda batch: tf.cast(batch["target_ids"] > 0, tf.float32),
            lambda outputs, batch: cross_entropy.loss_and_accuracy(
                "target", outputs["target_logits"], batch["target_ids"]
            ),
        )
        return objectives.combine([term])

    def make_model(self, encoder: AlbertModel) -> decoder.SpanPretrainer:
        return decoder.SpanPretrainer(encoder)

    def forward_flops(self, shape: system.Shape) -> float:
        config, length = shape.config, shape.length
        target = self.count_other_tokens(shape.predictions)
        width = config.hidden_size
        # Queries and outputs of the target, keys and values of the text.
        cross = 4 * (target + length) * width**2 + 4 * target * length * width
        layers = config.num_hidden_layers * config.inner_group_num
        return (
            config.forward_flops(length, 0)
            + config.forward_flops(target, target)
            + layers * cross
        )

    def count_other_tokens(self, predictions: int) -> int:
        # A target has sentinels and an end beside predictions.
        return predictions + span_corruption.count_spans(predictions) + 1
