"""The metrics of GLUE, computed by scikit-learn and scipy.

Source: the GLUE paper, table 1; names as in the original's classifier_utils
where it has them.
"""

from collections.abc import Sequence

import numpy as np

from albert_tf.common import imports

metrics = imports.later("sklearn.metrics")
stats = imports.later("scipy.stats")

CLASS_METRICS = ("accuracy", "matthew_corr", "f1")
ERRORS = ("mse", "mae", "rmse")  # The smaller, the better.
NUMBER_METRICS = ("pearson", "spearmanr", *ERRORS)
_SCIPY_NAMES = {"pearson": "pearsonr", "spearmanr": "spearmanr"}
_SKLEARN_NAMES = {
    "matthew_corr": "matthews_corrcoef",
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "rmse": "root_mean_squared_error",
}


def _compute(name: str, predicted: np.ndarray, expected: np.ndarray) -> float:
    if name == "accuracy":
        return float((predicted == expected).mean())
    are_constant = any((x == x[0]).all() for x in (predicted, expected))
    if are_constant and name in ("matthew_corr", *_SCIPY_NAMES):
        return 0.0  # It is not defined.
    if name in _SCIPY_NAMES:
        both = predicted.astype(np.float64), expected.astype(np.float64)
        return float(getattr(stats, _SCIPY_NAMES[name])(*both).statistic)
    if name == "f1":
        return float(metrics.f1_score(expected, predicted, zero_division=0))
    return float(getattr(metrics, _SKLEARN_NAMES[name])(expected, predicted))


def score(
    names: Sequence[str], predicted: np.ndarray, expected: np.ndarray
) -> dict[str, float]:
    """Return metrics of classes or numbers [examples].

    All are up to 1, but for the errors of numbers.

    Raises:
        ValueError: A prediction is not finite.
    """
    if not np.isfinite(predicted).all():
        raise ValueError("Predictions are NaN or infinite.")
    return {name: _compute(name, predicted, expected) for name in names}
