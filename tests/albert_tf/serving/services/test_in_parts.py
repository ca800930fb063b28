"""Many sequences go through a model some at a time."""

import pytest
import tensorflow as tf

from albert_tf.serving.services import in_parts


@pytest.mark.parametrize("count", [0, 1, 16, 37])
def test_all_rows_come_back_in_order(count):
    sizes = []

    def model(one, other):
        sizes.append(one.shape[0])
        return {"sum": one + other, "unread": one}

    rows = tf.random.stateless_normal([count, 3], [1, 2])
    parts = {"sum": tf.TensorSpec([None, None])}
    found = in_parts.ask(model, [rows, rows], parts)
    assert set(found) == {"sum"}
    tf.debugging.assert_equal(found["sum"], 2 * rows)
    assert max(sizes) <= 16
