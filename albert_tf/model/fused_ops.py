"""GELU, layer norm and softmax: plain, fused for training, and for serving.

An encoder consists of matrix products and of these three operations, whose cost
is memory traffic. They come in three versions that differ only by rounding:

- `PLAIN` follows the definitions.
- `FUSED` is for training. Its gradients are written by hand and keep one tensor
  where TensorFlow's keep five, and XLA fuses many passes over memory into one.
  It saves time and a third of a training step's memory
  (benchmarks/pretraining_step.py). In a step that XLA compiles as a whole it
  costs nothing.
- `SERVING` is for serving on a CPU below float32. It leaves the casts to
  TensorFlow's kernels, which compute in float32 internally.

`PLAIN` and `FUSED` compute in float32, whatever the dtype of inputs and
outputs. Make a change of one version in the others, too, and in the gradient.

`fused_cross_entropy` is the fused loss over a vocabulary, for training and
evaluation; its plain version is TensorFlow's.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import tensorflow as tf

# Original release, modeling.layer_norm; Keras would default to 1e-3.
LAYER_NORM_EPSILON = 1e-12
# Of the tanh form of GELU: the square root of 2 / pi, and the cubic term.
_SLOPE = 0.7978845608028654
_CUBIC = 0.044715


_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F, input_signature: Sequence[Any] | None = None) -> _F:
    """Compile a function with XLA, except where there is a TPU.

    TensorFlow compiles everything that runs on a TPU. Its wheel for TPUs cannot
    compile for the CPU of the host.

    Args:
        function: Takes and returns tensors.
        input_signature: Of `tf.function`.
    """
    by_xla = tf.function(
        function, input_signature, autograph=False, jit_compile=True
    )

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return (function if _has_tpu() else by_xla)(*arguments)

    return cast("_F", call)


def _has_tpu() -> bool:
    return bool(tf.config.list_logical_devices("TPU_SYSTEM"))


class Ops(NamedTuple):
    """One version of the three operations.

    Attributes:
        gelu: float [...] to the same; the tanh form.
        layer_norm: (x float [..., W], gamma [W], beta [W]) to the shape and
            dtype of x.
        softmax: (scores float [..., T], *biases float32, addable to them) to
            probabilities of the shape and dtype of the scores.
    """

    gelu: Callable[[tf.Tensor], tf.Tensor]
    layer_norm: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    softmax: Callable[..., tf.Tensor]

    def activation(self, name: str) -> Callable[[tf.Tensor], tf.Tensor]:
        """Return the activation that a config names, see `HIDDEN_ACTS`."""
        return {
            "gelu": self.gelu,
            "gelu_erf": _exact_gelu,
            "relu": tf.nn.relu,
            "tanh": tf.tanh,
            "linear": tf.identity,
        }[name]


def _gelu(x: tf.Tensor) -> tf.Tensor:
    y = tf.nn.gelu(tf.cast(x, tf.float32), approximate=True)
    return tf.cast(y, x.dtype)


def _layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    y = tf.cast(x, tf.float32)
    y -= tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(y), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    return tf.cast(y * scale * gamma + beta, x.dtype)


def _softmax(scores: tf.Tensor, *biases: tf.Tensor) -> tf.Tensor:
    probabilities = tf.nn.softmax(_sum(tf.cast(scores, tf.float32), *biases))
    return tf.cast(probabilities, scores.dtype)


def _sum(x: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
    """Return the sum of tensors of different shapes, in the dtype of x."""
    for other in others:
        x += tf.cast(other, x.dtype)
    return x


def _exact_gelu(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.gelu(x, approximate=False)


def _fusible_gelu(x: tf.Tensor) -> tf.Tensor:
    """GELU that TensorFlow fuses with the matrix product before it."""
    return tf.nn.gelu(x, approximate=True)


def _native_softmax(scores: tf.Tensor, *biases: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(_sum(scores, *biases))


_compiled_sum = compiled(_sum)
_compiled_softmax = compiled(_softmax)


def masked_softmax(scores: tf.Tensor, *biases: tf.Tensor) -> tf.Tensor:
    """Return what `Ops.softmax` does; without a gradient.

    In float32 oneDNN takes half of XLA's time. Not below: on other devices, and
    compiled by XLA as part of a whole step, TensorFlow's softmax would compute
    in the dtype of the scores.
    """
    if scores.dtype != tf.float32:
        return _compiled_softmax(scores, *biases)
    # Grappler does not know the shape of what XLA returns, and warns.
    biased = tf.reshape(_compiled_sum(scores, *biases), tf.shape(scores))
    return tf.nn.softmax(biased)


PLAIN = Ops(_gelu, _layer_norm, _softmax)
SERVING = PLAIN._replace(gelu=_fusible_gelu, softmax=_native_softmax)

compiled_gelu = compiled(_gelu)


@tf.custom_gradient
def _fused_gelu(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tf.Tensor]]:
    return compiled_gelu(x), lambda upstream: gelu_and_gradient(x, upstream)[1]


@compiled
def gelu_and_gradient(
    x: tf.Tensor, upstream: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return gelu(x), and the gradient of x from that of gelu(x)."""
    y, upstream = tf.cast(x, tf.float32), tf.cast(upstream, tf.float32)
    square = y * y
    tanh = tf.tanh(_SLOPE * y * (1.0 + _CUBIC * square))
    inner = _SLOPE * (1.0 + 3.0 * _CUBIC * square)
    half = 0.5 * (1.0 + tanh)
    slope = half + 0.5 * y * (1.0 - tanh * tanh) * inner
    return tf.cast(y * half, x.dtype), tf.cast(upstream * slope, x.dtype)


