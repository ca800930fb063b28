"""Units of masking: pieces, phrases, entities."""

import numpy as np
import pytest

from albert_tf.data import marks, masking
from tests.reference import unit_masking

CLS, SEP, MASK = 2, 3, 4


def test_words_outside_are_units():
    w, p, e = marks.WORD, marks.PHRASE, marks.ENTITY
    # A phrase of two words, of which the last two are an entity with the next.
    found = np.array([w, w, p, w | p, w | e, e, w])
    for level, starts in (
        ("basic", [1, 1, 1, 1, 1, 1, 1]),
        ("phrase", [1, 1, 0, 0, 1, 0, 1]),
        ("entity", [1, 1, 0, 1, 0, 0, 1]),
    ):
        assert marks.unit_starts(level, found).tolist() == starts


def test_units_are_hidden_about_as_in_ernie():
    """Ours fills a budget; of long texts shares are nearly the same."""
    generator = np.random.default_rng(3)
    sizes = generator.choice([1, 2, 3, 4], 1000, p=[0.6, 0.2, 0.1, 0.1])
    starts = np.concatenate([np.arange(size) == 0 for size in sizes])
    rounds, length = 100, len(starts) + 2
    expected = np.zeros((5, 2))  # Units by size: all, chosen.
    kinds = np.zeros(3)
    for _ in range(rounds):
        hidden = unit_masking.hide(sizes, generator)
        for size, found in zip(sizes, hidden, strict=True):
            expected[size] += 1, found is not None
            kinds += np.bincount(found or [], minlength=3)
    masker = masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=1000, ngram=1),
        masking.Vocabulary(10**6, CLS, SEP, MASK, np.zeros(0, "u1")),
    )
    tokens = np.tile(np.arange(length) + 10, (rounds, 1))
    tokens[:, 0], tokens[:, -1] = CLS, SEP
    boundary = np.tile(np.concatenate([[1], starts, [1]]), (rounds, 1))
    found = masker.mask(
        tokens,
        np.full(rounds, length),
        np.arange(rounds, dtype=np.uint64),
        boundary.astype("u1"),
    )
    chosen = np.zeros((rounds, length), bool)
    real = np.arange(found.positions.shape[1]) < found.counts[:, None]
    rows, columns = np.nonzero(real)
    chosen[rows, found.positions[rows, columns]] = True
    units = np.cumsum(starts) - 1
    for row in chosen[:, 1:-1]:  # Units are hidden as a whole, or not.
        assert (row == row[np.flatnonzero(starts)[units]]).all()
    firsts = chosen[:, 1:-1][:, starts]
    for size in (1, 2, 3, 4):
        share = firsts[:, sizes == size].mean()
        total, wanted = expected[size]
        assert share == pytest.approx(wanted / total, abs=0.01)
    shown = found.input_ids[chosen]
    ours = [(shown == MASK).mean(), 0, (shown == tokens[chosen]).mean()]
    ours[1] = 1 - sum(ours)
    np.testing.assert_allclose(ours, kinds / kinds.sum(), atol=0.01)
