"""What training draws from records without masks."""

import types

import numpy as np
import pytest

from albert_tf.data import (
    drawing,
    marks,
    masking,
    passages,
    permutation,
    span_corruption,
)

MASKS = drawing.Masks(
    masking.Masker(
        masking.MaskingOptions(max_predictions_per_seq=3, masked_lm_prob=0.4),
        masking.Vocabulary(60, 2, 3, 4, np.zeros(0, np.uint8)),
    ),
    max_seq_length=8,
)


def test_masks_are_those_of_the_records_word_starts():
    rows = [1] * 20 + [0]  # The last one only fills up the batch.
    records = {
        "input_ids": np.outer(rows, [2, 5, 6, 7, 8, 3, 0, 0]),
        "input_mask": np.outer(rows, [1] * 6 + [0] * 2),
        "token_boundary": np.outer(rows, [1, 1, 0, 1, 0, 1, 0, 0]),
    }
    found = MASKS.draw(records, np.arange(21, dtype=np.uint64))
    shapes = {f.name: (21, *f.shape) for f in MASKS.makes}
    assert {name: value.shape for name, value in found.items()} == shapes
    # A word has two pieces, and both of them are hidden.
    weights = found["masked_lm_weights"]
    assert weights.tolist() == [[1, 1, 0]] * 20 + [[0, 0, 0]]
    places = found["masked_lm_positions"][:20, :2]
    assert {tuple(row) for row in places.tolist()} == {(1, 2), (3, 4)}
    assert (found["masked_lm_ids"][:20, :2] == places + 4).all()
    assert not found["input_ids"][20].any()


def test_both_parts_of_a_chain_know_the_step():
    parts = [
        types.SimpleNamespace(
            draw=lambda records, keys, step=None, name=name: {name: step}
        )
        for name in "ab"
    ]
    found = drawing.Chain(*parts).draw({"c": 1, "a": 2}, None, 7)
    assert found == {"a": 7, "b": 7, "c": 1}


@pytest.mark.parametrize(
    "make", [permutation.PermutationDrawer, span_corruption.SpanDrawer]
)
def test_a_chain_draws_from_what_was_drawn(make):
    """From passages in which nothing is hidden."""
    nothing = masking.Masker(
        masking.MaskingOptions(masked_lm_prob=0.0), MASKS.masker.vocabulary
    )
    first = passages.PassageDrawer(drawing.Masks(nothing, 24), (), 2)
    second = make(MASKS.masker, 24)
    chain = drawing.Chain(first, second)
    tokens = np.random.default_rng(1).integers(5, 60, [4, 22])
    records = {
        "tokens": tokens,
        "marks": np.full_like(tokens, marks.WORD),
        "document": np.arange(4),
    }
    keys = np.arange(4, dtype=np.uint64)
    found = chain.draw(records, keys)
    assert {f.name for f in chain.makes} <= found.keys()
    assert chain.drops == ("tokens", "document")
    for feature in chain.makes:
        assert found[feature.name].shape == (4, *feature.shape)
    arranged = first.draw(records, keys)
    np.testing.assert_array_equal(arranged["input_ids"][:, 1:-1], tokens)
    for name, value in second.draw(arranged, keys).items():
        np.testing.assert_array_equal(found[name], value)
    name = "masked_lm_weights" if "ranks" in found else "target_ids"
    assert found[name].any(1).all()
