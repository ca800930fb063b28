"""A batch as the rows of its real positions, and back."""

import numpy as np
import tensorflow as tf

from albert_tf.model.execution.unpadding import Unpadding

HEADS = 2
MASK = tf.constant([[1, 1, 0], [1, 1, 1]])


def test_rows_are_real_positions_and_come_back_to_them():
    unpadding = Unpadding(MASK, HEADS)
    x = tf.reshape(tf.range(1.0, 13), [2, 3, 2])
    rows = unpadding.unpad(x)
    np.testing.assert_array_equal(
        rows, [[1, 2], [3, 4], [7, 8], [9, 10], [11, 12]]
    )
    expected = x.numpy()
    expected[0, 2] = 0
    np.testing.assert_array_equal(unpadding.pad(rows), expected)


def test_rows_of_some_sequences_are_chosen():
    unpadding = Unpadding(tf.concat([MASK, MASK[:1]], 0), HEADS)
    rows = tf.range(7)[:, None]
    found = unpadding.choose(rows, tf.constant([True, False, True]))
    np.testing.assert_array_equal(found[:, 0], [0, 1, 5, 6])


def test_the_first_position_is_kept_even_if_it_is_padding():
    unpadding = Unpadding(tf.constant([[0, 0], [0, 1]]), HEADS)
    x = tf.reshape(tf.range(4.0), [2, 2, 1])
    np.testing.assert_array_equal(unpadding.unpad(x), [[0], [2], [3]])


def test_heads_are_split_and_merged():
    unpadding = Unpadding(MASK, HEADS)
    size = 4
    rows = tf.reshape(tf.range(5 * 3 * HEADS * size), [5, -1])
    split = tf.reshape(rows, [5, 3, HEADS, size])
    for kind, part in enumerate(unpadding.split(rows)):
        assert part.shape == (2, HEADS, 3, size)
        for head in range(HEADS):
            of_head = split[:, kind, head].numpy()
            # Position 2 of the first sequence reads the row of position 0.
            expected = of_head[[[0, 1, 0], [2, 3, 4]]]
            np.testing.assert_array_equal(part[:, head], expected)
    value = unpadding.split(rows)[2]
    merged = tf.reshape(split[:, 2], [5, -1])
    np.testing.assert_array_equal(unpadding.merge(value), merged)
