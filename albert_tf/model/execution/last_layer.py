"""The last layer at output positions only: those that a head reads.

The layer then has as many queries, while keys and values are those of all
positions. A model of 2 layers trained on 168 instead of 143 examples in a
second.
"""

from collections.abc import Sequence

import tensorflow as tf


def needs_fewer(output_positions: tf.Tensor | None, ids: tf.Tensor) -> bool:
    """Tell whether it has fewer queries [B, P] than ids [B, S]."""
    if output_positions is None:
        return False
    count, length = output_positions.shape[1], ids.shape[1]
    return length is None or (count is not None and count < length)


def gather(x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return x [B, S, H] at positions [B, P], [B, P, H]."""
    return tf.gather(x, positions, batch_dims=1)


def gather_biases(
    biases: Sequence[tf.Tensor], positions: tf.Tensor
) -> list[tf.Tensor]:
    """Return the biases of scores at positions int32 [B, P]: [B, ..., P, T].

    `biases` are float32 [..., S, T]; those for all alike, [..., 1, T], stay.
    """
    return [_gather_bias(bias, positions) for bias in biases]


def _gather_bias(bias: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    if bias.shape[-2] == 1:
        return bias
    if bias.shape.rank == 4:
        return tf.gather(bias, positions, axis=2, batch_dims=1)
    by_head = tf.gather(bias, positions, axis=1)  # [N, B, P, T]
    return tf.transpose(by_head, [1, 0, 2, 3])
