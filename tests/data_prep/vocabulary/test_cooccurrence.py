"""Counts of neighbours, and vectors made of them."""

import numpy as np
import pytest
from scipy import sparse

from data_prep.vocabulary import cooccurrence

TEXT = np.array([[0, 1, 2, -1], [1, -1, 0, 2]])


def test_pairs_count_by_their_distance():
    counts = cooccurrence.count_pairs(TEXT, 3, window=2).toarray()
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 2] = 1  # Neighbours in the first row.
    expected[0, 2] = 0.5 + 1  # Two apart there, neighbours in the second.
    expected[1, 0] = 0.5  # On both sides of a gap.
    np.testing.assert_array_equal(counts, expected)


def test_counts_do_not_depend_on_how_the_text_is_divided():
    rng = np.random.default_rng(1)
    text = rng.integers(-1, 20, (200, 16))
    whole = cooccurrence.count_pairs(text, 20).toarray()
    for size in (1, 7, 200):
        parts = (text[i : i + size] for i in range(0, 200, size))
        found = cooccurrence.add_pairs(parts, 20).toarray()
        np.testing.assert_allclose(found, whole, rtol=1e-12)


def test_information_follows_its_formula():
    left_of = np.array([[0.0, 4, 1], [0, 0, 1], [0, 1, 3]])
    found = cooccurrence.positive_information(sparse.csr_array(left_of))
    counts = left_of + left_of.T
    contexts = counts.sum(0) ** 0.75
    shares = contexts / contexts.sum()
    with np.errstate(divide="ignore"):
        expected = np.log(counts / counts.sum(1, keepdims=True) / shares)
    assert (expected < 0).any()
    np.testing.assert_allclose(found.toarray(), np.maximum(expected, 0))


def test_vectors_are_the_singular_ones():
    rng = np.random.default_rng(2)
    matrix = np.abs(rng.normal(size=(12, 12)))
    found = cooccurrence.factorize(sparse.csr_array(matrix), 5)
    left, values, _ = np.linalg.svd(matrix)
    expected = left[:, :5] * values[:5] ** 0.5
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)
    largest = np.abs(found).argmax(0)
    assert (found[largest, range(5)] > 0).all()


def clusters():
    """Of a text in which pieces 0 to 4 and 5 to 9 never meet."""
    rng = np.random.default_rng(3)
    text = rng.integers(0, 5, (400, 12))
    text[200:] += 5
    return cooccurrence.positive_information(cooccurrence.count_pairs(text, 12))


def test_pieces_with_the_same_neighbours_are_near():
    table = cooccurrence.embeddings(clusters(), 4, 0.05, seed=1)
    assert table.shape == (12, 4)
    assert table.dtype == np.float32
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert cosines[:5, :5].min() > 0.8
    assert cosines[5:10, 5:10].min() > 0.8
    assert np.abs(cosines[:5, 5:10]).max() < 0.2
    assert table[:10].std() == pytest.approx(0.05, rel=1e-3)


def test_pieces_without_information_get_random_numbers():
    one, same, other = (
        cooccurrence.embeddings(clusters(), 4, 0.05, seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one[:10], other[:10])
    assert (one[10:] != other[10:]).all()
    assert 0.01 < np.abs(one[10:]).mean() < 0.1
