"""Losses and metrics as sums that can be added up."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import objectives
from tests.conftest import LOSS_RTOL

LOGITS = [[1.0, 3.0, 2.0], [0.5, 0.5, 4.0], [9.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
LABELS = [1, 0, 0, 1]
WEIGHTS = [1.0, 2.0, 0.5, 0.0]


def ratio(function, rows):
    arguments = (LOGITS[rows], LABELS[rows], WEIGHTS[rows])
    result = function(*(tf.constant(values) for values in arguments))
    return np.array([float(number) for number in result])


def test_cross_entropy_equals_plain_numpy():
    logits = np.array(LOGITS)
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    losses = -np.log(chances[np.arange(4), LABELS])
    np.testing.assert_allclose(
        ratio(objectives.cross_entropy, slice(4)),
        [losses @ WEIGHTS, 3.5],
        rtol=LOSS_RTOL,
    )


def test_accuracy_counts_weighted_hits():
    np.testing.assert_array_equal(
        ratio(objectives.accuracy, slice(4)), [1.5, 3.5]
    )


@pytest.mark.parametrize(
    "function", [objectives.cross_entropy, objectives.accuracy]
)
def test_sums_of_parts_are_the_sum_of_the_whole(function):
    parts = ratio(function, slice(1)) + ratio(function, slice(1, 4))
    np.testing.assert_allclose(parts, ratio(function, slice(4)), rtol=LOSS_RTOL)


def test_half_precision_logits_are_summed_in_float32():
    result = objectives.cross_entropy(
        tf.constant(LOGITS, tf.float16), tf.constant(LABELS), tf.ones([4])
    )
    assert result.numerator.dtype == tf.float32


def test_names_are_losses_then_metrics():
    objective = objectives.Objective(("b", "a"), ("c",), lambda *_: {})
    assert objective.names == ("b", "a", "c")
