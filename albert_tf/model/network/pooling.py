"""Pooling: from a vector for each token to one for the whole input.

`cls` is ALBERT's. `pair` suits the comparison of two texts by an encoder whose
pretraining was too short to teach the first token to compare.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.model.network import layers

# What is added to padding before the largest number is taken.
_LOWEST = -1e9
# Of a squared length: no vector is divided by 0.
_LEAST = 1e-24


class Pooler(layers.Dense):
    """A linear layer with tanh on what `pool` returns."""

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return float32 [B, H] for float [B, `config.pooled_width`]."""
        return tf.tanh(tf.cast(super().call(x, training), tf.float32))


class VectorPooler(layers.Dense):
    """The vector of `run_embeddings`: linear layer, division by length."""

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return float32 [B, units], of length 1, for float [B, inputs]."""
        return normalize(super().call(tf.cast(x, tf.float32), training))


def normalize(x: tf.Tensor) -> tf.Tensor:
    """Divide float [..., width] by its length."""
    squares = tf.reduce_sum(tf.square(x), -1, keepdims=True)
    return x / tf.sqrt(tf.maximum(squares, _LEAST))


def pool(kind: str, x: tf.Tensor, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Return one vector for each sequence.

    Args:
        kind: One of `config.POOLINGS` or `config.TEXT_POOLINGS`. cls: the
            first token. mean, max: over tokens, for each column. pair: the
            means u and v of the two segments, |u - v| and u v, as in InferSent
            (Conneau et al., arXiv 1705.02364); the mean of a segment without
            tokens is 0.
        x: float [B, S, H]; for cls also [B, P, H], where [CLS] is the first.
        inputs: `input_mask` and, for pair, `segment_ids` of
            `encoder.AlbertModel`. Padding counts nothing. Special tokens count
            as others do.

    Returns:
        [B, H], or [B, 4 H] for pair, in the dtype of x.
    """
    if kind == "cls":
        return x[:, 0]
    # Operations that LiteRT has: no einsum, no new axis in brackets.
    mask = inputs["input_mask"]
    if mask.shape.rank == 3:  # [B, S, T]: any position attends to a token.
        mask = tf.reduce_max(mask, 1)
    is_token = tf.cast(mask > 0, tf.float32)
    vectors = tf.cast(x, tf.float32)
    if kind == "mean":
        return tf.cast(_mean(vectors, is_token), x.dtype)
    if kind == "max":
        padding = (1.0 - tf.expand_dims(is_token, -1)) * _LOWEST
        return tf.cast(tf.reduce_max(vectors + padding, 1), x.dtype)
    second = is_token * tf.cast(inputs["segment_ids"] > 0, tf.float32)
    u, v = _mean(vectors, is_token - second), _mean(vectors, second)
    return tf.cast(tf.concat([u, v, tf.abs(u - v), u * v], -1), x.dtype)


def _mean(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return float32 [B, H]: the mean over the tokens of weight 1, or 0."""
    total = tf.reduce_sum(x * tf.expand_dims(weights, -1), 1)
    return total / tf.maximum(tf.reduce_sum(weights, 1, keepdims=True), 1.0)
