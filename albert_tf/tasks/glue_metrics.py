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
        numbers[key_metric] = float(
            metrics.matthews_corrcoef(expected, predicted)
        )
    return numbers
