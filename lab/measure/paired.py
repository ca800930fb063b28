"""Differences between paired numbers, with bootstrap intervals."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.common import errors

_RESAMPLES = 10_000
_SEED = 2019


@dataclasses.dataclass(frozen=True)
class Difference:
    """A mean difference.

    Attributes:
        low: Lower end of the interval; None where a group has one number.
    """

    mean: float
    low: float | None
    high: float | None
    count: int


def interval(groups: Sequence[Sequence[float]]) -> Difference:
    """Return the mean of differences and its 95 % bootstrap interval.

    The numbers of each group are drawn again from the group, with replacement,
    10,000 times with a fixed seed. Groups, such as tasks, are not drawn: the
    interval is for these tasks.

    With few numbers such an interval is too narrow. Of three it is at most
    from the smallest to the largest, which holds the true median in three of
    four cases only. tests/lab/measure/test_paired.py
    measures how often the true mean is inside.

    Example:
        [[1.0, 2.0, 6.0]] has the mean 3.0 and the interval 1.0 to 6.0

    Args:
        groups: Differences, such as those of all seeds for each task.
    """
    arrays = [np.asarray(group, np.float64) for group in groups]
    if not arrays or not all(len(a) and np.isfinite(a).all() for a in arrays):
        raise errors.UserError(
            "Differences need at least one finite number in each group. A run "
            "has failed or is missing; finish all runs first."
        )
    count = sum(map(len, arrays))
    mean = float(np.mean([array.mean() for array in arrays]))
    if min(map(len, arrays)) < 2:
        return Difference(mean, None, None, count)
    random = np.random.default_rng(_SEED)
    means = [
        random.choice(array, [_RESAMPLES, len(array)]).mean(1)
        for array in arrays
    ]
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return Difference(mean, float(low), float(high), count)
