"""Objectives of classifiers, of tokens too, regressions, multiple choice."""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors


def _classification(
    labels: Callable[[Batch], tf.Tensor],
    weights: Callable[[Batch], tf.Tensor],
    class_weights: Sequence[float] | None = None,
) -> objectives.Objective:
    """Return the objective of `logits` [..., classes].

    Args:
        labels: Batch to the number of the right class, int32 [...].
        weights: Batch to the weight of each label, float32 [...].
        class_weights: What labels of each class count in the loss.
    """

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        logits, targets = outputs["logits"], labels(batch)
        return {
            "classification_loss": cross_entropy.compute(logits, targets),
            "accuracy": cross_entropy.correct(logits, targets),
        }

    def sample_weights(batch: Batch) -> Tensors:
        by_name = dict.fromkeys(
            ("classification_loss", "accuracy"), weights(batch)
        )
        if class_weights is not None:
            by_name["classification_loss"] *= tf.gather(
                tf.constant(class_weights, tf.float32), labels(batch)
            )
        return by_name

    return objectives.Objective(
        losses={"classification_loss": 1.0},
        metrics=("accuracy",),
        sample_weights=sample_weights,
        sample_values=sample_values,
    )


@functools.cache
def weighted(class_weights: tuple[float, ...] | None) -> objectives.Objective:
    """Return the objective of classifiers whose classes count differently."""
    return _classification(
        lambda batch: batch["label_ids"],
        objectives.real_examples,
        class_weights,
    )


# Of classifiers, and of multiple choice.
CLASSIFICATION = weighted(None)


def multi_label(
    class_weights: Sequence[Sequence[float]] | None,
) -> objectives.Objective:
    """Return the objective of classifiers that give several labels, or none.

    `label_ids` are int32 [B, labels], 0 or 1. The loss is the binary
    cross-entropy, in nats, of the mean label. The weights, [labels][2], are
    what 0 and 1 count of each label.
    """

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        labels = tf.cast(batch["label_ids"], tf.float32)
        return {
            "classification_loss": tf.nn.sigmoid_cross_entropy_with_logits(
                labels, tf.cast(outputs["logits"], tf.float32)
            )
        }

    def sample_weights(batch: Batch) -> Tensors:
        labels = batch["label_ids"]
        weights = tf.ones(tf.shape(labels))
        if class_weights is not None:
            no, yes = tf.unstack(tf.constant(class_weights, tf.float32), axis=1)
            weights = tf.where(labels > 0, yes, no)
        weights *= objectives.real_examples(batch)[:, None]
        return {"classification_loss": weights}

    return objectives.Objective(
        losses={"classification_loss": 1.0},
        metrics=(),
        sample_weights=sample_weights,
        sample_values=sample_values,
    )


def _token_weights(batch: Batch) -> tf.Tensor:
    labels = tf.cast(batch["label_ids"] > 0, tf.float32)
    return labels * objectives.real_examples(batch)[:, None]


# `label_ids` are int32 [B, S], from 1; tokens with 0 do not count.
TOKENS = _classification(
    lambda batch: tf.maximum(batch["label_ids"] - 1, 0), _token_weights
)


@functools.cache
def regression(mean: float, deviation: float) -> objectives.Objective:
    """Return the objective of numbers; `label_ids` are float32 [B].

    The labels are in units of the deviation from the mean. float32 could not
    tell large numbers apart that differ by the deviation.
    """

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        number = tf.cast(outputs["logits"][:, 0], tf.float64)
        units = tf.cast((number - mean) / deviation, tf.float32)
        return {"regression_loss": tf.square(units - batch["label_ids"])}

    return objectives.per_example({"regression_loss": 1.0}, sample_values)


# The numbers are on their own scale.
REGRESSION = regression(0.0, 1.0)
