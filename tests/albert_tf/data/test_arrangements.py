"""Tasks about sentences: which segments in which order have which label."""

import itertools

import numpy as np
import pytest

from albert_tf.common import random_streams
from albert_tf.data import arrangements, layouts, marks
from tests.conftest import digest, refused

# Five sentences of one to five pieces; a piece tells its sentence and place.
SENTENCES = [[10 * n + k for k in range(n)] for n in range(1, 6)]
PARTNER = [[100 + n for n in sentence] for sentence in SENTENCES]
ROOM = 15
ROUNDS = 200


def pieces(sentences):
    rows = [
        (np.array(sentence) << marks.BITS)
        + marks.SENTENCE * (np.arange(len(sentence)) == 0)
        for sentence in sentences
    ]
    return np.concatenate([np.zeros(0, int), *rows])


def draw(arrange, seed, sentences=SENTENCES, partner=PARTNER):
    passage = arrangements.Passage(
        pieces(sentences),
        pieces(partner),
        random_streams.Stream(random_streams.derive(5, seed)),
        ROOM,
    )
    parts, label = arrange(passage)
    return [(part >> marks.BITS).tolist() for part in parts], label


def whole(sentences=SENTENCES):
    return sum(sentences, [])


def test_reordering_numbers_orders_by_segments_and_then_in_the_alphabet():
    orders = [(0,), (0, 1), (1, 0), *itertools.permutations(range(3))]
    assert arrangements.num_orders(3) == len(orders)
    for seed in range(ROUNDS):
        parts, label = draw(arrangements.reordering, seed)
        # In the text, sentences are in the order of their pieces.
        places = [sorted(parts).index(part) for part in parts]
        assert tuple(places) == orders[label]
        assert sum(sorted(parts), []) == whole()


def test_order_of_two_segments():
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.sentence_order, seed)
        assert (first > second) == label
        assert sum(sorted([first, second]), []) == whole()


def test_next_sentence_is_from_the_partner_half_of_the_time():
    labels, sizes = [], set()
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.next_sentence, seed)
        assert first == whole()[: len(first)]
        source = whole(PARTNER) if label else whole()
        assert second == source[len(first) :]
        labels.append(label)
        sizes.add(len(first))
    assert 0.4 < np.mean(labels) < 0.6
    assert sizes == {1, 3, 6, 10}


def test_distance_is_that_of_three_parts():
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.distance, seed)
        assert first == whole()[: len(first)]
        rest = whole()[len(first) :]
        # The second part never reaches the end.
        assert (second == rest[: len(second)]) == (label == 0)
        assert (second == rest[-len(second) :]) == (label == 1)
        assert (second[0] >= 100) == (label == 2)


@pytest.mark.parametrize(
    ("task", "draws"),
    [
        ("sop", "201c520e420c"),
        ("nsp", "bb61b85ecc20"),
        ("reordering", "80121a03afbd"),
        ("distance", "18d7021f40fa"),
    ],
)
def test_draws_follow_from_their_seeds(task, draws):
    """Also of few sentences, and of partners that are short or do not fit."""
    found = [
        draw(arrangements.ARRANGEMENTS[task].arrange, seed, sentences, partner)
        for sentences, partner in (
            (SENTENCES, PARTNER),
            (SENTENCES, PARTNER[3:]),
            (SENTENCES[3:4], PARTNER),
            (SENTENCES[:2], PARTNER),
            (SENTENCES, PARTNER[:1]),
            (SENTENCES, PARTNER[:2]),
            (SENTENCES, []),
            ([[1] * 14, [2]], [[3] * 5, [4] * 5]),  # No two places fit.
            # The true part is too long there.
            (SENTENCES, [[3] * 12, [4] * 3]),
        )
        for seed in range(100)
    ]
    assert digest(*found) == draws


@pytest.mark.parametrize(
    "wrong", ["", "sop,", "sop,nsp", "none,sop", "order", "distance,distance"]
)
def test_options_that_name_no_tasks_are_refused(wrong):
    with refused("is not none, or some of sop"):
        arrangements.parse(wrong)
    both = ("token_document", "capitalization")
    assert arrangements.parse_tokens(",".join(both)) == both
    assert arrangements.parse_tokens("none") == ()
    with refused("some of capitalization, toke"):
        arrangements.parse_tokens(wrong)


