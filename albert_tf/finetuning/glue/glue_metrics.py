"""The official metrics of GLUE.

Equal to those of scikit-learn and scipy.

Source: the GLUE paper, table 1; names as in the original's classifier_utils
where it has them.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np


def _accuracy(predicted: np.ndarray, expected: np.ndarray) -> float:
    return float((predicted == expected).mean())


def _f1(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return F1 of class 1; 0 if it is neither predicted nor expected."""
    is_predicted, is_expected = predicted == 1, expected == 1
    total = is_predicted.sum() + is_expected.sum()
    return float(2 * (is_predicted & is_expected).sum() / max(total, 1))


def _matthews(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return Matthews correlation; 0 where its denominator is 0.

    Source: Gorodkin, "Comparing two K-category assignments by a K-category
    correlation coefficient", equation 8; for two classes it is Matthews'.
    """
    if _is_constant(predicted) or _is_constant(expected):
        return 0.0
    classes = np.union1d(predicted, expected)
    counts = [
        (values[:, None] == classes).sum(0, dtype=np.float64)
        for values in (predicted, expected)
    ]
    total, correct = len(expected), (predicted == expected).sum()
    covariance = correct * total - counts[0] @ counts[1]
    variances = [total**2 - count @ count for count in counts]
    return float(covariance / np.sqrt(variances[0] * variances[1]))


def _correlation(
    name: str, predicted: np.ndarray, expected: np.ndarray
) -> float:
    """Return scipy's `pearsonr` or `spearmanr`; 0 where it is not defined."""
    from scipy import stats  # Takes half a second.

    if _is_constant(predicted) or _is_constant(expected):
        return 0.0
    both = predicted.astype(np.float64), expected.astype(np.float64)
    return float(getattr(stats, name)(*both).statistic)


def _mean_squared_error(predicted: np.ndarray, expected: np.ndarray) -> float:
    return float(np.square(expected - predicted).mean())


def _mean_absolute_error(predicted: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(expected - predicted).mean())


def _root_mean_squared_error(
    predicted: np.ndarray, expected: np.ndarray
) -> float:
    return float(np.sqrt(_mean_squared_error(predicted, expected)))


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all())


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "matthew_corr": _matthews,
    "f1": _f1,
    "pearson": functools.partial(_correlation, "pearsonr"),
    "spearmanr": functools.partial(_correlation, "spearmanr"),
    "mse": _mean_squared_error,
    "mae": _mean_absolute_error,
    "rmse": _root_mean_squared_error,
}
OF_CLASSES, OF_NUMBERS = tuple(_METRICS)[:3], tuple(_METRICS)[3:]
ERRORS = ("mse", "mae", "rmse")  # The smaller, the better.


def score(
    names: Sequence[str], predicted: np.ndarray, expected: np.ndarray
) -> dict[str, float]:
    """Return metrics of classes or numbers [examples].

    All are up to 1, but for the errors of numbers: `mse`, `mae`, `rmse`.

    A prediction that is not finite is a `ValueError`.
    """
    if not np.isfinite(predicted).all():
        raise ValueError("Predictions are NaN or infinite.")
    return {name: _METRICS[name](predicted, expected) for name in names}
