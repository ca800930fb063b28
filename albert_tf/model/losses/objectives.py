"""Objectives: losses and metrics as weighted sums.

Sums can be added over replicas, batches and steps; means cannot. So an
objective gives a value and a weight for each sample of every loss and metric,
and the trainer adds up weighted values and weights. A result does not depend on
how the examples are divided into batches.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

Batch = Mapping[str, tf.Tensor]
Tensors = dict[str, tf.Tensor]
Forward = Callable[[Any, Batch, tf.Tensor | None], tuple[Tensors, Batch]]


def run(model: Any, batch: Batch, dropout_seed: tf.Tensor | None) -> Tensors:
    """Run a model. A seed means training, with dropout; None evaluation."""
    return model(
        batch, training=dropout_seed is not None, dropout_seed=dropout_seed
    )


def plain_forward(
    model: Any, batch: Batch, dropout_seed: tf.Tensor | None
) -> tuple[Tensors, Batch]:
    """Run a model; the batch stays."""
    return run(model, batch, dropout_seed), batch


class WeightedSum(NamedTuple):
    """A weighted sum and the sum of its weights, float32 scalars.

    Their quotient is a loss or metric.
    """

    numerator: tf.Tensor
    denominator: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Objective:
    """Losses and metrics of a model.

    Attributes:
        losses: Name of each loss to its factor in the total that is minimized.
        metrics: Names of the values that are only reported.
        sample_weights: Batch to a weight for each sample (an example, or a
            masked word) of every loss and metric, float32. They follow from the
            batch alone, so that the normalizers of a large batch are known
            before its first part has gone through the model.
        sample_values: (outputs, batch) to the value for each sample of every
            loss and metric, in the same shapes.
        forward: (model, batch, dropout_seed) to these two. The seed is int32
            [2] in training and None in evaluation.
        epsilons: Added to the normalizers of some losses in training, as the
            original does.
    """

    losses: Mapping[str, float]
    metrics: tuple[str, ...]
    sample_weights: Callable[[Batch], Tensors]
    sample_values: Callable[[Tensors, Batch], Tensors]
    forward: Forward = plain_forward
    epsilons: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All losses and metrics, losses first."""
        return (*self.losses, *self.metrics)

    def normalizers(self, batch: Batch) -> Tensors:
        """Return the sum of weights of every loss and metric."""
        weights = self.sample_weights(batch)
        return {name: tf.reduce_sum(weights[name]) for name in self.names}

    def values(
        self, model: Any, batch: Batch, dropout_seed: tf.Tensor | None
    ) -> Tensors:
        """Run a model, and return the value of each sample, by name."""
        return self.sample_values(*self.forward(model, batch, dropout_seed))

    def weighted_sums(
        self, model: Any, batch: Batch, dropout_seed: tf.Tensor | None = None
    ) -> dict[str, WeightedSum]:
        """Return every loss and metric over a batch."""
        values = self.values(model, batch, dropout_seed)
        weights = self.sample_weights(batch)
        return {
            name: WeightedSum(
                tf.reduce_sum(weights[name] * values[name]),
                tf.reduce_sum(weights[name]),
            )
            for name in self.names
        }

    def stack(self, sums: Mapping[str, WeightedSum]) -> tf.Tensor:
        """Stack all sums, float32 [names, (numerator, denominator)]."""
        return tf.stack([tf.stack(list(sums[name])) for name in self.names])

    def total(
        self, sums: Mapping[str, WeightedSum], normalizers: Tensors
    ) -> tf.Tensor:
        """Return the loss: the sum of factor · numerator / normalizer."""
        return tf.add_n(
            [
                tf.math.divide_no_nan(  # No entry may count for a loss.
                    factor * sums[name].numerator,
                    normalizers[name] + self.epsilons.get(name, 0.0),
                )
                for name, factor in self.losses.items()
            ]
        )


def per_example(
    losses: Mapping[str, float],
    sample_values: Callable[[Tensors, Batch], Tensors],
    metrics: tuple[str, ...] = (),
    forward: Forward = plain_forward,
) -> Objective:
    """Return an objective with one value for each example, all of weight 1."""
    names = (*losses, *metrics)
    return Objective(
        losses,
        metrics,
        lambda batch: dict.fromkeys(names, real_examples(batch)),
        sample_values,
        forward,
    )


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One of several losses on the same outputs, with its metrics.

    Attributes:
        name: What the names of its numbers begin with: `NAME_loss` and so on.
        factor: Of the loss in the total.
        weights: Batch to the weight of each sample, as `sample_weights`.
        values: (outputs, batch) to the value of each sample, by full name.
        metrics: What is reported beside the loss.
        epsilon: See `Objective.epsilons`.
    """

    name: str
    factor: float
    weights: Callable[[Batch], tf.Tensor]
    values: Callable[[Tensors, Batch], Tensors]
    metrics: tuple[str, ...] = ("accuracy",)
    epsilon: float = 0.0


def combine(
    terms: Sequence[LossTerm], forward: Forward = plain_forward
) -> Objective:
    """Return the objective whose loss is the sum of several terms."""

    def weights(batch: Batch) -> Tensors:
        return {
            f"{term.name}_{kind}": weight
            for term in terms
            for weight in [term.weights(batch)]
            for kind in ("loss", *term.metrics)
        }

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        values: Tensors = {}
        for term in terms:
            values |= term.values(outputs, batch)
        return values

    return Objective(
        losses={f"{term.name}_loss": term.factor for term in terms},
        metrics=tuple(f"{t.name}_{kind}" for t in terms for kind in t.metrics),
        sample_weights=weights,
        sample_values=sample_values,
        forward=forward,
        epsilons={f"{t.name}_loss": t.epsilon for t in terms if t.epsilon},
    )


def real_examples(batch: Batch) -> tf.Tensor:
    """Return 1 for examples and 0 for padding examples, float32 [batch]."""
    return tf.cast(batch["is_real_example"], tf.float32)


def token_mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return float32 [batch]: the mean over tokens [batch, S] that count.

    It is 0 where none does.
    """
    sums = tf.reduce_sum(values * weights, -1)
    return tf.math.divide_no_nan(sums, tf.reduce_sum(weights, -1))
