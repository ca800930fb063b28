"""Paired differences and their bootstrap intervals."""

import numpy as np
import pytest

from lab.measure import paired
from tests.conftest import refused


def test_differences_by_hand():
    # Of three numbers: from the smallest to the largest.
    found = paired.interval([[1.0, 2.0, 6.0]])
    assert found == paired.Difference(3.0, 1.0, 6.0, 3)
    # Groups count the same, however many numbers they have.
    found = paired.interval([[1.0, 1.0], [3.0, 3.0, 3.0, 3.0]])
    assert found == paired.Difference(2.0, 2.0, 2.0, 6)
    # One number has no interval.
    found = paired.interval([[2.0], [4.0, 6.0]])
    assert found == paired.Difference(3.5, None, None, 3)
    for groups in ([], [[1.0], []], [[1.0, np.nan]]):
        with refused("at least one finite"):
            paired.interval(groups)


def test_interval_is_that_of_the_exact_bootstrap_distribution():
    # The means are at most 0, 1, 2, 3 with 32, 74, 95, 99.6 %.
    found = paired.interval([[0.0, 0.0, 0.0, 4.0]])
    assert (found.low, found.high) == (0.0, 3.0)
    # At most 0, 1, 2, 3 with 0.4, 5, 26, 68 %.
    found = paired.interval([[0.0, 4.0, 4.0, 4.0]])
    assert (found.low, found.high) == (1.0, 4.0)


@pytest.mark.parametrize(
    "count, low, high",
    # Three: see the docstring. 67: the paradigms of BLiMP.
    [(3, 0.70, 0.80), (20, 0.90, 0.96), (67, 0.92, 0.98)],
)
def test_coverage_on_normal_numbers(count, low, high):
    random = np.random.default_rng(5)
    trials = 300
    inside = 0
    for sample in random.normal(1.0, 2.0, [trials, count]):
        found = paired.interval([sample])
        inside += found.low <= 1.0 <= found.high
    assert low <= inside / trials <= high
