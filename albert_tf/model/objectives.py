"""Objectives: losses and metrics as weighted sums.

Sums can be added over replicas, batches and steps; means cannot. So an
objective gives a value and a weight for each sample of every loss and metric,
and the trainer adds up weighted values and weights. A result does not depend on
how the examples are divided into batches.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.model import fused_ops

# From this number of classes on, the fused cross-entropy is faster.
FUSED_FROM_CLASSES = 1000

Batch = Mapping[str, tf.Tensor]
Tensors = dict[str, tf.Tensor]


class Ratio(NamedTuple):
    """Two float32 scalars whose quotient is a loss or metric."""

    numerator: tf.Tensor
    denominator: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Objective:
    """Losses and metrics of a model.

    Attributes:
        losses: Name of each loss to its factor in the total that is minimized.
        metrics: Names of the values that are only reported.
        sample_weights: Batch to a weight for each sample (an example, or a
            masked word) of every loss and metric, float32. They follow from
            the batch alone, so that the denominators of a large batch are
            known before its first part has gone through the model.
        sample_values: (model, batch, dropout_seed) to the value for each
            sample of every loss and metric, in the same shapes: a function
            beside each head, such as `heads.pretraining._sample_values`. It
            calls the model. The seed is int32 [2] in training and None in
            evaluation.
        epsilons: Added to the denominators of some losses in training, as the
            original does.
    """

    losses: Mapping[str, float]
    metrics: tuple[str, ...]
    sample_weights: Callable[[Batch], Tensors]
    sample_values: Callable[[Any, Batch, tf.Tensor | None], Tensors]
    epsilons: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All losses and metrics, losses first."""
        return (*self.losses, *self.metrics)

    def denominators(self, batch: Batch) -> Tensors:
        """Return the sum of weights of every loss and metric."""
        weights = self.sample_weights(batch)
        return {name: tf.reduce_sum(weights[name]) for name in self.names}

    def ratios(
        self, model: Any, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> dict[str, Ratio]:
        """Return every loss and metric over a batch."""
        values = self.sample_values(model, batch, dropout_seed)
        weights = self.sample_weights(batch)
        return {
            name: Ratio(
                tf.reduce_sum(weights[name] * values[name]),
                tf.reduce_sum(weights[name]),
            )
            for name in self.names
        }

    def stack(self, ratios: Mapping[str, Ratio]) -> tf.Tensor:
        """Stack all ratios, float32 [names, (numerator, denominator)]."""
        return tf.stack([tf.stack(list(ratios[name])) for name in self.names])

    def total(self, ratios: Mapping[str, Ratio], sums: Tensors) -> tf.Tensor:
        """Return this batch's share of the loss of a larger batch.

        Args:
            ratios: From `ratios`.
            sums: Name to the denominator over the whole larger batch.
        """
        return tf.add_n(
            [
                tf.math.divide_no_nan(  # No entry may count for a loss.
                    factor * ratios[name].numerator,
                    sums[name] + self.epsilons.get(name, 0.0),
                )
                for name, factor in self.losses.items()
            ]
        )


def outputs(
    model: Any, batch: Batch, dropout_seed: tf.Tensor | None
) -> Tensors:
    """Run a model as `Objective.sample_values` asks for it.

    A seed means training, with dropout; None means evaluation.
    """
    result: Tensors = model(
        batch, training=dropout_seed is not None, dropout_seed=dropout_seed
    )
    return result


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the cross-entropy of each entry, in nats, float32 [...].

    Args:
        logits: float [..., classes], before the softmax.
        labels: int32 [...].
    """
    logits = tf.cast(logits, tf.float32)
    classes = logits.shape[-1]
    if classes is None or classes < FUSED_FROM_CLASSES:
        losses: tf.Tensor = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits
        )
        return losses
    rows = tf.reshape(logits, [-1, classes])
    fused = fused_ops.fused_cross_entropy(rows, tf.reshape(labels, [-1]))
    return tf.reshape(fused, tf.shape(labels))


def correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return 1 where the largest logit is the label, else 0; float32 [...]."""
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return tf.cast(tf.equal(best, labels), tf.float32)


def real_examples(batch: Batch) -> tf.Tensor:
    """Return 1 for examples and 0 for padding examples, float32 [batch]."""
    return tf.cast(batch["is_real_example"], tf.float32)
