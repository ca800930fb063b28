"""Two texts in one sequence: markers, cuts, padding."""

import numpy as np
import pytest

from albert_tf.finetuning import packing
from tests.albert_tf.finetuning.glue import small_tasks


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
