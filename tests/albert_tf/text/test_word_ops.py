"""Words of texts as TensorFlow operations against Python."""

import pytest
import tensorflow as tf

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
