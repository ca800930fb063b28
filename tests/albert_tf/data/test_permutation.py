"""What permutation language modelling asks for, and what sees what."""

import numpy as np
import pytest

from albert_tf.data import masking, permutation
from tests.conftest import digest
from tests.reference import permutation as reference

CLS, SEP, MASK = 2, 3, 4
LENGTH, MOST = 48, 9


def make_drawer(most=MOST):
    return permutation.PermutationDrawer(
        masking.Masker(
            masking.MaskingOptions(max_predictions_per_seq=most),
            masking.Vocabulary(60, CLS, SEP, MASK, np.zeros(0, np.uint8)),
        ),
        LENGTH,
    )


def make_records(lengths):
    """Two segments each; every third piece is inside of a word."""
    generator = np.random.default_rng(4)
    ids = generator.integers(5, 60, [len(lengths), LENGTH])
    real = np.arange(LENGTH) < np.array(lengths)[:, None]
    ids[:, 0] = CLS
    for row, length in zip(ids, lengths, strict=True):
        row[[length // 3, length - 1]] = SEP
    return {
        "input_ids": ids * real,
        "input_mask": real.astype(np.int32),
        "token_boundary": (np.arange(LENGTH) % 3 > 0) * real,
    }


KEYS = np.arange(50, dtype=np.uint64)


@pytest.fixture(scope="module")
def records():
    return make_records([48] * 20 + [31] * 20 + [20] * 10)


@pytest.fixture(scope="module")
def drawn(records):
    return make_drawer().draw(records, KEYS)


def test_features_have_their_shapes_and_are_drawn_again(records, drawn):
    drawer = make_drawer()
    assert set(drawn) == {f.name for f in drawer.makes}
    for feature in drawer.makes:
        assert drawn[feature.name].shape == (50, *feature.shape)
    again = drawer.draw({k: v[7:9] for k, v in records.items()}, KEYS[7:9])
    for name, value in again.items():
        np.testing.assert_array_equal(value, drawn[name][7:9])


def test_pieces_that_are_asked_for_are_ordinary_and_hidden(records, drawn):
    for row in range(50):
        places = drawn["masked_lm_positions"][row]
        count = int(drawn["masked_lm_weights"][row].sum())
        places, ids = places[:count], records["input_ids"][row]
        assert sorted(set(places)) == list(places)
        assert not set(ids[places]) & {0, CLS, SEP}
        np.testing.assert_array_equal(
            drawn["masked_lm_ids"][row, :count], ids[places]
        )
        expected = ids.copy()
        expected[places] = MASK
        np.testing.assert_array_equal(drawn["query_ids"][row], expected)


def test_masks_are_those_of_the_released_rule(records, drawn):
    ids = records["input_ids"]
    for row in np.flatnonzero(records["input_mask"].all(1)):
        targets = np.zeros(LENGTH, bool)
        count = int(drawn["masked_lm_weights"][row].sum())
        targets[drawn["masked_lm_positions"][row, :count]] = True
        special = np.isin(ids[row], [CLS, SEP])
        ranks, horizons = drawn["ranks"][row], drawn["horizons"][row]
        chosen = targets | special
        # Only the order of the chosen ones within their half counts.
        assert len(set(ranks[chosen])) == chosen.sum()
        plain = np.where(np.arange(LENGTH) < LENGTH // 2, ranks, ranks - 26)
        expected = reference.hidden_from(plain, targets, special)
        hidden = horizons[:, None] <= ranks
        np.testing.assert_array_equal(hidden, expected)


def test_draws_follow_from_their_keys(records):
    """A sixth of each half, in spans; of short texts what has a context."""
    alike = {name: np.ones_like(value) for name, value in records.items()}
    short = make_records([3] * 50)
    short["input_ids"][:, 1] = 7
    found = [
        make_drawer(most).draw(given, KEYS)
        for most in (3, MOST)
        for given in (records, alike, short)
    ]
    rows = [[drawn[name].tolist() for name in sorted(drawn)] for drawn in found]
    assert digest(*rows) == "d9a6c8b5c03f"


def test_spans_begin_with_words_and_have_up_to_five_pieces():
    ordinary = np.ones([20, 400], bool)
    keys = np.arange(20, dtype=np.uint64)
    starts = np.arange(400) % 2 == 0
    found = permutation.choose_targets(starts & ordinary, ordinary, 30, keys)
    edges = np.diff(np.pad(found, [(0, 0), (1, 1)]).astype(int), axis=1)
    begins, ends = np.nonzero(edges == 1)[1], np.nonzero(edges == -1)[1]
    assert not (begins % 2).any() and {*range(1, 6)} <= {*(ends - begins)}
    assert set(found.sum(1)) == {30}
    few = permutation.choose_targets(
        (ordinary & (np.arange(400) == 3))[:, :4], ordinary[:, :4], 1, keys
    )
    assert digest(found, few) == "c8a11a48d1eb"
