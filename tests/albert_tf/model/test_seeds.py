"""Seeds of dropout."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import seeds
from tests.albert_tf.model import passes

SEED = tf.constant([1, 2])
ONES = tf.ones([1000])


def test_every_use_has_a_seed_of_its_own():
    dropout = seeds.DropoutSeeds(SEED)
    first, second = dropout(ONES, 0.25).numpy(), dropout(ONES, 0.25).numpy()
    assert set(first) == {0, np.float32(1 / 0.75)}
    assert 0.2 < (first == 0).mean() < 0.3
    for use, found in enumerate((first, second), 1):
        expected = passes.drop(ONES, 0.25, passes.fold(SEED, use))
        np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
def test_what_has_16_bits_is_dropped_as_float32_is(dtype, rate):
    """Not by draws of 16 bits, where the rate 0.001 is 0.0078 in bfloat16."""
    ones = tf.ones([100_000])
    found = seeds.DropoutSeeds(SEED)(tf.cast(ones, dtype), rate)
    assert found.dtype == dtype
    expected = seeds.DropoutSeeds(SEED)(ones, rate)
    np.testing.assert_array_equal(found, tf.cast(expected, dtype))


def test_a_use_draws_the_same_each_time():
    dropout = seeds.DropoutSeeds(SEED)
    use = dropout.next(0.5)
    np.testing.assert_array_equal(use(ONES), use(ONES))
    assert (use(ONES) != dropout.next(0.5)(ONES)).numpy().any()


def test_what_drops_nothing_does_not_count():
    dropout = seeds.DropoutSeeds(SEED)
    np.testing.assert_array_equal(dropout(ONES, 0.0), ONES)
    expected = seeds.DropoutSeeds(SEED)(ONES, 0.25)
    np.testing.assert_array_equal(dropout(ONES, 0.25), expected)
    np.testing.assert_array_equal(seeds.NO_DROPOUT(ONES, 0.5), ONES)


def test_seeds_are_folded_and_drawn_if_there_is_none():
    fold = tf.random.experimental.stateless_fold_in
    np.testing.assert_array_equal(seeds.fold_in(SEED, 7), fold(SEED, 7))
    one, other = seeds.fold_in(None, 7), seeds.fold_in(None, 7)
    assert (one != other).numpy().any()
