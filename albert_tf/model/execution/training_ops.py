"""The four operations of `plain` with gradients of their own, for training.

TensorFlow's gradients keep every intermediate result. These keep what is there
anyway and compute the rest again: probabilities from queries and keys, the
result of GELU from its input, a normalized row from its mean and scale. XLA
fuses what passes over memory into one loop. Of albert-base, 8 sequences of
128, bfloat16, a step with `plain` instead took 3.25 s and 2,293 MiB, with these
3.03 s and 1,506 MiB. In a step that XLA compiles as a whole they cost nothing.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.model.execution import plain
from albert_tf.model.execution.xla import xla_compiled
from albert_tf.model.seeds import Dropout

# Of the tanh form of GELU: the square root of 2 / pi, and the cubic term.
_SLOPE = 0.7978845608028654
_CUBIC = 0.044715

Gradient = Callable[..., tuple[tf.Tensor, ...]]


@tf.custom_gradient
def linear(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """See `plain.linear`; the gradient of the bias is a product."""
    y = plain.linear(x, kernel, bias)
    return y, lambda dy: _linear_gradient(x, kernel, dy)


def _linear_gradient(
    x: tf.Tensor,
    kernel: tf.Tensor,
    dy: tf.Tensor,
    recompute: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
) -> tuple[tf.Tensor, ...]:
    """Return the gradients of x, kernel and bias.

    Of a linear layer on act(x), `recompute` makes act(x) and the gradient of x
    from rows of x and the gradient of act(x).
    """
    inputs, units = kernel.shape
    dy = tf.reshape(dy, [-1, units])
    rows = tf.reshape(x, [-1, inputs])
    dx = tf.matmul(dy, kernel, transpose_b=True)
    if recompute:
        rows, dx = recompute(rows, dx)
    dkernel = tf.matmul(rows, dy, transpose_a=True)
    # A product is faster than BiasAddGrad.
    dbias = tf.matmul(tf.ones([1, tf.shape(dy)[0]], dy.dtype), dy)
    return tf.reshape(dx, tf.shape(x)), dkernel, tf.reshape(dbias, [-1])


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    biases: Sequence[tf.Tensor] = (),
    dropout: Dropout = tf.identity,
) -> tf.Tensor:
    """See `plain.attention`; keeps queries, keys, values and the result.

    The gradient is that of a softmax of scaled products. For another function
    of the scores begin with `plain.attention` in its place: TensorFlow derives
    the gradient and keeps all probabilities.

    Source of the gradient: Dao et al., arXiv 2205.14135, appendix B.2.
    """

    # A function of its own: `dropout` is no tensor.
    @tf.custom_gradient
    def attend(
        query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, *biases: tf.Tensor
    ) -> tuple[tf.Tensor, Gradient]:
        dropped = dropout(_probabilities(query, key, biases))
        context = plain.merge_heads(tf.matmul(dropped, value))

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # Otherwise TensorFlow could compute them before the gradient is
            # needed, and keep them.
            scale, heads = plain.scale_of(query), query.shape[1]
            delta = _delta(dy, context, heads)
            with tf.control_dependencies([dy]):
                dy = plain.split_heads(dy, heads)
                recomputed = _probabilities(query, key, biases)
                dropped = dropout(recomputed)
                # Dropout is linear and draws the same again: its gradient is
                # the same dropout.
                dprobabilities = dropout(tf.matmul(dy, value, transpose_b=True))
            dproducts = _dproducts(recomputed, dprobabilities, delta, scale)
            return (
                tf.matmul(dproducts, key),
                tf.matmul(dproducts, query, transpose_a=True),
                tf.matmul(dropped, dy, transpose_a=True),
                *(_sum_to_shape(dproducts, bias) / scale for bias in biases),
            )

        return context, gradient

    return attend(query, key, value, *biases)


def _probabilities(
    query: tf.Tensor, key: tf.Tensor, biases: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return softmax(query · key / √D + biases), float [B, N, S, T].

    In float32 oneDNN's softmax takes half of XLA's time. In bfloat16 and
    float16 XLA computes it, from float32: on other devices, and as part of a
    compiled step, `tf.nn.softmax` would compute in the scores' dtype.
    """
    scores = tf.matmul(query, key, transpose_b=True)
    scale = plain.scale_of(query)
    if scores.dtype != tf.float32:
        return _scaled_softmax(scores, scale, *biases)
    # Grappler does not know the shape of what XLA returns, and warns.
    biased = _scale_and_add(scores, scale, *biases)
    return tf.nn.softmax(tf.reshape(biased, tf.shape(scores)))


