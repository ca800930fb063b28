"""GLUE's metrics by hand, and where they are not defined."""

import numpy as np
import pytest

from albert_tf.tasks import glue_metrics


def score(name, predicted, expected):
    arrays = np.array(predicted), np.array(expected)
    return glue_metrics.score([name], *arrays)[name]


def test_scores_have_the_asked_names_in_order():
    ones = np.array([0, 1])
    names = ["f1", "accuracy", "matthew_corr"]
    assert list(glue_metrics.score(names, ones, ones)) == names


def test_accuracy_by_hand():
    assert score("accuracy", [0, 1, 1, 0], [0, 1, 0, 0]) == 0.75


@pytest.mark.parametrize(
    "predicted, expected, correlation",
    [
        # tp 2, tn 1, fp 1, fn 1: (2 - 1) / sqrt(3 * 3 * 2 * 2).
        ([1, 1, 0, 1, 0], [1, 1, 0, 0, 1], 1 / 6),
        # tp 1, tn 1, fp 2, fn 0: 1 / sqrt(3 * 1 * 3 * 1).
        ([1, 1, 1, 0], [1, 0, 0, 0], 1 / 3),
        ([1, 0], [1, 0], 1.0),
        ([1, 0], [0, 1], -1.0),
        # Only one class was predicted: the denominator is zero.
        ([1, 1, 1], [1, 0, 1], 0.0),
        ([0, 0], [0, 0], 0.0),
    ],
)
def test_matthews_correlation_by_hand(predicted, expected, correlation):
    assert score("matthew_corr", predicted, expected) == pytest.approx(
        correlation
    )


@pytest.mark.parametrize(
    "predicted, expected, f1",
    [
        # Class 1 counts: tp 2, fp 1, fn 1.
        ([1, 1, 0, 1, 0], [1, 1, 0, 0, 1], 2 / 3),
        ([0, 0, 1], [0, 0, 1], 1.0),
        # Neither predicted nor expected.
        ([0, 0], [0, 0], 0.0),
    ],
)
def test_f1_by_hand(predicted, expected, f1):
    assert score("f1", predicted, expected) == pytest.approx(f1)


def test_correlations_by_hand():
    predicted, expected = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    # Deviations (-4, -1, 5) / 3 and (-1, 1, 0).
    assert score("pearson", predicted, expected) == pytest.approx(
        (4 / 3 - 1 / 3) / np.sqrt((42 / 9) * 2)
    )
    # Ranks 1 2 3 and 1 3 2: 1 - 6 * 2 / (3 * 8).
    assert score("spearmanr", predicted, expected) == pytest.approx(0.5)
    assert score("mse", predicted, expected) == pytest.approx(5 / 3)


@pytest.mark.parametrize("name", ["pearson", "spearmanr"])
def test_constant_predictions_have_no_correlation(name):
    assert score(name, [2.0, 2.0, 2.0], [1.0, 3.0, 2.0]) == 0.0
    assert score(name, [2.0], [1.0]) == 0.0
