"""Parts of a block that keep little for their gradient, for training.

Where TensorFlow would keep a result, the gradient computes it again from what
is kept anyway: probabilities from queries and keys, the result of GELU from its
input. The docstring of each function says what it equals in plain operations;
the tests compare both.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.model import fused_ops, layers

Gradient = Callable[..., tuple[tf.Tensor | None, ...]]


@tf.custom_gradient
def attend(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, *biases: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """Return softmax(query · key + biases) · value, heads side by side.

    No gradient flows into the biases, which are not trained.

    Args:
        query: float [B, N, S, D].
        key: float [B, N, T, D].
        value: float [B, N, T, D].
        biases: float32, such as [B, 1, 1, T], [B, 1, S, T], [N, S, T] or
            [B, N, S, T].

    Returns:
        float [B, S, H].

    Source of the gradient: Dao et al., arXiv 2205.14135, appendix B.2.
    """

    def probabilities() -> tf.Tensor:
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, S, T]
        return fused_ops.masked_softmax(scores, *biases)

    context = _merge_heads(tf.matmul(probabilities(), value))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        # Otherwise TensorFlow could compute them before the gradient is needed,
        # and keep them.
        with tf.control_dependencies([upstream]):
            again = probabilities()
        heads = _split_heads(upstream, like=query)
        for_probabilities = tf.matmul(heads, value, transpose_b=True)
        means = _sum_in_each_head(upstream, context, query.shape[1])
        for_scores = _scores_gradient(again, for_probabilities, means)
        return (
            tf.matmul(for_scores, key),
            tf.matmul(for_scores, query, transpose_a=True),
            tf.matmul(again, heads, transpose_a=True),
            *[None] * len(biases),
        )

    return context, gradient


def _merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Transpose [B, N, S, D] to [B, S, H]."""
    x = tf.transpose(x, [0, 2, 1, 3])
    width = x.shape[2] * x.shape[3]
    return tf.reshape(x, tf.concat([tf.shape(x)[:2], [width]], 0))


def _split_heads(x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Transpose [B, S, H] to [B, N, S, D], the shape of `like`."""
    sizes = [like.shape[1], like.shape[3]]
    x = tf.reshape(x, tf.concat([tf.shape(x)[:2], sizes], 0))
    return tf.transpose(x, [0, 2, 1, 3])


@fused_ops.compiled
def _sum_in_each_head(
    upstream: tf.Tensor, context: tf.Tensor, heads: int
) -> tf.Tensor:
    """Return Σ upstream · context over each head's D, float32 [B, N, S, 1].

    It equals the sum over T of all probabilities times their gradients.
    """
    products = tf.cast(upstream, tf.float32) * tf.cast(context, tf.float32)
    size = context.shape[-1] // heads
    shape = tf.concat([tf.shape(context)[:2], [heads, size]], 0)
    sums = tf.reduce_sum(tf.reshape(products, shape), -1)
    return tf.transpose(sums, [0, 2, 1])[..., None]


@fused_ops.compiled
def _scores_gradient(
    probabilities: tf.Tensor, upstream: tf.Tensor, means: tf.Tensor
) -> tf.Tensor:
    """Return the gradient of the scores from that of the probabilities."""
    p, upstream = (tf.cast(x, tf.float32) for x in (probabilities, upstream))
    return tf.cast(p * (upstream - means), probabilities.dtype)


@tf.custom_gradient
def linear(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """Return x @ kernel + bias; the gradient of the bias is faster.

    All are of one dtype.

    Args:
        x: float [..., inputs].
        kernel: float [inputs, units].
        bias: float [units].
    """

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        inputs, units = kernel.shape
        rows = tf.reshape(upstream, [-1, units])
        for_x = tf.matmul(rows, kernel, transpose_b=True)
        for_kernel = tf.matmul(
            tf.reshape(x, [-1, inputs]), rows, transpose_a=True
        )
        return tf.reshape(for_x, tf.shape(x)), for_kernel, _sum_rows(rows)

    return layers.linear(x, kernel, bias), gradient


@tf.custom_gradient
def gelu_linear(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """Return gelu(x) @ kernel + bias; for the arguments see `linear`."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        inputs, units = kernel.shape
        rows = tf.reshape(upstream, [-1, units])
        activated, for_x = fused_ops.gelu_and_gradient(
            tf.reshape(x, [-1, inputs]),
            tf.matmul(rows, kernel, transpose_b=True),
        )
        for_kernel = tf.matmul(activated, rows, transpose_a=True)
        return tf.reshape(for_x, tf.shape(x)), for_kernel, _sum_rows(rows)

    return layers.linear(fused_ops.compiled_gelu(x), kernel, bias), gradient


def _sum_rows(rows: tf.Tensor) -> tf.Tensor:
    """Sum over the first axis, with a product: faster than BiasAddGrad."""
    ones = tf.ones([1, tf.shape(rows)[0]], rows.dtype)
    return tf.reshape(tf.matmul(ones, rows), [-1])


@tf.custom_gradient
def fork(*tensors: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], Any]:
    """Return tensors twice: for one use, and for all later uses.

    TensorFlow keeps the gradients of all uses of a tensor and adds them up at
    the end. With a fork before each use, the gradient of the use is added to
    the sum of the later ones as soon as it is known.
    """

    def gradient(*upstreams: tf.Tensor) -> list[tf.Tensor]:
        count = len(tensors)
        pairs = zip(upstreams[:count], upstreams[count:], strict=True)
        return [now + later for now, later in pairs]

    return (*tensors, *tensors), gradient
