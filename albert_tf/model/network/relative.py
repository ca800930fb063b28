"""Attention scores from the distance of two tokens and from their segments.

Source: XLNet, Yang et al., arXiv 1906.08237, section 2.5; Transformer-XL, Dai
et al., arXiv 1901.02860, section 3.3.
"""

import tensorflow as tf

from albert_tf.model.execution import plain
from albert_tf.model.network import layers

# Of the slowest sinusoid.
_BASE = 10_000.0


def bias(
    query: tf.Tensor,
    offsets: tf.Tensor,
    same_segment: tf.Tensor,
    position: layers.Dense,
    segment: layers.Dense,
) -> tf.Tensor:
    """Return what is added to the scores, float32 [B, N, S, T].

    ((q + v) · W R(i - j) + (q + s) · g, if the segments are the same) / √D. The
    query bias is XLNet's u; v and s stand here as what they are more than u. Of
    two vectors, for the same and for another segment, only the difference
    counts: g.

    Args:
        query: float [B, N, S, D].
        offsets: float32 [..., S, T], i - j: position minus attended position.
        same_segment: float32 [..., S, T], 1 or 0.
        position: W, [H, H], with v as its bias.
        segment: g, [1, H], with s as its bias.
    """
    shape, heads = tf.shape(query), query.shape[1]

    def split(x: tf.Tensor) -> tf.Tensor:
        return plain.split_heads(x[None], heads)  # [1, N, ..., D]

    length = tf.shape(offsets)[-1]
    kernel, v = position.kernel_and_bias(query.dtype)
    segment_keys, s = segment.kernel_and_bias(query.dtype)
    distance_keys = tf.matmul(
        sinusoids(length, kernel.shape[0], query.dtype), kernel
    )
    constant_products = [
        tf.matmul(split(x[None]), split(keys), transpose_b=True)
        for x, keys in ((v, distance_keys), (s, segment_keys))
    ]
    # One product for both: TensorFlow may add more than two gradients, here of
    # the query, in another order in every run.
    keys = split(tf.concat([distance_keys, segment_keys], 0))
    products = tf.matmul(query, keys, transpose_b=True)
    products += tf.concat(constant_products, -1)
    columns = tf.cast(offsets, tf.int32) + length - 1
    columns = tf.broadcast_to(columns, [*tf.unstack(shape[:3]), length])
    total = tf.gather(products, columns, batch_dims=3)
    total += products[..., -1:] * tf.cast(same_segment, query.dtype)
    return tf.cast(total, tf.float32) * plain.scale_of(query)


def sinusoids(length: tf.Tensor, width: int, dtype: tf.DType) -> tf.Tensor:
    """Return R of the distances 1 - length to length - 1, [2 length - 1, H].

    Sines are in the first half of the columns, cosines in the second.
    """
    steps = tf.range(0, width, 2, tf.float32) / width
    distances = tf.cast(tf.range(1 - length, length), tf.float32)
    angles = distances[:, None] * _BASE**-steps
    return tf.cast(tf.concat([tf.sin(angles), tf.cos(angles)], 1), dtype)
