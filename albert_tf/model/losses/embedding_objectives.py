"""Objectives of vectors of texts."""

import tensorflow as tf

from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors

# The logit of a text that is no negative, or only fills up the batch.
_HIDDEN_LOGIT = -1e9


def _squared_error(outputs: Tensors, batch: Batch) -> Tensors:
    vectors = outputs["embedding"]
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], -1)
    return {"cosine_loss": tf.square(cosines - batch["label_ids"])}


# `label_ids` are float32 [B], from -1 to 1.
COSINE = objectives.per_example({"cosine_loss": 1.0}, _squared_error)


def ranking(temperature: float) -> objectives.Objective:
    """Return the objective of finding the text that belongs to another.

    The first text of an example is compared with the second and the third
    texts of all examples of the batch, and the second with all first ones. Of
    several replicas, or microbatches, each compares within its own part of the
    batch: there a text has fewer to be told from than in one piece. Cosines are
    divided by the temperature before the softmax.

    An answer that is right for other reasons is not told apart: that of an
    example with an equal first or second text, and a text that equals the one
    it is compared with. `input_ids` of the batch say which texts are equal.
    """

    def sample_values(outputs: Tensors, batch: Batch) -> Tensors:
        vectors = tf.unstack(outputs["embedding"], axis=1)
        first, second, *others = tf.unstack(batch["input_ids"], axis=1)
        is_padding = objectives.real_examples(batch) == 0.0
        is_right = _equal(first, first) | _equal(second, second) | is_padding
        own_text = _equal(first, second)
        hidden = [
            is_right | own_text,
            *(
                _equal(first, third) | _equal(second, third) | is_padding
                for third in others
            ),
        ]
        labels = tf.range(tf.shape(first)[0])

        def logits_of(
            one: tf.Tensor, others: list[tf.Tensor], hidden: tf.Tensor
        ) -> tf.Tensor:
            cosines = tf.matmul(one, tf.concat(others, 0), transpose_b=True)
            is_label = labels[:, None] == tf.range(tf.shape(cosines)[1])
            hidden &= ~is_label
            return tf.where(hidden, _HIDDEN_LOGIT, cosines / temperature)

        logits = logits_of(vectors[0], vectors[1:], tf.concat(hidden, 1))
        back = logits_of(
            vectors[1], vectors[:1], is_right | tf.transpose(own_text)
        )
        losses = [cross_entropy.compute(x, labels) for x in (logits, back)]
        return {
            "ranking_loss": tf.add_n(losses) / 2.0,
            "accuracy": cross_entropy.correct(logits, labels),
        }

    return objectives.per_example(
        {"ranking_loss": 1.0}, sample_values, ("accuracy",)
    )


def _equal(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Return which texts have the same ids: from int [n, S], [m, S], [n, m]."""
    return tf.reduce_all(rows[:, None] == columns[None], -1)
