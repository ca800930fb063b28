"""Attention and its biases: against plain NumPy, and what is learned."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network import attention, attention_bias
from tests.albert_tf.model import passes
from tests.reference import encoder as reference

MASK = np.array([[1] * 6, [1] * 4 + [0] * 2])
BIAS = tf.constant((1.0 - MASK[:, None, None]) * -1e4, tf.float32)


@pytest.fixture
def layer(small_config):
    config = dataclasses.replace(
        small_config, initializer_range=0.3, **passes.RATES
    )
    return passes.fill(attention.Attention(config, "bert/x"))


def normal(*shape, seed=4):
    generator = np.random.default_rng(seed)
    return tf.constant(generator.normal(size=shape), tf.float32)


@pytest.mark.parametrize("training", [False, True])
def test_attention_equals_plain_numpy(layer, small_config, training):
    x = normal(2, 6, 16)
    plain = reference.Encoder(small_config, passes.values(layer), passes.scale)
    expected = plain.attend(x.numpy().astype(float), MASK, "bert/x", 0)
    found = layer(x, [BIAS], dropout=passes.Scaling(), training=training)
    passes.assert_close(found, expected)


@pytest.mark.parametrize("training", [False, True])
def test_positions_may_attend_to_another_sequence(layer, training):
    """Some of all, in any order, get what they get among all."""
    x = normal(2, 6, 16)
    chosen = [4, 0, 4, 2]
    actual = layer(
        tf.gather(x, chosen, axis=1), [BIAS], memory=x, training=training
    )
    passes.assert_close(actual, tf.gather(layer(x, [BIAS]), chosen, axis=1))


@pytest.mark.parametrize(
    "shape", [(2, 1, 1, 6), (2, 1, 6, 6), (2, 6, 6), (2, 2, 6, 6), (1, 1, 6, 1)]
)
def test_a_learned_bias_gets_its_gradient(layer, shape):
    x, bias = normal(2, 6, 16), normal(*shape, seed=5)
    found = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch([x, bias])
            y = layer(x, [BIAS, bias], training=training)
            loss = tf.reduce_sum(tf.sin(y))
        found.append(tape.gradient(loss, [bias, x]))
    for plain, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, plain, atol=1e-5, rtol=1e-4)
    if shape[-1] != 1:  # The same for all keys: nothing changes.
        assert np.abs(found[0][0]).max() > 1e-2


def test_a_relative_bias_is_what_its_docstring_says(small_config):
    """A loop over heads, positions and attended positions; D is 8."""
    config = dataclasses.replace(small_config, position_bias="relative")
    layer = passes.fill(attention.Attention(config, "bert/x"), 0.3)
    segments = tf.constant([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0]])
    inputs = {"input_mask": tf.constant(MASK), "segment_ids": segments}
    biases = attention_bias.make(config, inputs)
    query, same = normal(2, 2, 6, 8), biases[2].numpy()
    mask, actual = layer.layer_biases(query, biases)
    assert mask is biases[0]
    position, segment = layer.relative_position, layer.relative_segment
    expected = np.zeros([2, 2, 6, 6])
    for row, head, i, j in np.ndindex(expected.shape):
        columns = slice(8 * head, 8 * head + 8)
        angles = (i - j) / 10_000.0 ** (np.arange(0, 16, 2) / 16)
        sinusoids = np.concatenate([np.sin(angles), np.cos(angles)])
        key = (sinusoids @ position.kernel.numpy())[columns]
        q = query.numpy()[row, head, i]
        total = (q + position.bias.numpy()[columns]) @ key
        if same[row, 0, i, j]:
            g = segment.kernel.numpy()[0, columns]
            total += (q + segment.bias.numpy()[columns]) @ g
        expected[row, head, i, j] = total / 8**0.5
    np.testing.assert_allclose(actual, expected, atol=1e-5)
