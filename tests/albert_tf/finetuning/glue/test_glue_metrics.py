"""GLUE's metrics: numbers by hand, classes against scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.finetuning.glue import glue_metrics


def score(name, predicted, expected):
    arrays = np.array(predicted), np.array(expected)
    return glue_metrics.score([name], *arrays)[name]


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


def of_classes(seed, classes):
    """Predictions and labels; the classes' shares differ from seed to seed."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, 0.5))
    count = int(rng.integers(1, 60))
    expected = rng.choice(classes, count, p=shares)
    keeps = rng.random(count) < rng.random()
    return np.where(keeps, expected, rng.integers(0, classes, count)), expected


def quietly(function, *values, **options):
    """What a library says where the denominator is 0 is not the subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*values, **options)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_scores_of_classes_equal_those_of_scikit_learn(classes):
    constant = 0
    for seed in range(200):
        predicted, expected = of_classes(seed, classes)
        constant += len(set(predicted)) == 1 or len(set(expected)) == 1
        both = expected, predicted
        wanted = {
            "accuracy": metrics.accuracy_score(*both),
            "matthew_corr": quietly(metrics.matthews_corrcoef, *both),
        }
        if classes == 2:
            wanted["f1"] = metrics.f1_score(*both, zero_division=0)
        found = glue_metrics.score(list(wanted), predicted, expected)
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15), seed
    assert constant > 5  # Cases without a correlation were among them.


def test_correlations_of_a_large_set_do_not_overflow():
    rng = np.random.default_rng(2)
    expected = rng.integers(0, 2, 400_000)
    predicted = np.where(rng.random(400_000) < 0.3, 1 - expected, expected)
    assert score("matthew_corr", predicted, expected) == pytest.approx(
        metrics.matthews_corrcoef(expected, predicted), rel=1e-12
    )
