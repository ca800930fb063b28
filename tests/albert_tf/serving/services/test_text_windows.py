"""Windows are asked some at a time, and their outputs are pooled."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import windows
from albert_tf.serving.services import text_windows

COUNTS = [3, 1, 2, 7]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_outputs_are_pooled_as_in_numpy(how):
    logits = np.random.default_rng(2).normal(size=(sum(COUNTS), 3))
    text = tf.repeat(tf.range(len(COUNTS)), COUNTS)
    found = text_windows.pool(
        tf.constant(logits, tf.float32), text, len(COUNTS), how
    )
    expected = windows.pool(logits, COUNTS, how)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 16, 37])
def test_all_rows_come_back_in_order(count):
    sizes = []

    def model(one, other):
        sizes.append(one.shape[0])
        return {"sum": one + other, "unread": one}

    rows = tf.random.stateless_normal([count, 3], [1, 2])
    parts = {"sum": tf.TensorSpec([None, None])}
    found = text_windows.ask_in_parts(model, [rows, rows], parts)
    assert set(found) == {"sum"}
    tf.debugging.assert_equal(found["sum"], 2 * rows)
    assert max(sizes) <= 16
