"""Logits of classes to probabilities, their average, and their loss."""

from collections.abc import Sequence

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities, float64 [n, classes], of logits."""
    shifted = np.asarray(logits, np.float64)
    shifted = shifted - shifted.max(-1, keepdims=True)
    odds = np.exp(shifted)
    return np.asarray(odds / odds.sum(-1, keepdims=True))


def average(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Return logits whose probabilities are the mean of all models' ones.

    Example:
        Probabilities [0.5, 0.5] and [0.9, 0.1] give those of log [0.7, 0.3].
    """
    mean = np.mean([softmax(logits_of_model) for logits_of_model in logits], 0)
    # A probability of 0 stays the lowest, without log(0).
    return np.asarray(np.log(np.maximum(mean, np.finfo(np.float64).tiny)))


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy, in nats, of logits [n, classes]."""
    shifted = np.asarray(logits, np.float64)
    shifted = shifted - shifted.max(-1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(-1))
    chosen = np.take_along_axis(shifted, labels[:, None], -1)[:, 0]
    return float((log_sums - chosen).mean())


def area_under_curve(probabilities: np.ndarray, expected: np.ndarray) -> float:
    """Return the area under the ROC curve.

    Of two classes that of the second; of more the mean of each against the
    others, over the classes that have examples; 0.5 if one class has all.

    Args:
        probabilities: float [examples, classes].
        expected: int [examples], the labels.
    """
    is_right = expected[:, None] == np.arange(probabilities.shape[1])
    first = 1 if probabilities.shape[1] == 2 else 0
    return mean_area(probabilities[:, first:], is_right[:, first:])


def mean_area(probabilities: np.ndarray, is_right: np.ndarray) -> float:
    """Return the mean area under the ROC curves of several columns.

    Args:
        probabilities: float [examples, columns].
        is_right: bool of this shape. Columns that are all right or all wrong
            do not count; if all are, it is 0.5.
    """
    from sklearn import metrics  # Takes a second.

    has_both = is_right.any(0) & ~is_right.all(0)
    if not has_both.any():
        return 0.5
    is_right, probabilities = is_right[:, has_both], probabilities[:, has_both]
    return float(metrics.roc_auc_score(is_right, probabilities))


def safe_log(probabilities: np.ndarray) -> np.ndarray:
    """Return the logarithms of probabilities, finite ones for 0."""
    return np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities, float64 of the same shape, of logits."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * np.asarray(logits, np.float64)))


def logit(probabilities: np.ndarray) -> np.ndarray:
    """Return the logits of probabilities; those of 0 and 1 are finite."""
    least = np.finfo(np.float32).tiny
    yes = np.maximum(np.asarray(probabilities, np.float64), least)
    no = np.maximum(1 - np.asarray(probabilities, np.float64), least)
    return np.asarray(np.log(yes) - np.log(no))
