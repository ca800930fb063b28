"""A loss or metric as a numerator and a denominator.

Sums can be added over replicas, batches and steps, quotients cannot. So heads
return `Ratio`s, the trainer adds them up, and a result never depends on how the
examples were cut into batches.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf


class Ratio(NamedTuple):
    """Two float32 scalars whose quotient is a loss or metric."""

    numerator: tf.Tensor
    denominator: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Objective:
    """What a model is trained for.

    Attributes:
        losses: Names of the ratios whose quotients are added up and minimized.
        metrics: Names of the ratios that are only reported.
        compute: (model, batch, dropout_seed) to a ratio for every name. The
            seed is int32 [2] in training and None in evaluation.
    """

    losses: tuple[str, ...]
    metrics: tuple[str, ...]
    compute: Callable[
        [Any, Mapping[str, tf.Tensor], tf.Tensor | None], dict[str, Ratio]
    ]

    @property
    def names(self) -> tuple[str, ...]:
        """All ratios, losses first."""
        return self.losses + self.metrics


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> Ratio:
    """Return the weighted cross-entropy of softmax logits, in nats.

    Args:
        logits: float [..., classes].
        labels: int32 [...].
        weights: float [...], 0 for entries that do not count.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )
    return Ratio(tf.reduce_sum(weights * losses), tf.reduce_sum(weights))


def accuracy(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Ratio:
    """Return the weighted share of labels that the largest logit hits."""
    hits = tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels)
    hits = tf.cast(hits, tf.float32)
    return Ratio(tf.reduce_sum(weights * hits), tf.reduce_sum(weights))
