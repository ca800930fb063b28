"""GLUE's metrics by hand."""

import numpy as np
import pytest

from albert_tf.finetuning import metrics


def score(name, predicted, expected):
    arrays = np.array(predicted), np.array(expected)
    return metrics.score([name], *arrays)[name]


@pytest.mark.parametrize(
    "name, predicted, expected, value",
    [
        # Deviations (-4, -1, 5) / 3 and (-1, 1, 0).
        ("pearson", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], 1 / (42 / 9 * 2) ** 0.5),
        (
            "pearson",
            np.float32([1e-30, 2e-30, 4e-30]),
            [1.0, 3.0, 2.0],
            1 / (42 / 9 * 2) ** 0.5,
        ),
        # Ranks 1 2 3 and 1 3 2: 1 - 6 * 2 / (3 * 8).
        ("spearmanr", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], 0.5),
        ("mse", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], 5 / 3),
        ("pearson", [2.0, 2.0, 2.0], [1.0, 3.0, 2.0], 0.0),
        ("spearmanr", [2.0], [1.0], 0.0),
    ],
)
def test_metric_by_hand(name, predicted, expected, value):
    assert score(name, predicted, expected) == pytest.approx(value)


def test_predictions_that_are_not_finite_are_refused():
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            score("mse", [1.0, value], [1.0, 2.0])


@pytest.mark.parametrize(
    "name, predicted, expected, value",
    [
        # Of four, two true and one false positive, one true negative.
        ("accuracy", [1, 1, 1, 0], [1, 1, 0, 0], 3 / 4),
        ("f1", [1, 1, 1, 0], [1, 1, 0, 0], 4 / 5),
        ("matthew_corr", [1, 1, 1, 0], [1, 1, 0, 0], 2 / 12**0.5),
        ("f1", [0, 0], [0, 0], 0.0),
        ("matthew_corr", [2, 0, 1], [2, 0, 1], 1.0),
        ("matthew_corr", [1, 1], [0, 1], 0.0),
        ("mae", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], 1.0),
        ("rmse", [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], (5 / 3) ** 0.5),
    ],
)
def test_classes_and_errors_by_hand(name, predicted, expected, value):
    assert score(name, predicted, expected) == pytest.approx(value)
