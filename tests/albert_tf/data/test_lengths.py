"""The lengths that sequences are padded to."""

import pytest

from albert_tf.data import layouts, lengths


def test_there_are_few_lengths():
    assert lengths.allowed(24, 48) == [24, 26, 28, 30, 32, 36, 40, 44, 48]
    assert lengths.allowed(16, 512)[-3:] == [448, 480, 512]


@pytest.mark.parametrize(
    "shortest, longest, expected",
    [
        (16, 8, [8]),
        (16, 16, [16]),
        (40, 70, [40, 44, 48, 52, 56, 60, 64, 70]),
        (64, 64, [64]),
    ],
)
def test_the_longest_is_always_allowed(shortest, longest, expected):
    assert lengths.allowed(shortest, longest) == expected


def test_sequences_are_what_has_padding():
    without = layouts.Feature("ids", (40,), "int64")
    layout = (*layouts.classification_layout(40), without)
    names = {"input_ids", "input_mask", "segment_ids"}
    assert lengths.sequence_features(layout) == names