@tf.custom_gradient
def _fused_layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
) -> tuple[tf.Tensor, Callable[..., tuple[tf.Tensor, ...]]]:
    # Matrices: the gradients of gamma and beta are sums of columns, which XLA
    # computes five times as fast as sums over several axes.
    rows = tf.reshape(x, [-1, x.shape[-1]])
    y, mean, scale = _normalize(rows, gamma, beta)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        for_rows, for_gamma, for_beta = _layer_norm_gradient(
            rows, mean, scale, gamma, tf.reshape(upstream, tf.shape(rows))
        )
        return tf.reshape(for_rows, tf.shape(x)), for_gamma, for_beta

    return tf.ensure_shape(tf.reshape(y, tf.shape(x)), x.shape), gradient


@compiled
def _normalize(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the result, the mean, and 1 / the standard deviation.

    The result is [R, H] like x, the others are float32 [R, 1].
    """
    y = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(y - mean), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    return tf.cast((y - mean) * scale * gamma + beta, x.dtype), mean, scale


@compiled
def _layer_norm_gradient(
    x: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    gamma: tf.Tensor,
    upstream: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    normalized = (tf.cast(x, tf.float32) - mean) * scale
    upstream = tf.cast(upstream, tf.float32)
    for_beta = tf.reduce_sum(upstream, 0)
    for_gamma = tf.reduce_sum(upstream * normalized, 0)
    inner = upstream * gamma
    # Shifting or scaling a row of x does not change the result. So the gradient
    # has no part in these two directions.
    inner -= tf.reduce_mean(inner, -1, keepdims=True) + normalized * (
        tf.reduce_mean(inner * normalized, -1, keepdims=True)
    )
    return tf.cast(scale * inner, x.dtype), for_gamma, for_beta


@tf.custom_gradient
def _fused_softmax(
    scores: tf.Tensor, *biases: tf.Tensor
) -> tuple[tf.Tensor, Callable[..., tuple[tf.Tensor | None, ...]]]:
    """No gradient flows into the biases, which are not trained."""
    probabilities = masked_softmax(scores, *biases)
    return probabilities, lambda upstream: (
        _softmax_gradient(probabilities, upstream),
        *[None] * len(biases),
    )


@compiled
def _softmax_gradient(
    probabilities: tf.Tensor, upstream: tf.Tensor
) -> tf.Tensor:
    p, upstream = (
        tf.cast(probabilities, tf.float32),
        tf.cast(upstream, tf.float32),
    )
    mean = tf.reduce_sum(p * upstream, -1, keepdims=True)
    return tf.cast(p * (upstream - mean), probabilities.dtype)


FUSED = Ops(_fused_gelu, _fused_layer_norm, _fused_softmax)


@tf.custom_gradient
def fused_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, Callable[..., tuple[tf.Tensor, None]]]:
    """Return the cross-entropy of each row, in nats, float32 [N].

    NaN where the label is no class, as TensorFlow's own gives on accelerators;
    the gradient is finite there, so look at the loss.

    Args:
        logits: float32 [N, classes], before the softmax.
        labels: int32 [N].
    """
    losses, largest, log_sums = _cross_entropy(logits, labels)
    return losses, lambda upstream: (
        _cross_entropy_gradient(logits, labels, largest, log_sums, upstream),
        None,
    )


@compiled
def _cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the losses; the largest logits; log Σ exp(logit - largest)."""
    largest = tf.reduce_max(logits, -1)
    shifted = logits - largest[:, None]
    log_sums = tf.math.log(tf.reduce_sum(tf.exp(shifted), -1))
    wanted = tf.reduce_sum(
        tf.where(_is_label(logits, labels), shifted, 0.0), -1
    )
    known = (labels >= 0) & (labels < logits.shape[-1])
    losses = tf.where(known, log_sums - wanted, float("nan"))
    return losses, largest, log_sums


@compiled
def _cross_entropy_gradient(
    logits: tf.Tensor,
    labels: tf.Tensor,
    largest: tf.Tensor,
    log_sums: tf.Tensor,
    upstream: tf.Tensor,
) -> tf.Tensor:
    # Subtracted one after the other: where logits are large, the sum of the
    # two would be rounded.
    logs = (logits - largest[:, None]) - log_sums[:, None]
    wanted = tf.cast(_is_label(logits, labels), tf.float32)
    return (tf.exp(logs) - wanted) * upstream[:, None]


def _is_label(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return labels[:, None] == tf.range(logits.shape[-1], dtype=labels.dtype)
