"""Ranges of indices."""

import numpy as np

from albert_tf.common import ragged


def test_stretches_are_gathered():
    places = ragged.concat_ranges(
        np.array([7, 2, 9, 1]), np.array([2, 3, 0, 1])
    )
    assert places.tolist() == [7, 8, 2, 3, 4, 1]
    assert (
        ragged.concat_ranges(np.zeros(0, int), np.zeros(0, int)).tolist() == []
    )
