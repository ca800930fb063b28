"""Objectives of labels: against NumPy, for given logits."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import label_objectives
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

LOGITS = np.array([[1.0, 3.0, 2.0], [0.5, 0.5, 4.0], [9.0, 0.0, 0.0]], "f4")
REAL = np.array([1, 1, 0])  # The last example is padding.


def model_of(logits, dtype=tf.bfloat16):
    """A model with these logits, which bfloat16 holds exactly."""
    logits = tf.cast(logits, dtype)
    return lambda batch, training, dropout_seed: {"logits": logits}


@pytest.mark.parametrize("weights", [None, (7.0, 0.5, 3.0)])
def test_classes_have_cross_entropy_and_accuracy(weights):
    """Weights of classes are in the loss alone."""
    logs = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    objective = label_objectives.weighted(weights)
    found = passes.compute(
        objective,
        model_of(LOGITS),
        {"label_ids": np.array([0, 2, 1]), "is_real_example": REAL},
    )
    first, _, last = weights or [1, 1, 1]
    loss = -(first * logs[0, 0] + last * logs[1, 2])
    expected = {"classification_loss": (loss, first + last)}
    expected["accuracy"] = (1, 2)
    assert list(found) == list(expected)
    for name, pair in expected.items():
        np.testing.assert_allclose(found[name], pair, rtol=LOSS_RTOL)
    assert objective.losses == {"classification_loss": 1.0}


@pytest.mark.parametrize("weights", [None, [[0.5, 4], [1, 1], [2, 0.25]]])
def test_several_labels_have_binary_cross_entropies(weights):
    labels = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    losses = np.log1p(np.exp(LOGITS)) - LOGITS * labels
    counts = np.ones([3, 3])
    if weights is not None:
        counts = np.take_along_axis(
            np.array([weights] * 3), labels[..., None], 2
        )
        counts = counts[..., 0]
    objective = label_objectives.multi_label(weights)
    found = passes.compute(
        objective,
        model_of(LOGITS),
        {"label_ids": labels, "is_real_example": REAL},
    )
    assert objective.losses == {"classification_loss": 1.0}
    pair = (losses * counts)[:2].sum(), counts[:2].sum()
    np.testing.assert_allclose(
        found["classification_loss"], pair, rtol=LOSS_RTOL
    )


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 1.0), (3.0, 2.0), (1.7e9, 2.0), (-1e15, 4.0)]
)
def test_numbers_have_a_squared_error(mean, deviation):
    """Labels are in units of the deviation from the mean."""
    objective = label_objectives.regression(mean, deviation)
    numbers = np.array([[2.5], [-1.0], [9.0]]) * deviation + mean
    found = passes.compute(
        objective,
        model_of(numbers, tf.float64 if mean else tf.bfloat16),
        {"label_ids": np.array([1, 2, 3], "f4"), "is_real_example": REAL},
    )
    assert found == {"regression_loss": [1.5**2 + 3**2, 2]}
    assert objective.losses == {"regression_loss": 1.0}


def test_tokens_without_a_label_do_not_count():
    """Labels are numbers from 1; of the last example none counts."""
    labels = np.array([[3, 0, 1], [0, 0, 2], [1, 1, 1]])
    logits = np.stack([LOGITS] * 3)
    logs = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    loss = -(logs[0, 2] + logs[2, 0] + logs[2, 1])
    found = passes.compute(
        label_objectives.TOKENS,
        model_of(logits),
        {"label_ids": labels, "is_real_example": REAL},
    )
    expected = {"classification_loss": (loss, 3), "accuracy": (1, 3)}
    for name, pair in expected.items():
        np.testing.assert_allclose(found[name], pair, rtol=LOSS_RTOL)
