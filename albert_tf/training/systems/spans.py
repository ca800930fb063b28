"""Spans of a text, written by a decoder: T5, arXiv 1910.10683."""

import tensorflow as tf

from albert_tf.data import span_corruption
from albert_tf.model.heads import decoder
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.training.systems import system


class SpanCorruption(system.PretrainingSystem):
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

    def forward_flops(self, shape: system.PassShape) -> float:
        """Return those of encoder, decoder and cross-attention together."""
        config, length = shape.config, shape.length
        target_length = self.count_extra_tokens(shape.num_predictions)
        width = config.hidden_size
        # Cross-attention has queries of the target, keys of the text.
        projections = 4 * (target_length + length) * width**2
        products = 4 * target_length * length * width
        layers = config.num_hidden_layers * config.inner_group_num
        return (
            config.forward_flops(length, num_predictions=0)
            + config.forward_flops(target_length, target_length)
            + layers * (projections + products)
        )

    def count_extra_tokens(self, num_predictions: int) -> int:
        # The decoder's target: hidden pieces, a sentinel for each span, an end.
        return (
            num_predictions + span_corruption.count_spans(num_predictions) + 1
        )
