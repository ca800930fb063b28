"""Words of texts as TensorFlow operations against Python."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.tagging import portable
from albert_tf.text import word_ops, words
from tests.albert_tf.finetuning import tagged


@pytest.mark.parametrize(
    "texts", [tagged.HARD, [], ["", ""], ["a", "'b'"]], ids=len
)
def test_words_are_those_of_python(texts):
    found, _ = word_ops.find(tf.constant(texts, tf.string))
    rows = found.row.numpy()
    for row, text in enumerate(texts):
        values = [v.numpy()[rows == row].tolist() for v in found[1:]]
        starts, ends = words.ranges(text)
        assert values[2:] == [starts.tolist(), ends.tolist()]
        in_bytes = [
            [len(text[:edge].encode()) for edge in edges]
            for edges in (starts, ends)
        ]
        assert values[:2] == in_bytes


@pytest.mark.parametrize("size", [1, 3])
def test_pieces_of_words_are_those_of_python(size):
    texts, starts, ends, expected = ["", *tagged.HARD], [], [], []
    for text in texts:
        edges = np.array([*range(0, len(text), size), len(text)])
        known = list(zip(*words.ranges(text), strict=True))
        own, goes_on = portable.find_pieces(known, edges[:-1], edges[1:])
        before = sum(map(len, starts))
        own = np.where(own < 0, word_ops.NONE, own + before)
        expected += zip(own.tolist(), goes_on.tolist(), strict=True)
        in_bytes = [len(text[:edge].encode()) for edge in edges]
        starts.append(in_bytes[:-1])
        ends.append(in_bytes[1:])
    rows = [tf.ragged.constant(r, tf.int32, 1) for r in (starts, ends)]
    found = word_ops.find(tf.constant(texts))
    pieces = word_ops.find_pieces(tf.constant(texts), *found, *rows)
    pairs = zip(*(part.numpy().tolist() for part in pieces), strict=True)
    assert list(pairs) == expected
