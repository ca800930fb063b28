"""Tasks about sentences: which segments in which order have which label."""

import collections
import itertools

import numpy as np
import pytest

from albert_tf.common import errors, random_streams
from albert_tf.data import arrangements, layouts, marks

# Five sentences of one to five pieces; a piece tells its sentence and place.
SENTENCES = [[10 * n + k for k in range(n)] for n in range(1, 6)]
PARTNER = [[100 + n for n in sentence] for sentence in SENTENCES]
ROOM = 15
ROUNDS = 3000


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


@pytest.mark.parametrize(
    ("most", "classes"), [(1, 1), (2, 3), (3, 9), (4, 33), (5, 153)]
)
def test_classes_of_reordering_are_the_orders_of_all_numbers(most, classes):
    assert arrangements.num_orders(most) == classes
    labels = {
        draw(lambda p: arrangements.reordering(p, most), seed)[1]
        for seed in range(4 * ROUNDS)
    }
    assert labels == set(range(classes))


def test_reordering_numbers_orders_by_segments_and_then_in_the_alphabet():
    orders = [(0,), (0, 1), (1, 0), *itertools.permutations(range(3))]
    counts = collections.Counter()
    for seed in range(ROUNDS):
        parts, label = draw(lambda p: arrangements.reordering(p, 3), seed)
        # In the text, sentences are in the order of their pieces.
        places = [sorted(parts).index(part) for part in parts]
        assert tuple(places) == orders[label]
        assert sum(sorted(parts), []) == whole()
        counts[len(parts)] += 1
    assert np.allclose([counts[n] for n in (1, 2, 3)], ROUNDS / 3, rtol=0.1)


def test_reordering_of_few_sentences_has_fewer_segments():
    labels = collections.Counter(
        draw(lambda p: arrangements.reordering(p, 3), seed, SENTENCES[:2])[1]
        for seed in range(ROUNDS)
    )
    assert labels.keys() == {0, 1, 2}
    parts = draw(lambda p: arrangements.reordering(p, 3), 1, SENTENCES[3:4])
    assert parts == ([SENTENCES[3]], 0)


def test_order_of_two_segments():
    labels = []
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.sentence_order, seed)
        assert (first > second) == label
        assert sum(sorted([first, second]), []) == whole()
        labels.append(label)
    assert 0.45 < np.mean(labels) < 0.55
    single = draw(arrangements.sentence_order, 1, SENTENCES[3:4])
    assert single == ([SENTENCES[3]], layouts.NO_LABEL)


def test_next_sentence_is_from_the_partner_half_of_the_time():
    labels, sizes = [], set()
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.next_sentence, seed)
        assert first == whole()[: len(first)]
        source = whole(PARTNER) if label else whole()
        assert second == source[len(first) :]
        labels.append(label)
        sizes.add(len(first))
    assert 0.45 < np.mean(labels) < 0.55
    assert sizes == {1, 3, 6, 10}
    for seed in range(30):  # Where both second parts have five pieces.
        (first, _), _ = draw(
            arrangements.next_sentence, seed, partner=PARTNER[3:]
        )
        assert len(first) == 10
    for sentences, partner in (
        (SENTENCES[:1], PARTNER),
        (SENTENCES, PARTNER[:1]),
        (SENTENCES, []),
        ([[1] * 14, [2]], [[3] * 5, [4] * 5]),  # No two places fit.
        (SENTENCES, [[3] * 12, [4] * 3]),  # The true part is too long there.
    ):
        found = draw(arrangements.next_sentence, 1, sentences, partner)
        assert found == ([whole(sentences)], layouts.NO_LABEL)


def test_distance_is_that_of_three_parts():
    labels, sizes, ends = [], set(), []
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.distance, seed)
        assert first == whole()[: len(first)]
        rest = whole()[len(first) :]
        adjacent = second == rest[: len(second)]
        last = second == rest[-len(second) :]
        # The second part never reaches the end.
        assert (adjacent, last) == (label == 0, label == 1)
        assert (second[0] >= 100) == (label == 2)
        labels.append(label)
        sizes.add(len(first))
        ends += [second[-1] == PARTNER[-1][-1]] * (label == 2)
    assert sizes == {1, 3, 6}
    assert 0.45 < np.mean(ends) < 0.55  # Either of the other's last parts.
    assert np.allclose(np.bincount(labels), ROUNDS / 3, rtol=0.1)
    for sentences, partner in (
        (SENTENCES[:2], PARTNER),
        (SENTENCES, PARTNER[:2]),
        (SENTENCES, []),
    ):
        found = draw(arrangements.distance, 1, sentences, partner)
        assert found == ([whole(sentences)], layouts.NO_LABEL)


@pytest.mark.parametrize(
    "wrong", ["", "sop,", "sop,nsp", "none,sop", "order", "distance,distance"]
)
def test_options_that_name_no_tasks_are_refused(wrong):
    with pytest.raises(errors.UserError, match="is not none, or some of sop"):
        arrangements.parse(wrong)
    both = ("token_document", "capitalization")
    assert arrangements.parse_tokens(",".join(both)) == both
    assert arrangements.parse_tokens("none") == ()
    with pytest.raises(errors.UserError, match="some of capitalization, toke"):
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
    assert arrangements.heads(given) == (order, tasks)


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
    counts = collections.Counter()
    for seed in range(ROUNDS):
        parts, label = talk(seed, "RQRQ", "RQ")
        ids = [(part >> marks.BITS).tolist() for part in parts]
        said = "".join("R" if p[0] & marks.RESPONSE else "Q" for p in parts)
        assert said == "QRQ"  # RQR does not begin with a query.
        fake = [n for n, part in enumerate(ids) if part[0] >= 100]
        assert len(fake) == label
        counts[label, *fake] += 1
        for n in fake:  # Of the same speaker, and as long as there is room.
            assert ids[n] == ([100, 101] if n == 1 else [110, 111, 112])
        assert sum(map(len, ids)) <= 8
    assert counts[0,] / ROUNDS == pytest.approx(0.5, abs=0.03)
    for place in range(3):
        assert counts[1, place] / ROUNDS == pytest.approx(1 / 6, abs=0.03)


@pytest.mark.parametrize(
    ("one", "other"), [("QR", "QR"), ("RQQ", "QR"), ("QQQ", "Q"), ("QRQ", "")]
)
def test_dialogues_without_three_turns_or_a_partner_have_no_label(one, other):
    labels = {talk(seed, one, other)[1] for seed in range(50)}
    assert labels == {layouts.NO_LABEL}


def test_turns_of_another_dialogue_are_whole():
    labels = collections.Counter()
    for seed in range(200):
        parts, label = talk(seed, "QRR", "QR", room=6)
        assert sum(map(len, parts)) <= 6
        if label == 1:  # The other response has no room as the last one.
            ids = [(part >> marks.BITS).tolist() for part in parts]
            assert ids in (
                [[100, 101], [10, 11, 12], [20]],
                [[0, 1], [110, 111, 112], [20]],
            )
        labels[label] += 1
    assert labels.keys() == {0, 1, layouts.NO_LABEL}


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
    with pytest.raises(errors.UserError, match="txt` has fewer than two lines"):
        arrangements.read_markers(str(path))
