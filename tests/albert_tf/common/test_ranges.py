"""Ranges of numbers: what is in them, and what is said about the rest."""

import math

import numpy as np
import pytest

from albert_tf.common import ranges


@pytest.mark.parametrize(
    ("within", "value"),
    [
        (ranges.Range(1, 100), 1),
        (ranges.Range(1, 100), 100),
        (ranges.Range(1, 100), np.int64(7)),
        (ranges.Range(above=0, high=10), 1e-30),
        (ranges.Range(0, below=1), 0),
        (ranges.Range(0, below=1), np.float32(0.5)),
    ],
)
def test_numbers_inside_are_fine(within, value):
    whole = isinstance(value, int | np.int64)
    assert not within.describe_fault(value, whole=whole)


@pytest.mark.parametrize(
    ("within", "value", "complaint"),
    [
        (ranges.Range(1, 1000), 0, "below 1. Use a number from 1 to 1,000."),
        (ranges.Range(1, 9), 10**400, "above 9. Use a number from 1 to 9."),
        (
            ranges.Range(above=0, high=10),
            0.0,
            "not above 0. Use a number above 0, up to 10.",
        ),
        (
            ranges.Range(0, below=1),
            1.0,
            "not below 1. Use a number from 0 to below 1.",
        ),
        (ranges.Range(0, 1), math.nan, "not a number. Use a number from 0"),
        (ranges.Range(0, 1), True, "not a number. Use a number from 0 to 1."),
    ],
)
def test_others_are_told_what_is_allowed(within, value, complaint):
    said = within.describe_fault(value, whole=False)
    assert said.startswith(f"is {complaint}")


def test_shared_ranges_have_their_ends():
    for shared, words in {
        ranges.STEPS_OR_NONE: "from 0 to 1,000,000,000",
        ranges.TOKENS_OF_TASK: "from 4 to 65,536",  # With three markers.
        ranges.SEED: "from 0 to 2,147,483,647",
        ranges.SHARE: "from 0 to 1",
        ranges.LEARNING_RATE: "above 0, up to 10",
    }.items():
        assert str(shared) == words


@pytest.mark.parametrize("value", [1.0, 1.5, "1", None, False])
def test_whole_numbers_only(value):
    assert ranges.Range(0, 9).describe_fault(value, whole=True) == (
        "is not a whole number. Use a whole number from 0 to 9."
    )
