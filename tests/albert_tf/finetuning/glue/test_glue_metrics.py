"""GLUE's metrics: by hand, and against scikit-learn and scipy."""

import warnings

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.finetuning.glue import glue_metrics


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


@pytest.mark.parametrize("scale, offset", [(1, 0), (1e-30, 0), (1e-3, 4)])
def test_correlations_equal_their_definition(scale, offset):
    """Ties among them; the predictions are float32, as a model gives them."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        expected = rng.integers(0, 26, rng.integers(4, 50)) / 5
        expected[:2] = 1.0, 3.0  # Not constant.
        predicted = np.round(expected + rng.normal(0, 2, len(expected)))
        predicted[:2] = 1.5, 2.5
        predicted = (predicted * scale + offset).astype(np.float32)
        ranks = [
            (values[:, None] > values).sum(1)
            + (values[:, None] == values).sum(1) / 2
            for values in (predicted, expected)
        ]
        found = glue_metrics.score(
            ["pearson", "spearmanr"], predicted, expected
        )
        exact = predicted.astype(np.float64)
        assert found["pearson"] == pytest.approx(
            np.corrcoef(exact, expected)[0, 1], rel=1e-9
        )
        assert found["spearmanr"] == pytest.approx(
            np.corrcoef(*ranks)[0, 1], rel=1e-9
        )


def test_correlations_of_a_large_set_do_not_overflow():
    rng = np.random.default_rng(2)
    expected = rng.integers(0, 2, 400_000)
    predicted = np.where(rng.random(400_000) < 0.3, 1 - expected, expected)
    assert score("matthew_corr", predicted, expected) == pytest.approx(
        metrics.matthews_corrcoef(expected, predicted), rel=1e-12
    )
