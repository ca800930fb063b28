"""Relative terms: against loops, and learned alike plain and in training."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network import attention, attention_bias, relative
from tests.albert_tf.model import passes


@pytest.fixture
def layer(small_config):
    config = dataclasses.replace(small_config, position_bias="relative")
    return passes.fill(attention.Attention(config, "bert/x"), 0.3)


def make_biases(layer):
    inputs = {
        "input_mask": tf.constant([[1] * 5, [1] * 4 + [0]]),
        "segment_ids": tf.constant([[0, 0, 1, 1, 1], [0, 1, 1, 1, 0]]),
    }
    return attention_bias.biases(layer._config, inputs)


def test_bias_is_what_its_docstring_says(layer):
    """A loop over heads, positions and attended positions; D is 8."""
    generator = np.random.default_rng(5)
    query = generator.normal(size=[2, 2, 5, 8])
    _, offsets, same = make_biases(layer)
    position, segment = layer.relative_position, layer.relative_segment
    found = relative.bias(
        tf.constant(query, tf.float32), offsets, same, position, segment
    )
    expected = np.zeros([2, 2, 5, 5])
    for row, head, i, j in np.ndindex(expected.shape):
        columns = slice(8 * head, 8 * head + 8)
        angles = (i - j) / 10_000.0 ** (np.arange(0, 16, 2) / 16)
        sinusoids = np.concatenate([np.sin(angles), np.cos(angles)])
        key = (sinusoids @ position.kernel.numpy())[columns]
        q = query[row, head, i]
        total = (q + position.bias.numpy()[columns]) @ key
        if same[row, 0, i, j]:
            g = segment.kernel.numpy()[0, columns]
            total += (q + segment.bias.numpy()[columns]) @ g
        expected[row, head, i, j] = total / 8**0.5
    np.testing.assert_allclose(found, expected, atol=1e-5)
