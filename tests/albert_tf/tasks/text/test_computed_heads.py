"""Heads that are computed from vectors of texts."""

import numpy as np
import pytest
from sklearn import linear_model

from albert_tf.finetuning import probabilities
from albert_tf.tasks.text import computed_heads


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("is_balanced", [False, True])
def test_logits_are_those_of_scikit_learn(count, is_balanced):
    random = np.random.default_rng(count)
    labels = np.repeat(np.arange(count), [3, 9, 5][:count])
    vectors = random.normal(size=[len(labels), 4])
    weights, bias = computed_heads.logistic(
        vectors, labels, is_balanced=is_balanced
    )
    expected = linear_model.LogisticRegression(
        C=10, class_weight="balanced" if is_balanced else None
    ).fit(vectors, labels)
    np.testing.assert_allclose(
        probabilities.softmax(vectors @ weights.T + bias),
        expected.predict_proba(vectors),
        atol=1e-3,
    )


def test_a_label_is_the_mean_of_its_descriptions():
    vectors = np.eye(3)[[0, 1, 2]]
    weights, bias = computed_heads.nearest(vectors, np.array([0, 0, 2]), 3)
    cosines = weights / computed_heads.SCALE
    np.testing.assert_allclose(
        cosines, [[0.5**0.5, 0.5**0.5, 0], [0, 0, 0], [0, 0, 1]]
    )
    assert not bias.any()


@pytest.mark.parametrize(
    ("cosines", "labels", "expected"),
    [
        ([0.2, 0.4, 0.8], [1, 0, 0], 0.3),
        ([0.2, 0.4, 0.8], [1, 1, 1], 0.9),
        ([0.2, 0.4, 0.8], [0, 0, 1], -0.4),  # The lowest of equal ones.
        ([0.4, 0.4, 0.6], [1, 0, 0], -0.3),  # None between equal cosines.
    ],
)
def test_the_threshold_gives_the_most_right_answers(cosines, labels, expected):
    """Label 0 is described, 1 is none."""
    head = computed_heads.nearest(np.array([[1.0]]), np.array([0]), 2)
    vectors = np.array(cosines)[:, None]
    threshold = computed_heads.best_threshold(
        head, 1, vectors, np.array(labels)
    )
    assert threshold == pytest.approx(expected)
