"""The metrics of GLUE classification tasks."""

import numpy as np
from sklearn import metrics


def score(
    key_metric: str, predicted: np.ndarray, expected: np.ndarray
) -> dict[str, float]:
    """Return accuracy, and Matthews correlation where it is the key metric.

    Args:
        key_metric: `accuracy` or `matthew_corr`.
        predicted: int [examples].
        expected: int [examples].
    """
    numbers = {"accuracy": float(metrics.accuracy_score(expected, predicted))}
    if key_metric == "matthew_corr":
        numbers[key_metric] = _matthews(predicted, expected)
    return numbers


def _matthews(predicted: np.ndarray, expected: np.ndarray) -> float:
    """Return Matthews correlation; 0 where its denominator is 0."""
    if len(np.unique(predicted)) < 2 or len(np.unique(expected)) < 2:
        return 0.0  # As scikit-learn says too, but with a warning.
    return float(metrics.matthews_corrcoef(expected, predicted))
