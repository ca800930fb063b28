"""What permutation language modelling asks for, and what sees what."""

import numpy as np
import pytest

from albert_tf.data import masking, permutation
from tests.reference import permutation as reference

CLS, SEP, MASK = 2, 3, 4
LENGTH, MOST = 48, 9


def make_drawer(most=MOST):
    return permutation.Permutations(
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


@pytest.mark.parametrize(
    ("length", "halves"), [(48, (4, 4)), (31, (4, 1)), (20, (3, 0))]
)
def test_a_sixth_of_each_half_is_asked_for(records, drawn, length, halves):
    """Rounded up; at most half of the predictions, the second has the rest."""
    rows = records["input_mask"].sum(1) == length
    places = drawn["masked_lm_positions"][rows]
    real = drawn["masked_lm_weights"][rows] > 0
    for number, expected in enumerate(halves):
        own = (places >= LENGTH // 2) == number
        assert set((own & real).sum(1)) == {expected}
    few = make_drawer(3).draw(records, KEYS)
    assert few["masked_lm_weights"][:20].sum(1).tolist() == [3.0] * 20


def test_spans_begin_with_words_and_have_up_to_five_pieces():
    """Of n pieces: a share in proportion to 1/n, and seven times the room."""
    count, length, budget = 200, 4000, 300
    starts = np.arange(length) % 2 == 0
    ordinary = np.ones([count, length], bool)
    keys = np.arange(count, dtype=np.uint64)
    found = permutation.choose_targets(
        starts & ordinary, ordinary, budget, keys
    )
    edges = np.diff(np.pad(found, [(0, 0), (1, 1)]).astype(int), axis=1)
    begins, ends = np.nonzero(edges == 1)[1], np.nonzero(edges == -1)[1]
    assert not (begins % 2).any()
    shares = np.bincount(ends - begins)[1:6] / len(begins)
    expected = 1 / np.arange(1, 6)
    # Neighbours join now and then.
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.015)
    assert set(found.sum(1)) == {budget}
    # Every other start waits for a word.
    last = length - np.argmax(found[:, ::-1], axis=1)
    room = 7 + 0.5 / (expected @ np.arange(1, 6) / expected.sum())
    assert last.mean() == pytest.approx(budget * room, rel=0.02)


def test_halves_that_look_alike_are_drawn_apart():
    ids = np.full([50, LENGTH], 7)
    alike = {
        name: np.ones_like(ids) for name in ("input_mask", "token_boundary")
    }
    found = make_drawer(8).draw({"input_ids": ids, **alike}, KEYS)
    first, second = np.split(found["masked_lm_positions"], 2, axis=1)
    assert (first != second - LENGTH // 2).any(1).mean() > 0.9


def test_a_span_does_not_end_with_its_half():
    """As in the released program; single pieces may."""
    ordinary = np.ones([200, 4], bool)
    starts = ordinary & (np.arange(4) == 3)
    keys = np.arange(200, dtype=np.uint64)
    found = permutation.choose_targets(starts, ordinary, 1, keys)
    np.testing.assert_allclose(found.mean(0), [0.25] * 4, atol=0.1)


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


def test_orders_are_random_and_padding_is_seen_by_nothing(records, drawn):
    first = drawn["ranks"][:20, 0]  # Of [CLS], among 24.
    assert len(set(first)) > 8
    assert first.min() >= 0
    assert first.max() < 24
    padding = records["input_mask"] == 0
    most = drawn["horizons"].max(1, keepdims=True)
    assert ((drawn["ranks"] >= most) | ~padding).all()


def test_nothing_is_asked_for_without_a_context():
    """A single piece has [CLS] or [SEP] before it, or is not asked for."""
    records = make_records([3] * 50)
    records["input_ids"][:, 1] = 7
    drawn = make_drawer().draw(records, KEYS)
    first = drawn["ranks"][:, :3].argmin(1) == 1
    assert 5 < first.sum() < 45
    assert drawn["masked_lm_weights"].sum(1).tolist() == (~first).tolist()
    assert ((drawn["query_ids"][:, 1] == MASK) == ~first).all()
