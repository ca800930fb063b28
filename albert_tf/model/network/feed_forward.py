"""The feed-forward part of a transformer layer."""

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.config import AlbertConfig
from albert_tf.model.network import layers


class FeedForward(keras.layers.Layer):
    """act(xW₁ + b₁)W₂ + b₂, with residual and norm.

    Source: original release, modeling.attention_ffn_block, second half.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="ffn_1", autocast=False, dtype="float32")
        self._config = config
        width, intermediate = config.hidden_size, config.intermediate_size
        path = f"{scope}/ffn_1/intermediate"
        self.intermediate = layers.Dense(
            f"{path}/dense", width, intermediate, config
        )
        self.output_dense = layers.Dense(
            f"{path}/output/dense", intermediate, width, config
        )
        self.layer_norm = layers.LayerNorm(
            f"{scope}/LayerNorm_1", width, config.layer_norm_eps
        )

    def call(
        self,
        x: tf.Tensor,
        dropout: seeds.DropoutSeeds = seeds.NO_DROPOUT,
        training: bool = False,
    ) -> tf.Tensor:
        """Return float [B, S, H] for float [B, S, H]."""
        # One operation: in training GELU and the second layer are one.
        y = layers.operations(training).feed_forward(
            x,
            *self.intermediate.kernel_and_bias(x.dtype),
            *self.output_dense.kernel_and_bias(x.dtype),
            self._config.hidden_act,
        )
        y = dropout(y, self._config.hidden_dropout_prob)
        return self.layer_norm(x + y, training)
