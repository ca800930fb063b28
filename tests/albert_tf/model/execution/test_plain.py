"""The operations by their definitions, against plain NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import HIDDEN_ACTS
from albert_tf.model.execution import plain
from tests.reference import encoder as reference

X = np.linspace(-6, 6, 241)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_equal_their_definitions(dtype):
    assert reference.ACTIVATIONS.keys() == set(HIDDEN_ACTS)
    x = tf.cast(X, dtype)
    for name, function in reference.ACTIVATIONS.items():
        actual = plain.activation(name)(x)
        assert actual.dtype == dtype
        np.testing.assert_allclose(
            tf.cast(actual, tf.float32),
            function(tf.cast(x, tf.float64).numpy()),
            atol=1e-6 if dtype == "float32" or name == "gelu" else 0.03,
            # That with tanh computes in float32.
            rtol=2.0**-8 if dtype == "bfloat16" else 0,
        )


def test_attention_is_that_of_each_head_with_all_biases():
    """Two heads of three columns; every bias has a shape of its own."""
    generator = np.random.default_rng(6)
    query, key, value, mask, by_head = (
        generator.normal(size=shape)
        for shape in ([2, 4, 6], [2, 5, 6], [2, 5, 6], [2, 1, 1, 5], [2, 4, 5])
    )
    actual = plain.attention(
        *(plain.split_heads(x, 2) for x in (query, key, value)),
        [tf.constant(b, tf.float32) for b in (mask, by_head)],
        dropout=lambda x: 2 * x,
    )
    for row in range(2):
        for head in range(2):
            columns = slice(3 * head, 3 * head + 3)
            scores = query[row, :, columns] @ key[row, :, columns].T / 3**0.5
            powers = np.exp(scores + mask[row, 0] + by_head[head])
            shares = 2 * powers / powers.sum(-1, keepdims=True)
            np.testing.assert_allclose(
                actual[row, :, columns],
                shares @ value[row, :, columns],
                atol=1e-5,
            )


def test_feed_forward_is_two_linear_layers():
    generator = np.random.default_rng(6)
    arrays = [
        generator.normal(size=shape)
        for shape in ([2, 5, 4], [4, 3], [3], [3, 4], [4])
    ]
    x, kernel, bias, output_kernel, output_bias = arrays
    expected = np.tanh(x @ kernel + bias) @ output_kernel + output_bias
    tensors = [tf.constant(array, tf.float32) for array in arrays]
    actual = plain.feed_forward(*tensors, "tanh")
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_heads_are_split_and_merged():
    x = tf.reshape(tf.range(2 * 3 * 8), [2, 3, 8])
    split = plain.split_heads(x, 4, like=tf.zeros([2, 3, 5]))
    assert split.shape == [2, 4, 3, 2]
    np.testing.assert_array_equal(split[1, 2], x[1, :, 4:6])
    np.testing.assert_array_equal(plain.merge_heads(split), x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_norm_computes_in_float32(dtype):
    """In bfloat16 the mean of these numbers would be rounded to 302."""
    x = tf.constant([[300.0, 302.0, 304.0, 304.0, 300.0, 304.0, 304.0]], dtype)
    gamma, beta = tf.fill([7], 2.0), tf.fill([7], 0.5)
    wide = tf.cast(x, tf.float64).numpy()
    expected = 2 * (wide - wide.mean()) / np.sqrt(wide.var() + 4) + 0.5
    actual = plain.layer_norm(x, gamma, beta, 4.0)
    assert actual.dtype == dtype
    atol = 1e-4 if dtype == "float32" else 0.02
    np.testing.assert_allclose(tf.cast(actual, tf.float32), expected, atol=atol)


def test_softmax_adds_biases_in_float32():
    """In bfloat16 500.5 would be 500."""
    scores = tf.constant([[500.0, 500.0, 500.0]], tf.bfloat16)
    shares = plain.biased_softmax(scores, tf.constant([0.5, 0.0, -1e4]))
    assert shares.dtype == tf.bfloat16
    first = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(
        tf.cast(shares, tf.float32), [[first, 1 - first, 0]], atol=3e-3
    )
