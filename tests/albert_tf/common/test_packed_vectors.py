"""Vectors of fewer numbers, as bytes or bits."""

import numpy as np
import pytest

from albert_tf.common import packed_vectors
from albert_tf.common.packed_vectors import VectorOptions
from tests.conftest import refused


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


VECTORS = unit(np.random.default_rng(1).normal(size=[40, 2, 64]))


@pytest.mark.parametrize("dimensions", [None, 32])
@pytest.mark.parametrize(
    ("precision", "dtype", "share", "error"),
    [
        (None, "f8", 1, 1e-12),
        ("float32", "f8", 1, 1e-12),
        ("int8", "i1", 1, 0.001),
        ("binary", "u1", 8, 0.3),
    ],
)
def test_packed_vectors_stand_for_the_first_numbers(
    dimensions, precision, dtype, share, error
):
    given_out = VectorOptions(dimensions, precision)
    packed, size = given_out.pack(VECTORS), dimensions or 64
    assert packed.dtype == np.dtype(dtype)
    assert packed.shape == (40, 2, size // share)
    kept = unit(VECTORS[..., :size])
    rounded = given_out.rounded(VECTORS)
    np.testing.assert_allclose(np.linalg.norm(rounded, axis=-1), 1, rtol=1e-6)
    assert 1 - (rounded * kept).sum(-1).min() < error
    if precision == "binary":
        bits = np.unpackbits(packed, axis=-1)
        np.testing.assert_array_equal(bits, kept > 0)
        expected = np.where(bits, 1, -1) / size**0.5
        np.testing.assert_allclose(rounded, expected, rtol=1e-6)


def test_rounding_to_bytes_changes_cosines_by_less_than_a_hundredth():
    rounded = VectorOptions(None, "int8").rounded(VECTORS)
    cosines, expected = (
        (v[:, 0] * v[:, 1]).sum(-1) for v in (rounded, VECTORS)
    )
    assert 1e-5 < abs(cosines - expected).max() < 0.01


def test_equal_distances_of_bits_are_equal_cosines():
    vectors = np.random.default_rng(0).normal(size=[200, 24])
    rounded = VectorOptions(None, "binary").rounded(vectors)
    assert len(np.unique(rounded @ rounded.T)) <= 25


def test_a_number_out_of_range_is_the_largest():
    vector = np.eye(1, 400)
    assert VectorOptions(None, "int8").pack(vector)[0, 0] == 127
    assert packed_vectors.scale(400) == 127 * 20 / 8


@pytest.mark.parametrize(
    ("dimensions", "precision", "message"),
    [
        (65, "float32", "`dimensions=65` is more than a vector has, 64"),
        (12, "binary", "a vector has 12. Use as `dimensions` a multiple of 8"),
    ],
)
def test_forms_that_a_vector_cannot_have(dimensions, precision, message):
    with refused(message):
        VectorOptions(dimensions, precision).check(64)
    VectorOptions(dimensions - 4, precision).check(64)
