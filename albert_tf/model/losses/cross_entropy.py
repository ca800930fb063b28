"""The cross-entropy of a softmax, and its accuracy."""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.model.execution import xla
from albert_tf.model.losses.objectives import Tensors

# From this number of classes on, the fused form is faster than TensorFlow's.
FUSED_FROM_CLASSES = 1000


def loss_and_accuracy(
    name: str, logits: tf.Tensor, labels: tf.Tensor
) -> Tensors:
    """Return `NAME_loss` and `NAME_accuracy` of each entry, float32 [...]."""
    return {
        f"{name}_loss": compute(logits, labels),
        f"{name}_accuracy": correct(logits, labels),
    }


def correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return 1 where the largest logit is the label, else 0; float32 [...]."""
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return tf.cast(tf.equal(best, labels), tf.float32)


def compute(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the cross-entropy of each entry, in nats, float32 [...].

    Args:
        logits: float [..., classes], before the softmax.
        labels: int32 [...].
    """
    logits = tf.cast(logits, tf.float32)
    classes = logits.shape[-1]
    if classes is None or classes < FUSED_FROM_CLASSES:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits
        )
    rows = tf.reshape(logits, [-1, classes])
    return tf.reshape(fused(rows, tf.reshape(labels, [-1])), tf.shape(labels))


@tf.custom_gradient
def fused(
    logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, Callable[..., tuple[tf.Tensor, None]]]:
    """Return the cross-entropy of each row, in nats, float32 [N].

    NaN where the label is no class, as TensorFlow's own gives on accelerators;
    the gradient is finite there, so look at the loss.
    """
    losses, largest, log_sums = _cross_entropy(logits, labels)
    return losses, lambda dy: (
        _cross_entropy_gradient(logits, labels, largest, log_sums, dy),
        None,
    )


@xla.xla_compiled
def _cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the losses; the largest logits; log Σ exp(logit - largest)."""
    largest = tf.reduce_max(logits, -1)
    shifted = logits - largest[:, None]
    log_sums = tf.math.log(tf.reduce_sum(tf.exp(shifted), -1))
    label_logits = tf.reduce_sum(
        tf.where(_is_label(logits, labels), shifted, 0.0), -1
    )
    is_class = (labels >= 0) & (labels < logits.shape[-1])
    losses = tf.where(is_class, log_sums - label_logits, float("nan"))
    return losses, largest, log_sums


@xla.xla_compiled
def _cross_entropy_gradient(
    logits: tf.Tensor,
    labels: tf.Tensor,
    largest: tf.Tensor,
    log_sums: tf.Tensor,
    dy: tf.Tensor,
) -> tf.Tensor:
    # Subtracted one after the other: where logits are large, the sum of the
    # two would be rounded.
    logs = (logits - largest[:, None]) - log_sums[:, None]
    is_label = tf.cast(_is_label(logits, labels), tf.float32)
    return (tf.exp(logs) - is_label) * dy[:, None]


def _is_label(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return labels[:, None] == tf.range(logits.shape[-1], dtype=labels.dtype)
