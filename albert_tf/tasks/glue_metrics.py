"""The official metrics of GLUE, by scikit-learn and scipy.

Source: the GLUE paper, table 1; names as in the original's classifier_utils
where it has them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats
from sklearn import metrics


def _matthews(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return Matthews correlation; 0 where its denominator is 0."""
    if _is_constant(predicted) or _is_constant(expected):
        return 0.0  # As scikit-learn says too, but with a warning.
    return float(metrics.matthews_corrcoef(expected, predicted))


def _accuracy(predicted: np.ndarray, expected: np.ndarray) -> float:
    return float(metrics.accuracy_score(expected, predicted))


def _f1(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return F1 of class 1; 0 if it is neither predicted nor expected."""
    return float(metrics.f1_score(expected, predicted, zero_division=0))


def _pearson(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return Pearson's correlation; 0 where it is not defined."""
    if _is_constant(predicted) or _is_constant(expected):
        return 0.0
    return float(stats.pearsonr(predicted, expected).statistic)


def _spearman(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return Spearman's rank correlation; 0 where it is not defined."""
    if _is_constant(predicted) or _is_constant(expected):
        return 0.0
    return float(stats.spearmanr(predicted, expected).statistic)


def _mean_squared_error(predicted: np.ndarray, expected: np.ndarray) -> float:
    return float(metrics.mean_squared_error(expected, predicted))


def _is_constant(values: np.ndarray) -> bool:
    return len(np.unique(values)) < 2


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthew_corr": _matthews,
    "mse": _mean_squared_error,
    "pearson": _pearson,
    "spearmanr": _spearman,
}


def score(
    names: Sequence[str], predicted: np.ndarray, expected: np.ndarray
) -> dict[str, float]:
    """Return the metrics of these names, as shares and correlations up to 1.

    Args:
        names: `accuracy`, `f1` (of class 1) and `matthew_corr` for classes;
            `pearson`, `spearmanr` and `mse` for numbers.
        predicted: [examples], classes or numbers.
        expected: The same.
    """
    return {name: _METRICS[name](predicted, expected) for name in names}
