"""Texts in sequences: markers, cuts, padding, records."""

import numpy as np
import pytest

from albert_tf.finetuning import base, packing
from albert_tf.tasks.embedding import task as embedding
from tests.albert_tf.tasks.glue import small_tasks


def pack(first, second, length):
    packed = packing.pack([(first, second)], small_tasks.Markers(), length)
    return {name: values[0] for name, values in packed.items()}


def test_pack_worked_example():
    packed = pack([11, 12, 13], [21, 22, 23], 8)
    assert {name: value.tolist() for name, value in packed.items()} == {
        "input_ids": [2, 11, 12, 13, 3, 21, 22, 3],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 1],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1],
    }
    assert all(value.dtype == np.int64 for value in packed.values())


@pytest.mark.parametrize(
    "first, second, length, expected",
    [
        ([11, 12, 13, 14], [21], 7, [2, 11, 12, 13, 3, 21, 3]),
        ([11], [21, 22, 23, 24], 7, [2, 11, 3, 21, 22, 23, 3]),
        ([11, 12], [21, 22], 6, [2, 11, 12, 3, 21, 3]),
        ([11, 12, 13, 14], [21, 22], 7, [2, 11, 12, 3, 21, 22, 3]),
        ([11, 12, 13, 14], [], 5, [2, 11, 12, 13, 3]),
        ([11], [], 5, [2, 11, 3, 0, 0]),
        ([], [], 4, [2, 3, 0, 0]),
    ],
)
def test_pack_cuts_the_longer_text(first, second, length, expected):
    before = [*first], [*second]
    packed = pack(first, second, length)
    assert (first, second) == before
    assert packed["input_ids"].tolist() == expected


def test_pack_marks_padding():
    packed = pack([11], [21], 7)
    assert packed["input_mask"].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert packed["segment_ids"].tolist() == [0, 0, 0, 1, 1, 0, 0]


class Letters(small_tasks.Markers):
    """A piece for each letter: "a" is 11."""

    def encode_batch(self, texts):
        return [[ord(letter) - 86 for letter in text] for text in texts]


def examples_of(*texts):
    return [packing.TextExample(n, pair, n / 2) for n, pair in enumerate(texts)]


def test_a_record_may_have_several_sequences(monkeypatch):
    """The longest that fits has four pieces."""
    monkeypatch.setattr(packing, "_BATCH", 2)
    task = embedding.EmbeddingTask(Letters(), 6, embedding.EmbeddingOptions())
    task.remarks = {}
    examples = examples_of(("a", "abcd"), ("abcde", "abcdef"), ("", "b"))
    first, last = task.featurize(examples, base.TRAIN)
    assert first["input_ids"][0].tolist() == [
        [2, 11, 3, 0, 0, 0],
        [2, 11, 12, 13, 14, 3],
    ]
    assert last["input_ids"][0].tolist() == [
        [2, 3, 0, 0, 0, 0],
        [2, 12, 3, 0, 0, 0],
    ]
    assert [*first["label_ids"], *last["label_ids"]] == [0, 0.5, 1]
    assert first["is_real_example"].tolist() == [1, 1]
    assert [*first] == [feature.name for feature in task.layout(base.TRAIN)]
    cut = "examples are longer than `max_seq_length=6` and cut."
    assert task.remarks == {cut: [1], packing.EMPTY: [2]}


def test_pairs_have_one_piece_less():
    task = small_tasks.make("rte", Letters(), 7)
    task.remarks = {}
    examples = examples_of(("abc", "d"), ("abcd", "d"), ("", ""), ("", "a"))
    (found,) = task.featurize(examples, base.DEV)
    assert found["input_ids"][1].tolist() == [2, 11, 12, 13, 3, 14, 3]
    assert [*task.remarks.values()] == [[1], [2]]
