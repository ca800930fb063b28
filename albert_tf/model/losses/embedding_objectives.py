"""Objectives of vectors of texts."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors

VECTOR = "embedding"
# The logit of a text that is no negative, or only fills up the batch.
_MASKED_LOGIT = -1e9


def _squared_error(outputs: Tensors, batch: Batch) -> Tensors:
    vectors = outputs[VECTOR]
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], -1)
    return {"cosine_loss": tf.square(cosines - batch["label_ids"])}


# `label_ids` are float32 [B], from -1 to 1.
COSINE = objectives.per_example({"cosine_loss": 1.0}, _squared_error)


def ranking(temperature: float) -> objectives.Objective:
    """Return the contrastive objective, with the batch's texts as negatives.

    The first text of an example is compared with the second and the third
    texts of all examples of the batch, and the second with all first ones. Of
    several replicas, or microbatches, each compares within its own part of the
    batch: there a text has fewer negatives than in one piece. Cosines are
    divided by the temperature before the softmax.

    False negatives are left out: the texts of an example with an equal first or
    second text, and a text that equals the one it is compared with. `input_ids`
    of the batch say which texts are equal.
    """

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        vectors = tf.unstack(outputs[VECTOR], axis=1)
        first, second, *third = tf.unstack(batch["input_ids"], axis=1)
        is_padding = objectives.real_examples(batch) == 0.0
        excluded = _equal(first, first) | _equal(second, second) | is_padding
        is_itself = _equal(first, second)
        masked = [excluded | is_itself]
        for texts in third:
            is_equal = _equal(first, texts) | _equal(second, texts)
            masked.append(is_equal | is_padding)
        cosines = tf.matmul(
            vectors[0], tf.concat(vectors[1:], 0), transpose_b=True
        )
        logits = _mask(cosines / temperature, tf.concat(masked, 1))
        cosines = tf.matmul(vectors[1], vectors[0], transpose_b=True)
        back = _mask(cosines / temperature, excluded | tf.transpose(is_itself))
        labels = tf.range(tf.shape(first)[0])
        losses = [cross_entropy.compute(x, labels) for x in (logits, back)]
        return {
            "ranking_loss": tf.add_n(losses) / 2.0,
            "accuracy": cross_entropy.correct(logits, labels),
        }

    return objectives.per_example(
        {"ranking_loss": 1.0}, sample_values, ("accuracy",)
    )


def over_prefixes(
    objective: objectives.Objective, sizes: Sequence[int]
) -> objectives.Objective:
    """Return an objective that each loss is also part of for each prefix.

    A prefix is scaled to the length 1. Its losses are `NAME_SIZE`. All count
    the same, and a loss and those of its prefixes together as much as the loss
    alone did. Metrics are those of the whole vectors.

    Source: Kusupati et al., arXiv 2205.13147 (Matryoshka), section 3.
    """
    if not sizes:
        return objective
    share = 1.0 / (1 + len(sizes))
    losses = {name: share * f for name, f in objective.losses.items()}
    added = {f"{name}_{k}": f for k in sizes for name, f in losses.items()}

    def sample_weights(batch: Batch) -> Tensors:
        weights = objective.sample_weights(batch)
        return weights | {n: weights[n.rpartition("_")[0]] for n in added}

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        values = dict(objective.sample_values(outputs, batch))
        for size in sizes:
            prefix = outputs[VECTOR][..., :size]
            prefix = {VECTOR: tf.math.l2_normalize(prefix, -1)}
            part = objective.sample_values({**outputs, **prefix}, batch)
            values |= {f"{name}_{size}": part[name] for name in losses}
        return values

    return dataclasses.replace(
        objective,
        losses={**losses, **added},
        sample_weights=sample_weights,
        sample_values=sample_values,
    )


def _mask(logits: tf.Tensor, is_masked: tf.Tensor) -> tf.Tensor:
    """Take masked texts out of the softmax, but for the label i of row i.

    Both arguments are [n, texts].
    """
    rows, columns = tf.unstack(tf.shape(logits))
    is_label = tf.eye(rows, columns, dtype=tf.bool)
    return tf.where(is_masked & ~is_label, _MASKED_LOGIT, logits)


def _equal(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return which texts have the same ids: from int [n, S], [m, S], [n, m]."""
    return tf.reduce_all(rows[:, None] == columns[None], -1)
