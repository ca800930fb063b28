"""The head that predicts the order of two segments.

Source: ALBERT §3.1; in the original,
run_pretraining.get_sentence_order_output.
"""

import tensorflow as tf

from albert_tf.model.heads import model_with_head
from albert_tf.model.network import layers


class SentenceOrderModel(model_with_head.ModelWithHead):
    """Predicts, beside other things, the order of two segments."""

    def _add_sentence_order(self, sentence_order: bool) -> None:
        self.sentence_order = sentence_order
        if not sentence_order:
            return
        config = self.encoder.config
        self.order_weights = self.add_weight(
            name="cls/seq_relationship/output_weights",
            shape=[2, config.hidden_size],
            initializer=layers.truncated_normal(config.initializer_range),
        )
        self.order_bias = self.add_weight(
            name="cls/seq_relationship/output_bias",
            shape=[2],
            initializer="zeros",
        )

    def sentence_order_logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., 2] for the pooled output [..., H].

        Index 1 means that the segments were swapped (with
        `sentence_objective=nsp`: that they are of two documents).
        """
        logits = tf.matmul(pooled_output, self.order_weights, transpose_b=True)
        return logits + self.order_bias

    def _sentence_outputs(
        self, pooled_output: tf.Tensor, cls_vectors: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Return `sentence_order_logits`, or nothing without such a head.

        Args:
            cls_vectors: In rows of several instances the encoder's output at
                the first token of each, float [B, K, H]; else None.
        """
        if not self.sentence_order:
            return {}
        if cls_vectors is not None:
            if self.encoder.config.pooling != "cls":
                raise ValueError("Rows of several instances need pooling=cls.")
            assert self.encoder.pooler is not None
            pooled_output = self.encoder.pooler(cls_vectors)
        logits = self.sentence_order_logits(pooled_output)
        return {"sentence_order_logits": logits}
