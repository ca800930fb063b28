"""The four operations of a transformer layer, by their definitions.

`linear`, `attention`, `feed_forward` and `layer_norm`: the network computes
with them outside of training. `training_ops` has the same four with gradients
of their own, `serving` its own attention and activation; a change here needs
the same change there. What else is here is used in training, too.

Softmax and norm compute in float32, whatever the dtype of inputs and outputs;
so does the GELU with tanh. Dimensions are those of `network.encoder`.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.model.seeds import Dropout


def linear(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Return x @ kernel + bias.

    A product of two matrices is faster than one of higher rank, and TensorFlow
    fuses the bias with it.

    Args:
        x: float [..., inputs].
        kernel: float [inputs, units], in the dtype of x.
        bias: float [units], in the dtype of x.
    """
    if x.shape.rank == 2:
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)
    inputs, units = kernel.shape
    rows = linear(tf.reshape(x, [-1, inputs]), kernel, bias)
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [units]], 0))


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    biases: Sequence[tf.Tensor] = (),
    dropout: Dropout = tf.identity,
) -> tf.Tensor:
    """Return softmax(query · key / √D + biases) · value, heads side by side.

    Args:
        query: float [B, N, S, D].
        key: float [B, N, T, D].
        value: float [B, N, T, D].
        biases: float32, added to the scores [B, N, S, T], such as
            [B, 1, 1, T], [B, 1, S, T], [N, S, T] or [B, N, S, T].

    Returns:
        float [B, S, H].
    """
    scores = tf.matmul(query * scale_of(query), key, transpose_b=True)
    probabilities = dropout(biased_softmax(scores, *biases))
    return merge_heads(tf.matmul(probabilities, value))


def scale_of(query: tf.Tensor) -> float:
    """Return 1 / √D for queries [B, N, S, D]."""
    return float(query.shape[-1] ** -0.5)


def biased_softmax(scores: tf.Tensor, *biases: tf.Tensor) -> tf.Tensor:
    """Return softmax(scores + biases), float [..., T], in the scores' dtype."""
    total = tf.cast(scores, tf.float32)
    for bias in biases:
        total += bias
    return tf.cast(tf.nn.softmax(total), scores.dtype)


def split_heads(
    x: tf.Tensor, heads: int, like: tf.Tensor | None = None
) -> tf.Tensor:
    """Transpose [B, S, H] to [B, N, S, D].

    Args:
        x: float [B, S, H].
        like: What x is the linear transform of, if it is: tf2onnx gets the
            shape of x wrong then, and the shape of this one right.
    """
    shape = tf.shape(x if like is None else like)[:2]
    x = tf.reshape(x, tf.concat([shape, [heads, x.shape[-1] // heads]], 0))
    return tf.transpose(x, [0, 2, 1, 3])


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Transpose [B, N, S, D] to [B, S, H]."""
    x = tf.transpose(x, [0, 2, 1, 3])
    width = x.shape[2] * x.shape[3]
    return tf.reshape(x, tf.concat([tf.shape(x)[:2], [width]], 0))


def feed_forward(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    output_kernel: tf.Tensor,
    output_bias: tf.Tensor,
    hidden_act: str,
) -> tf.Tensor:
    """Return a linear layer of the activated result of another one.

    Args:
        x: float [B, S, H].
        kernel: float [H, I].
        bias: float [I].
        output_kernel: float [I, H].
        output_bias: float [H].
    """
    rows = tf.reshape(x, [-1, x.shape[-1]])
    hidden = activation(hidden_act)(linear(rows, kernel, bias))
    return tf.reshape(linear(hidden, output_kernel, output_bias), tf.shape(x))


def activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the activation that a config names, see `config.HIDDEN_ACTS`."""
    return {
        "gelu": gelu,
        "gelu_erf": lambda x: tf.nn.gelu(x, approximate=False),
        "relu": tf.nn.relu,
        "tanh": tf.tanh,
        "linear": tf.identity,
    }[name]


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Return the tanh form of GELU, for float [...]."""
    y = tf.nn.gelu(tf.cast(x, tf.float32), approximate=True)
    return tf.cast(y, x.dtype)


def layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Normalize float [..., W] over its last axis.

    Args:
        x: float [..., W].
        gamma: float32 [W], the factor.
        beta: float32 [W], what is added.
        epsilon: What is added to the variance.
    """
    y = tf.cast(x, tf.float32)
    y -= tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(y), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return tf.cast(y * scale * gamma + beta, x.dtype)
