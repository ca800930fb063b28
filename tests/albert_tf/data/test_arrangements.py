"""Tasks about sentences: which segments in which order have which label."""

import collections
import itertools

import numpy as np
import pytest

from albert_tf.common import errors, random_streams
from albert_tf.data import arrangements, layouts, marks

# Five sentences of one to five pieces; a piece tells its sentence and place.
SENTENCES = [[10 * n + k for k in range(n)] for n in range(1, 6)]
PARTNER = list(range(90, 99))
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
        np.array(partner, int) << marks.BITS,
        random_streams.Stream(random_streams.derive(5, seed)),
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
    labels = []
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.next_sentence, seed)
        assert first == whole()[: len(first)]
        true = whole()[len(first) :]
        assert second == (PARTNER[: len(true)] if label else true)
        labels.append(label)
    assert 0.45 < np.mean(labels) < 0.55
    _, label = draw(arrangements.next_sentence, 1, partner=[])
    assert label == layouts.NO_LABEL


def test_distance_is_that_of_three_parts():
    labels = []
    for seed in range(ROUNDS):
        (first, second), label = draw(arrangements.distance, seed)
        assert first == whole()[: len(first)]
        rest = whole()[len(first) :]
        adjacent = second == rest[: len(second)]
        last = second == rest[-len(second) :]
        other = second == PARTNER[: len(second)]
        # The second part never reaches the end.
        assert (adjacent, last, other) == (label == 0, label == 1, label == 2)
        labels.append(label)
    assert np.allclose(np.bincount(labels), ROUNDS / 3, rtol=0.1)
    for sentences, partner in ((SENTENCES[:2], PARTNER), (SENTENCES, [])):
        found = draw(arrangements.distance, 1, sentences, partner)
        assert found == ([whole(sentences)], layouts.NO_LABEL)


@pytest.mark.parametrize(
    "wrong", ["", "sop,", "sop,nsp", "none,sop", "order", "distance,distance"]
)
def test_options_that_name_no_tasks_are_refused(wrong):
    with pytest.raises(errors.UserError, match="is not none, or some of sop"):
        arrangements.parse(wrong)


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