@pytest.mark.parametrize(
    ("given", "order", "tasks"),
    [
        ("none", False, {}),
        ("sop", True, {}),
        ("nsp", True, {}),
        ("reordering", False, {"sentence_reordering": 9}),
        (
            "distance,nsp,reordering",
            True,
            {"sentence_distance": 3, "sentence_reordering": 9},
        ),
    ],
)
def test_heads_of_tasks(given, order, tasks):
    assert arrangements.pretraining_heads(given) == (order, tasks)


def turns(speakers, first=0, sizes=(2, 3, 1, 2)):
    """Pieces of turns by these speakers, each of its own ids."""
    rows = [
        [first + 10 * n + k for k in range(size)]
        for n, (size, _) in enumerate(zip(sizes, speakers, strict=False))
    ]
    found = pieces(rows)
    for speaker, row in zip(speakers, rows, strict=True):
        found[np.isin(found >> marks.BITS, row)] |= marks.RESPONSE * (
            speaker == "R"
        )
    return found


def talk(seed, one, other, room=8):
    passage = arrangements.Passage(
        turns(one),
        turns(other, 100) if other else np.zeros(0, int),
        random_streams.Stream(random_streams.derive(6, seed)),
        room,
    )
    return arrangements.ARRANGEMENTS["dialogue"].arrange(passage)


def test_one_of_three_turns_is_from_another_dialogue():
    for seed in range(ROUNDS):
        parts, label = talk(seed, "RQRQ", "RQ")
        ids = [(part >> marks.BITS).tolist() for part in parts]
        said = "".join("R" if p[0] & marks.RESPONSE else "Q" for p in parts)
        assert said == "QRQ"  # RQR does not begin with a query.
        fake = [n for n, part in enumerate(ids) if part[0] >= 100]
        assert len(fake) == label
        for n in fake:  # Of the same speaker, and as long as there is room.
            assert ids[n] == ([100, 101] if n == 1 else [110, 111, 112])
        assert sum(map(len, ids)) <= 8


@pytest.mark.parametrize(
    ("one", "other", "room", "draws"),
    [
        ("RQRQ", "RQ", 8, "2f620e7a18db"),
        ("QRR", "QR", 6, "de6006927d63"),  # Not all of the other's turns fit.
        # Without three turns, or without a partner.
        ("QR", "QR", 8, "7137d83bcebc"),
        ("RQQ", "QR", 8, "548356bebcef"),
        ("QQQ", "Q", 8, "d7d696b65176"),
        ("QRQ", "", 8, "c97f2da57240"),
    ],
)
def test_turns_follow_from_their_seeds(one, other, room, draws):
    found = [talk(seed, one, other, room) for seed in range(100)]
    rows = [([p.tolist() for p in parts], label) for parts, label in found]
    assert digest(*rows) == draws


MARKERS = {(7, 8): 1, (7,): 0, (9,): 1}


@pytest.mark.parametrize(
    ("sentences", "segments"),
    [
        # The longest marker, at the begin of a later sentence.
        ([[7, 1], [7, 8, 2], [3]], {(1, (7, 1), (2, 3))}),
        (
            [[1], [9, 2], [7, 3]],
            {(1, (1,), (2, 7, 3)), (0, (1, 9, 2), (3,))},
        ),
        # A part of a word, a sentence of a marker alone, one within.
        ([[1], [7, 55], [9], [2, 9]], set()),
        ([[1], [9]], set()),
        ([[7, 1]], set()),
    ],
)
def test_a_sentence_loses_its_discourse_marker(sentences, segments):
    given = pieces(sentences)
    given |= marks.WORD * ((given >> marks.BITS) < 50)
    seen = set()
    for seed in range(40):
        passage = arrangements.Passage(
            given,
            given[:0],
            random_streams.Stream(random_streams.derive(7, seed)),
            markers=MARKERS,
        )
        parts, label = arrangements.discourse(passage)
        ids = [tuple((part >> marks.BITS).tolist()) for part in parts]
        if label == layouts.NO_LABEL:
            assert ids == [tuple(sum(sentences, []))] and not segments
        else:
            seen.add((label, *ids))
    assert seen == segments


def test_markers_are_lines_with_further_forms(tmp_path):
    path = tmp_path / "markers.txt"
    path.write_text("but\tBut\n\n in fact \t\nso")
    found = arrangements.read_markers(str(path))
    assert found == (("but", "But"), ("in fact",), ("so",))
    path.write_text("but\tso\n")
    with refused("txt` has fewer than two lines"):
        arrangements.read_markers(str(path))
