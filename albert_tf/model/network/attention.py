"""Multi-head attention."""

import functools
from collections.abc import Sequence

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import plain
from albert_tf.model.network import layers, relative


class Attention(keras.layers.Layer):
    """softmax(QKᵀ/√D)V in N heads, with residual and norm (post-norm, as BERT).

    `execution.plain.attention` has the formula.

    Source: original release, modeling.attention_ffn_block, first half.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="attention_1", autocast=False, dtype="float32")
        self._config = config
        self.heads = config.num_attention_heads
        width, path = config.hidden_size, f"{scope}/attention_1"
        self.query = layers.Dense(f"{path}/self/query", width, width, config)
        self.key = layers.Dense(f"{path}/self/key", width, width, config)
        self.value = layers.Dense(f"{path}/self/value", width, width, config)
        self.output_dense = layers.Dense(
            f"{path}/output/dense", width, width, config
        )
        self.relative_position = self.relative_segment = None
        if config.position_bias == "relative":
            self.relative_position = layers.Dense(
                f"{path}/self/relative_position", width, width, config
            )
            self.relative_segment = layers.Dense(
                f"{path}/self/relative_segment", 1, width, config
            )
        self.layer_norm = layers.LayerNorm(
            f"{scope}/LayerNorm", width, config.layer_norm_eps
        )

    def call(
        self,
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        memory: tf.Tensor | None = None,
        dropout: seeds.DropoutSeeds = seeds.NO_DROPOUT,
        training: bool = False,
    ) -> tf.Tensor:
        """Return float [B, S, H].

        Args:
            x: float [B, S, H], what attends: queries are made of it.
            biases: Added to the attention scores, see `attention_bias`.
            memory: float [B, T, H], what is attended to: keys and values are
                made of it. x by default.
        """
        memory = x if memory is None else memory
        split = functools.partial(plain.split_heads, heads=self.heads)
        query = split(self.query(x, training), like=x)  # [B, N, S, D]
        key = split(self.key(memory, training), like=memory)
        value = split(self.value(memory, training), like=memory)
        context = layers.operations(training).attention(
            query,
            key,
            value,
            self.layer_biases(query, biases),
            dropout.next(self._config.attention_probs_dropout_prob),
        )
        y = self.output_dense(context, training)
        y = dropout(y, self._config.hidden_dropout_prob)
        return self.layer_norm(x + y, training)

    def layer_biases(
        self, query: tf.Tensor, biases: Sequence[tf.Tensor]
    ) -> Sequence[tf.Tensor]:
        """Return the biases of this layer, which may depend on its queries.

        Args:
            query: float [B, N, S, D].
            biases: Those of all layers, see `attention_bias`.

        Returns:
            float32 [..., S, T] each.
        """
        position, segment = self.relative_position, self.relative_segment
        if position is None or segment is None:
            return biases
        mask, offsets, same = biases
        return [mask, relative.bias(query, offsets, same, position, segment)]
