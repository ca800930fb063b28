"""Windows are asked some at a time, and their outputs are pooled."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import overlaps
from albert_tf.serving.services import text_windows
from albert_tf.tasks.text import portable, service
from albert_tf.text import packing_ops

COUNTS = [3, 1, 2, 7]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_outputs_are_pooled_as_in_numpy(how):
    logits = np.random.default_rng(2).normal(size=(sum(COUNTS), 3))
    text = tf.repeat(tf.range(len(COUNTS)), COUNTS)
    found = service.pool(
        tf.constant(logits, tf.float32), text, len(COUNTS), how
    )
    expected = portable.pool(logits, COUNTS, how)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [0]), (1, [1]), (16, [16]), (37, [16, 16, 5])],
)
def test_all_rows_come_back_in_order(count, expected):
    sizes = []

    def model(one, other):
        sizes.append(one.shape[0])
        return {"gap": one - other, "unread": one}

    rows = tf.random.stateless_normal([count, 3], [1, 2])
    parts = {"gap": tf.TensorSpec([None, None])}
    found = text_windows.ask_in_parts(model, [rows, -rows], parts)
    assert set(found) == {"gap"}
    tf.debugging.assert_equal(found["gap"], 2 * rows)
    assert sizes == expected


class Adds:
    """A model that adds up the ids of each sequence."""

    max_seq_length = 8

    def pack(self, *segments):
        packed = packing_ops.pack_inputs(segments, self.max_seq_length, 2, 3)
        return packed, None

    def tokens(self, ids, mask, segments):
        count = tf.reduce_sum(mask, -1) + 1000 * tf.reduce_max(segments)
        return {"logits": tf.stack([tf.reduce_sum(ids, -1), count], -1)}


def test_each_window_of_each_text_is_asked():
    lengths = [7, 0, 6, 23]
    texts = [[*range(10 * n, 10 * n + k)] for n, k in enumerate(lengths)]
    pieces = tf.ragged.constant(texts, tf.int32, ragged_rank=1)
    found, logits = text_windows.ask(
        Adds(), pieces, 4, tf.TensorSpec([None, 2], tf.int32)
    )
    windows_of = [overlaps.split(max(n, 1), 6, 4) for n in lengths]
    expected = [
        (number, begin, min(length, lengths[number]))
        for number, one in enumerate(windows_of)
        for begin, length in one
    ]
    rows = zip(found.question, found.begin, found.length, strict=True)
    assert [tuple(map(int, row)) for row in rows] == expected
    sums = [
        [5 + sum(texts[number][begin : begin + length]), length + 2]
        for number, begin, length in expected
    ]
    assert logits.numpy().tolist() == sums
