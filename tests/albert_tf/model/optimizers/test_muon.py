"""Muon against its formulas."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.optimizers import muon

SHAPES = [(6, 6), (6, 20), (20, 6)]


def polynomial(values):
    """What the iterations do to singular values; Jordan et al., 2024."""
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return values


def matrix(shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


def orthogonalize(values, dtype=tf.float32):
    return muon.orthogonalize(tf.constant(values, tf.float32), dtype).numpy()


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_vectors_stay_and_values_follow_the_polynomial(shape):
    values = matrix(shape)
    left, singular, right = np.linalg.svd(values, full_matrices=False)
    scaled = polynomial(singular / np.linalg.norm(values))
    np.testing.assert_allclose(
        orthogonalize(values), left * scaled @ right, atol=1e-4
    )
    assert scaled.min() > 0.6
    assert scaled.max() < 1.25


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_gives_nearly_the_direction_of_float32(shape):
    exact = orthogonalize(matrix(shape))
    rounded = orthogonalize(matrix(shape), tf.bfloat16)
    assert rounded.dtype == np.float32
    norms = np.linalg.norm(exact) * np.linalg.norm(rounded)
    assert np.vdot(exact, rounded) / norms > 0.99


def test_the_size_of_the_gradient_does_not_matter():
    values = matrix((6, 20))
    for factor in (1e-6, 1e6):
        np.testing.assert_allclose(
            orthogonalize(factor * values), orthogonalize(values), atol=1e-4
        )


def test_zeros_stay_zeros():
    np.testing.assert_array_equal(orthogonalize(np.zeros((4, 6))), 0)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
def test_direction_follows_its_formula(shape):
    gradient, momentum = matrix(shape, 1), matrix(shape, 2)
    found, new = muon.direction(
        tf.constant(gradient, tf.float32),
        tf.constant(momentum, tf.float32),
        tf.float32,
    )
    expected = 0.95 * momentum + 0.05 * gradient
    np.testing.assert_allclose(new, expected, rtol=1e-5, atol=1e-6)
    ahead = 0.95 * expected + 0.05 * gradient
    np.testing.assert_allclose(
        found, orthogonalize(ahead) * 0.2 * 20**0.5, atol=1e-4
    )
