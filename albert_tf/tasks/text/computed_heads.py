"""Heads of classifiers that are computed from vectors of texts.

A head is the weights [labels, width] and the bias [labels] of a linear layer,
float64, whose outputs are logits.
"""

import numpy as np

from albert_tf.common import imports, packed_vectors

linear_model = imports.later("sklearn.linear_model")

# What weights may become: the inverse of the regularization.
_FREEDOM = 10.0
_STEPS = 1000  # At most.
# Logits of cosines are their multiples by this, as `temperature` of
# run_embeddings: 1 / 0.05.
SCALE = 20.0

Head = tuple[np.ndarray, np.ndarray]


def logistic(
    vectors: np.ndarray, labels: np.ndarray, *, is_balanced: bool = False
) -> Head:
    """Return a logistic regression with an L2 penalty (scikit-learn's).

    Args:
        vectors: float [n, width], of length 1.
        labels: int [n], all from 0 on.
        is_balanced: Whether all labels count the same in total.
    """
    classifier = linear_model.LogisticRegression(
        C=_FREEDOM,
        max_iter=_STEPS,
        class_weight="balanced" if is_balanced else None,
    )
    classifier.fit(np.asarray(vectors, np.float64), labels)
    weights, bias = classifier.coef_, classifier.intercept_
    if len(weights) == 1:  # Of two labels: the logit of the second.
        weights, bias = (np.stack([-x[0], x[0]]) / 2 for x in (weights, bias))
    return weights, bias


def nearest(vectors: np.ndarray, labels: np.ndarray, count: int) -> Head:
    """Return the head of cosines with the labels' mean vectors, times `SCALE`.

    A label without vectors has weights of 0; there are `count` labels.
    """
    sums = np.zeros([count, vectors.shape[1]])
    np.add.at(sums, labels, vectors)
    return SCALE * packed_vectors.unit(sums), np.zeros(count)


def best_threshold(
    head: Head, none: int, vectors: np.ndarray, labels: np.ndarray
) -> float:
    """Return the cosine below which the label `none` gives most right answers.

    It lies between two cosines; of equally good ones it is the lowest. `head`
    is of `nearest`; the label `none` had no vectors.
    """
    cosines = vectors @ head[0].T / SCALE
    cosines[:, none] = -np.inf
    largest, answers = cosines.max(-1), cosines.argmax(-1)
    edges = np.unique([-1.0, *largest, 1.0])
    middles = (edges[1:] + edges[:-1]) / 2
    right = [
        (np.where(largest < middle, none, answers) == labels).sum()
        for middle in middles
    ]
    return float(middles[np.argmax(right)])
