"""Attention: against plain NumPy, across two sequences, with a learned bias."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network import attention, attention_bias, relative
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


def test_a_relative_bias_is_that_of_the_layer(small_config):
    config = dataclasses.replace(small_config, position_bias="relative")
    layer = passes.fill(attention.Attention(config, "bert/x"), 0.3)
    segments = tf.constant([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0]])
    inputs = {"input_mask": tf.constant(MASK), "segment_ids": segments}
    biases = attention_bias.biases(config, inputs)
    query = normal(2, 2, 6, 8)
    mask, own = layer.layer_biases(query, biases)
    assert mask is biases[0]
    parts = layer.relative_position, layer.relative_segment
    expected = relative.bias(query, *biases[1:], *parts)
    np.testing.assert_array_equal(own, expected)