@xla_compiled
def _scaled_softmax(
    scores: tf.Tensor, scale: float, *biases: tf.Tensor
) -> tf.Tensor:
    wide = tf.cast(scores, tf.float32) * scale
    return tf.cast(plain.biased_softmax(wide, *biases), scores.dtype)


@xla_compiled
def _scale_and_add(
    scores: tf.Tensor, scale: float, *biases: tf.Tensor
) -> tf.Tensor:
    return sum(biases, scores * scale)


@xla_compiled
def _delta(dy: tf.Tensor, context: tf.Tensor, heads: int) -> tf.Tensor:
    """Return Σ dy · context over each head's D, float32 [B, N, S, 1].

    It equals the sum over T of all probabilities times their gradients.
    """
    products = tf.cast(dy, tf.float32) * tf.cast(context, tf.float32)
    return tf.reduce_sum(plain.split_heads(products, heads), -1, keepdims=True)


@xla_compiled
def _dproducts(
    probabilities: tf.Tensor,
    dprobabilities: tf.Tensor,
    delta: tf.Tensor,
    scale: float,
) -> tf.Tensor:
    """Return the gradient of the products query · key, [B, N, S, T]."""
    p = tf.cast(probabilities, tf.float32)
    dscores = p * (tf.cast(dprobabilities, tf.float32) - delta)
    return tf.cast(dscores * scale, probabilities.dtype)


def _sum_to_shape(x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum over the axes along which `like` was repeated to the shape of x."""
    axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(x))
    total = tf.reduce_sum(tf.cast(x, like.dtype), axes.r0)
    return tf.reshape(total, tf.shape(like))


def feed_forward(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    output_kernel: tf.Tensor,
    output_bias: tf.Tensor,
    hidden_act: str,
) -> tf.Tensor:
    """See `plain.feed_forward`; of GELU only the input is kept."""
    hidden = linear(x, kernel, bias)
    if hidden_act == "gelu":
        return _gelu_dense(hidden, output_kernel, output_bias)
    activated = plain.activation(hidden_act)(hidden)
    return linear(activated, output_kernel, output_bias)


_gelu = xla_compiled(plain.gelu)


@tf.custom_gradient
def _gelu_dense(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """Return gelu(x) @ kernel + bias."""
    y = plain.linear(_gelu(x), kernel, bias)
    return y, lambda dy: _linear_gradient(x, kernel, dy, _gelu_and_gradient)


@xla_compiled
def _gelu_and_gradient(
    x: tf.Tensor, dy: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return gelu(x), and the gradient of x from that of gelu(x)."""
    y, dy = tf.cast(x, tf.float32), tf.cast(dy, tf.float32)
    square = y * y
    tanh = tf.tanh(_SLOPE * y * (1.0 + _CUBIC * square))
    inner = _SLOPE * (1.0 + 3.0 * _CUBIC * square)
    half = 0.5 * (1.0 + tanh)
    slope = half + 0.5 * y * (1.0 - tanh * tanh) * inner
    return tf.cast(y * half, x.dtype), tf.cast(dy * slope, x.dtype)


def layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """See `plain.layer_norm`; keeps the input, and two numbers of each row."""

    @tf.custom_gradient
    def normalize(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Gradient]:
        # Matrices: the gradients of gamma and beta are sums of columns, which
        # XLA computes five times as fast as sums over several axes.
        rows = tf.reshape(x, [-1, x.shape[-1]])
        y, mean, scale = _normalize(rows, gamma, beta, epsilon)

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
            drows, dgamma, dbeta = _layer_norm_gradient(
                rows, mean, scale, gamma, tf.reshape(dy, tf.shape(rows))
            )
            return tf.reshape(drows, tf.shape(x)), dgamma, dbeta

        return tf.ensure_shape(tf.reshape(y, tf.shape(x)), x.shape), gradient

    return normalize(x, gamma, beta)


@xla_compiled
def _normalize(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the result, the mean, and 1 / the standard deviation.

    The result is [R, H] like x, the others are float32 [R, 1].
    """
    y = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(y - mean), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return tf.cast((y - mean) * scale * gamma + beta, x.dtype), mean, scale


@xla_compiled
def _layer_norm_gradient(
    x: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    gamma: tf.Tensor,
    dy: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    normalized = (tf.cast(x, tf.float32) - mean) * scale
    dy = tf.cast(dy, tf.float32)
    dbeta = tf.reduce_sum(dy, 0)
    dgamma = tf.reduce_sum(dy * normalized, 0)
    inner = dy * gamma
    # Shifting or scaling a row of x does not change the result. So the gradient
    # has no part in these two directions.
    inner -= tf.reduce_mean(inner, -1, keepdims=True) + normalized * (
        tf.reduce_mean(inner * normalized, -1, keepdims=True)
    )
    return tf.cast(scale * inner, x.dtype), dgamma, dbeta
