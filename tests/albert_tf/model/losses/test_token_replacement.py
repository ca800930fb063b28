"""What a generator puts into a text."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import token_replacement
from tests.albert_tf.model import passes


@pytest.mark.parametrize("seed", [None, [7, 1]])
def test_pieces_follow_the_seed_of_a_batch(seed):
    """In evaluation there is none. The first piece is right."""
    arrays, originals = passes.masked_batch()
    batch = passes.tensors(arrays)
    logits = np.random.default_rng(5).normal(size=[4, 3, 400])
    logits[0, 0, arrays["masked_lm_ids"][0, 0]] = 100
    logits = tf.constant(logits, tf.float32)
    positions = batch["masked_lm_positions"]
    numbers = token_replacement._uniform(
        tf.constant(seed or [0, 0]), batch["input_ids"], positions
    )
    given = {**batch, "seed": tf.constant(seed)} if seed else batch
    ids, replaced = token_replacement.replace(given, logits)
    expected, pieces = (
        originals.copy(),
        token_replacement._sample(logits, numbers),
    )
    for row, number in np.argwhere(arrays["masked_lm_weights"]):
        expected[row, positions[row, number]] = pieces[row, number]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(replaced, expected != originals)


def test_samples_have_the_generators_probabilities():
    probabilities = np.array([0.5, 0.0, 0.3, 0.2], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities)
    count = 20_000
    numbers = (np.arange(count, dtype=np.float32) + 0.5) / count
    drawn = token_replacement._sample(
        tf.constant(np.tile(logits, [1, count, 1])), tf.constant(numbers[None])
    )
    shares = np.bincount(drawn[0], minlength=4) / count
    np.testing.assert_allclose(shares, probabilities, atol=1e-4)


def test_smallest_and_largest_numbers_draw_possible_pieces():
    logits = tf.constant([[[-1e9, 0.0, 0.0, -1e9]] * 2])
    numbers = tf.constant([[0.0, 1 - 2.0**-24]])
    np.testing.assert_array_equal(
        token_replacement._sample(logits, numbers), [[1, 2]]
    )


def test_numbers_are_spread_evenly_and_follow_seed_text_and_position():
    generator = np.random.default_rng(3)
    ids = tf.constant(generator.integers(0, 30_000, [500, 64], np.int32))
    positions = tf.constant(np.tile(np.arange(20, dtype=np.int32), [500, 1]))
    draw = token_replacement._uniform
    numbers = draw(tf.constant([7, 1]), ids, positions).numpy()
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.histogram(numbers, 10, (0, 1))[0]
    # 1,000 are expected in each; 5 standard deviations are 150.
    assert abs(counts - 1000).max() < 150
    neighbours = np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(500)
    for seed in ([7, 2], [8, 1]):
        others = draw(tf.constant(seed), ids, positions).numpy()
        assert abs(np.corrcoef(numbers.ravel(), others.ravel())[0, 1]) < 0.05
    # Of a part of the batch, with one token changed, and in another order.
    np.testing.assert_array_equal(
        draw(tf.constant([7, 1]), ids[3:5], positions[3:5]), numbers[3:5]
    )
    changed = ids.numpy()
    changed[:, 40] += 1
    for text in (changed, ids.numpy()[:, ::-1]):
        others = draw(tf.constant([7, 1]), tf.constant(text), positions).numpy()
        assert np.mean(others == numbers) < 0.01
