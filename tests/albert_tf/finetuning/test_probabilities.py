"""Probabilities of logits, their average and their loss."""

import numpy as np
import pytest

from albert_tf.finetuning import probabilities


def test_softmax_by_hand():
    odds = np.array([[1.0, 3.0], [2.0, 2.0]])
    found = probabilities.softmax(np.log(odds).astype(np.float32))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, odds / 4, rtol=1e-6)


def test_huge_logits_stay_finite():
    logits = np.array([[1e30, -1e30], [-1e30, -1e30]])
    assert probabilities.softmax(logits).tolist() == [[1, 0], [0.5, 0.5]]
    loss = probabilities.cross_entropy(logits, np.array([0, 1]))
    assert loss == pytest.approx(np.log(2) / 2)


def test_average_is_that_of_probabilities():
    logits = [np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])]
    found = probabilities.softmax(probabilities.average(logits))
    np.testing.assert_allclose(found, [[0.7, 0.3]])


def test_a_class_without_any_probability_keeps_none():
    logits = [np.array([[0.0, -1e30]])] * 2
    found = probabilities.average(logits)
    assert np.isfinite(found).all()
    assert probabilities.softmax(found)[0, 1] < 1e-300


def test_cross_entropy_by_hand():
    logits = np.log([[0.25, 0.75], [0.5, 0.5]]) + 3
    loss = probabilities.cross_entropy(logits, np.array([1, 0]))
    assert loss == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)


def test_area_under_curve_by_hand():
    """Of six pairs of a right and a wrong example, half of one is wrong."""
    second = np.array([0.1, 0.4, 0.4, 0.6, 0.9])
    rows = np.stack([1 - second, second], 1)
    expected = np.array([0, 0, 1, 1, 1])
    found = probabilities.area_under_curve(rows, expected)
    assert found == pytest.approx(5.5 / 6)
    for same in (expected * 0, expected * 0 + 1):
        assert probabilities.area_under_curve(rows, same) == 0.5
    # Of three classes the mean of each against the rest.
    of_three = np.array([0, 1, 2, 1, 2])
    rows = np.stack([1 - second, second, second**2 / 2], 1)
    found = probabilities.area_under_curve(rows, of_three)
    one_by_one = [
        probabilities.mean_area(rows[:, [n]], of_three[:, None] == n)
        for n in range(3)
    ]
    assert found == pytest.approx(np.mean(one_by_one))
    of_several = np.stack([expected, expected**0, expected * 0], 1) > 0
    columns = np.stack([second, second**2, second], 1)
    found = probabilities.mean_area(columns, of_several)
    assert found == pytest.approx(5.5 / 6)


def test_logit_and_sigmoid_undo_each_other():
    chances = np.array([0.0, 0.1, 0.5, 1.0])
    logits = probabilities.logit(chances)
    assert np.isfinite(logits).all()
    assert logits[1] == pytest.approx(np.log(0.1 / 0.9))
    np.testing.assert_allclose(probabilities.sigmoid(logits), chances, 1e-9)
