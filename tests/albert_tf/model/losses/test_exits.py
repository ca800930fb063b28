"""The losses of several depths against NumPy, for given outputs."""

import numpy as np
import tensorflow as tf

from albert_tf.model.losses import distillation, exits, label_objectives
from tests.conftest import LOSS_RTOL, refused

LOGITS = np.random.default_rng(7).normal(size=[3, 4, 3]).astype("f4")
TEACHER = np.random.default_rng(2).normal(size=[4, 3]).astype("f4")
BATCH = {
    "label_ids": tf.constant([0, 2, 1, 0]),
    "is_real_example": tf.constant([1, 1, 1, 0]),
    "teacher_logits": tf.constant(TEACHER),
}
SEED = tf.constant([1, 2])


def ask(batch, training, dropout_seed):
    """Three depths in training, else the last one."""
    first, second, last = ({"logits": tf.constant(x)} for x in LOGITS)
    return {**last, "exits": [first, second]} if training else last


def cross_entropy(logits):
    e = np.exp(logits)
    chances = e / e.sum(-1, keepdims=True)
    return -np.log(chances[np.arange(4), [0, 2, 1, 0]])


def test_each_depth_counts_in_proportion_to_its_layers():
    """A teacher's loss, too; the accuracy is that of the last one."""
    labels = label_objectives.CLASSIFICATION
    objective = exits.over_depths(labels, (2, 4, 6))
    found = objective.weighted_sums(ask, BATCH, SEED)
    losses = [cross_entropy(logits)[:3].sum() for logits in LOGITS]
    np.testing.assert_allclose(
        found["classification_loss"],
        [np.dot([2 / 12, 4 / 12, 6 / 12], losses), 3],
        rtol=LOSS_RTOL,
    )
    right = (LOGITS[-1].argmax(-1) == [0, 2, 1, 0])[:3].sum()
    np.testing.assert_array_equal(found["accuracy"], [right, 3])

    taught = distillation.soft_labels(labels, ["logits"], 0.5, 1.0)
    found = exits.over_depths(taught, (2, 4, 6)).weighted_sums(ask, BATCH, SEED)
    alone = [
        taught.values(
            lambda *_, logits=logits, **__: {"logits": tf.constant(logits)},
            BATCH,
            SEED,
        )["teacher_loss"][:3]
        for logits in LOGITS
    ]
    np.testing.assert_allclose(
        found["teacher_loss"][0],
        np.dot([2 / 12, 4 / 12, 6 / 12], np.sum(alone, 1)),
        rtol=LOSS_RTOL,
    )


def test_outside_of_training_the_last_depth_counts():
    labels = label_objectives.CLASSIFICATION
    found = exits.over_depths(labels, (2, 4, 6)).weighted_sums(ask, BATCH)
    expected = labels.weighted_sums(ask, BATCH)
    assert found["classification_loss"] == expected["classification_loss"]


def test_a_head_without_exits_is_refused():
    def model(batch, training, dropout_seed):
        return {"logits": tf.constant(LOGITS[0])}

    objective = exits.over_depths(label_objectives.CLASSIFICATION, (1, 2))
    with refused("`exit_layers=1,2` .*head function, whose"):
        objective.weighted_sums(model, BATCH, SEED)
