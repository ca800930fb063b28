"""Outputs of the last layer at some positions only."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.execution import last_layer


@pytest.mark.parametrize(
    ("positions", "length", "fewer"),
    [(3, 10, True), (10, 10, False), (3, None, True), (None, 10, False)],
)
def test_positions_needs_fewer_where_both_numbers_are_known(
    positions, length, fewer
):
    specs = [tf.TensorSpec([3, n], tf.int32) for n in (positions, length)]
    assert last_layer.needs_fewer(*specs) == fewer
    assert not last_layer.needs_fewer(None, specs[1])


def test_biases_are_those_of_the_attending_positions():
    numbers = tf.reshape(tf.range(2.0 * 3 * 4 * 5), [2, 3, 4, 5])
    positions = tf.constant([[3, 0], [1, 1]])
    for_all, by_example, by_head = last_layer.gather_biases(
        [numbers[:, :1, :1], numbers, numbers[0]], positions
    )
    np.testing.assert_array_equal(for_all, numbers[:, :1, :1])
    for row, places in enumerate(positions.numpy()):
        np.testing.assert_array_equal(
            by_example[row], numbers.numpy()[row][:, places]
        )
        np.testing.assert_array_equal(
            by_head[row], numbers.numpy()[0][:, places]
        )
