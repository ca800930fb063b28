"""Word vectors from how often pieces stand near each other.

The vectors of pieces in similar contexts are similar. They are the rows of a
truncated singular value decomposition of the positive pointwise mutual
information.

Source: Levy, Goldberg and Dagan, "Improving distributional similarity with
lessons learned from word embeddings", TACL 2015, sections 2.1 to 3.3.
"""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

WINDOW = 4  # Largest distance of two pieces that counts.
# Power of the contexts' frequencies, which makes rare contexts less important.
SMOOTHING = 0.75
# Power of the singular values in the vectors.
EXPONENT = 0.5


def count_pairs(
    pieces: np.ndarray, vocab_size: int, window: int = WINDOW
) -> sparse.csr_array:
    """Count how often each piece is to the left of each other, float64 [V, V].

    A pair at distance d counts 1 / d, in the row of the left piece. `pieces`
    are ids, int [n, S], -1 where there is none.
    """
    counts = sparse.csr_array((vocab_size, vocab_size))
    for distance in range(1, window + 1):
        left, right = pieces[:, :-distance], pieces[:, distance:]
        both = (left >= 0) & (right >= 0)
        weights = np.full(int(both.sum()), 1.0 / distance)
        counts += sparse.coo_array(
            (weights, (left[both], right[both])), counts.shape
        ).tocsr()
    return counts


def add_pairs(
    sequences: Iterable[np.ndarray], vocab_size: int
) -> sparse.csr_array:
    """Add up the counts of many sequences, see `count_pairs`."""
    total = recent = sparse.csr_array((vocab_size, vocab_size))
    for pieces in sequences:
        recent = recent + count_pairs(pieces, vocab_size)
        # Adding a small matrix to a large one takes as long as copying that.
        if 8 * recent.nnz > total.nnz:
            total, recent = total + recent, sparse.csr_array(total.shape)
    return total + recent


def positive_information(counts: sparse.csr_array) -> sparse.csr_array:
    """Return the positive pointwise mutual information, float64 [V, V].

    log p(piece, context) / (p(piece) q(context)), or 0 where that is below 0;
    q is the smoothed frequency of the context. Contexts are the pieces on both
    sides.
    """
    pairs = (counts + counts.T).tocoo()
    rows, columns = pairs.coords
    sums = np.bincount(rows, pairs.data, minlength=counts.shape[0])
    smoothed = sums**SMOOTHING / (sums**SMOOTHING).sum()
    information = np.log(pairs.data / (sums[rows] * smoothed[columns]))
    positive = information > 0
    return sparse.csr_array(
        (information[positive], (rows[positive], columns[positive])),
        counts.shape,
    )


def factorize(information: sparse.csr_array, size: int) -> np.ndarray:
    """Return a vector for each piece, float64 [V, size].

    The largest entry of each column, by its absolute value, is positive. Pieces
    without information have zeros.

    `size` must be far below V: the time grows with its square.
    """
    # A given start makes the result repeatable.
    start = np.ones(information.shape[0])
    left, values, _ = linalg.svds(information, size, v0=start)
    order = np.argsort(-values)
    vectors = left[:, order] * np.maximum(values[order], 0) ** EXPONENT
    largest = np.abs(vectors).argmax(0)
    signs = np.sign(vectors[largest, np.arange(size)])
    return vectors * np.where(signs == 0, 1, signs)


def embeddings(
    information: sparse.csr_array, size: int, stddev: float, seed: int
) -> np.ndarray:
    """Return word embeddings to start training from, float32 [V, size].

    Pieces without information get normal random numbers.
    """
    vectors = factorize(information, size)
    missing = np.diff(information.indptr) == 0
    vectors *= stddev / vectors[~missing].std()
    random = np.random.default_rng(seed)
    vectors[missing] = random.normal(0, stddev, (int(missing.sum()), size))
    return vectors.astype(np.float32)
