"""Counted random numbers: one after another and in arrays, the same."""

import numpy as np
import pytest

from albert_tf.common import random_streams


def test_first_numbers_of_splitmix64():
    """The generator's published example: seed 1234567."""
    numbers = [random_streams.derive(1234567, n) for n in range(5)]
    assert numbers == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_stream_equals_the_array():
    for key in (0, 1, 2**64 - 1):
        stream = random_streams.Stream(key)
        one_by_one = [stream.random() for _ in range(100)]
        keys = np.full(100, key, np.uint64)
        np.testing.assert_array_equal(
            one_by_one, random_streams.uniform(keys, np.arange(100))
        )
        assert random_streams.uniform(keys[:1], 7) == one_by_one[7]


def test_streams_opened_together_are_those_of_their_keys():
    keys = random_streams.derive_array(np.uint64([7]), np.arange(150))
    draws = np.arange(150) % 5
    opened = list(random_streams.open_streams(keys, draws))
    for key, stream in zip(keys.tolist(), opened, strict=True):
        alone = random_streams.Stream(key)
        wanted = [alone.random() for _ in range(7)]
        assert [stream.random() for _ in range(7)] == wanted


def test_derive_equals_the_array():
    keys = np.array([3, 2**63 + 1], np.uint64)
    expected = [random_streams.derive(int(key), 11) for key in keys]
    for number in (11, np.array([11]), np.array([11, 11])):
        actual = random_streams.derive_array(keys, number)
        assert actual.tolist() == expected


def test_integers_cover_their_range_evenly():
    stream = random_streams.Stream(5)
    counts = np.bincount([stream.randint(3, 7) for _ in range(5000)])
    assert not counts[:3].any() and len(counts) == 8
    chi_square = ((counts[3:] - 1000) ** 2 / 1000).sum()
    assert chi_square < 18.5  # The 0.999 quantile, 4 degrees of freedom.


@pytest.mark.parametrize("lag", [1, 2, 7])
def test_neighbouring_keys_and_numbers_are_independent(lag):
    keys = np.arange(200, dtype=np.uint64)[:, None]
    numbers = random_streams.uniform(keys, np.arange(200)[None])
    for axis in (0, 1):
        one = np.take(numbers, range(200 - lag), axis).ravel()
        other = np.take(numbers, range(lag, 200), axis).ravel()
        # The standard error of a correlation of 39,000 pairs is 0.005.
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.025
