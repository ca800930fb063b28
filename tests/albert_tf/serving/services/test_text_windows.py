"""Pooled outputs of windows, as TensorFlow operations."""

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
