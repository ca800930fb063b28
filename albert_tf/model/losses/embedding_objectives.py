"""Objectives of vectors of texts."""

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors

# The logit of a text that only fills up the batch.
_PADDING_LOGIT = -1e9


def _squared_error(outputs: Tensors, batch: Batch) -> Tensors:
    vectors = outputs["embedding"]
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], -1)
    return {"cosine_loss": tf.square(cosines - batch["label_ids"])}


# `label_ids` are float32 [B], from -1 to 1.
COSINE = objectives.of_examples({"cosine_loss": 1.0}, _squared_error)


def ranking(temperature: float) -> objectives.Objective:
    """Return the objective of finding the text that belongs to another.

    The first text of an example is compared with the second and the third
    texts of all examples of the batch, and the second with all first ones. Of
    several replicas, or microbatches, each compares within its own part of the
    batch: there a text has fewer to be told from than in one piece. Cosines are
    divided by the temperature before the softmax.
    """

    def of_outputs(outputs: Tensors, batch: Batch) -> Tensors:
        vectors = outputs["embedding"]
        first, second = vectors[:, 0], vectors[:, 1]
        padding = (1.0 - objectives.real_examples(batch)) * _PADDING_LOGIT
        labels = tf.range(tf.shape(vectors)[0])
        others = tf.unstack(vectors, axis=1)[1:]
        logits = _logits(first, tf.concat(others, 0), temperature)
        logits += tf.tile(padding, [len(others)])
        back = _logits(second, first, temperature) + padding
        losses = [cross_entropy.compute(x, labels) for x in (logits, back)]
        return {
            "ranking_loss": tf.add_n(losses) / 2.0,
            "accuracy": cross_entropy.correct(logits, labels),
        }

    return objectives.of_examples(
        {"ranking_loss": 1.0}, of_outputs, ("accuracy",)
    )


def _logits(one: tf.Tensor, other: tf.Tensor, temperature: float) -> tf.Tensor:
    return tf.matmul(one, other, transpose_b=True) / temperature
