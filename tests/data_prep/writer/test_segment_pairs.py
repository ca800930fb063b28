import dataclasses
import functools
import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest

from albert_tf.data import layouts
from data_prep.writer import segment_pairs
from tests.conftest import digest, refused

RANDOM = functools.partial(
    segment_pairs.PairOptions, single_segment_policy="random"
)
# Every third piece starts a word.
WORD_START = np.arange(10**6) % 3 == 0


def numbered_documents(seed, count=6):
    """Documents in which no piece occurs twice."""
    rng = random.Random(seed)
    pieces = iter(range(10, 10**6))
    return [
        [
            [next(pieces) for _ in range(rng.randint(1, 12))]
            for _ in range(rng.randint(1, 15))
        ]
        for _ in range(count)
    ]


def make_pairs(corpus, index, options, rng):
    """Pairs of documents that are lists of sentences, as lists."""
    documents = [
        segment_pairs.Document(
            np.array(flat(document)),
            [0, *itertools.accumulate(map(len, document))],
        )
        for document in corpus
    ]
    for pair in segment_pairs.make_pairs(
        documents, index, options, rng, WORD_START
    ):
        if pair is None:
            yield None
            continue
        first, second, label, single_sentence, tokens_cut = pair
        yield Pair(
            as_list(first), as_list(second), label, single_sentence, tokens_cut
        )


class Pair(NamedTuple):
    first: list
    second: list
    label: int
    single_sentence: bool
    tokens_cut: int = 0


def as_list(part):
    return part.tokens[part.begin : part.end].tolist()


def flat(document):
    return [piece for sentence in document for piece in sentence]


def is_run(part, whole):
    """Tell whether `part` is a gapless part of `whole`."""
    begin = whole.index(part[0]) if part[0] in whole else 0
    return whole[begin : begin + len(part)] == part


def test_label_tells_the_order_in_the_document():
    options = RANDOM(40, 0.1)
    for seed in range(30):
        corpus = numbered_documents(seed)
        whole = flat(corpus[0])
        for pair in make_pairs(corpus, 0, options, random.Random(seed)):
            if pair.single_sentence:
                assert pair.label == 1
                assert pair.second[0] not in whole
                continue
            both = pair[1::-1] if pair.label else pair[:2]
            assert all(is_run(segment, whole) for segment in both)
            assert whole.index(both[0][-1]) < whole.index(both[1][0])


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        (RANDOM(40, 0.1), "d3d4926c67d9"),
        (segment_pairs.PairOptions(40, 0.5), "6a1e4c1a23f1"),
        (segment_pairs.PairOptions(13, 0.0), "18c490cf3b3b"),
        (segment_pairs.PairOptions(40, 1.0, "nsp"), "2ba0037383b8"),
        (segment_pairs.PairOptions(12, 0.0, "nsp"), "75a444b22dac"),
        (segment_pairs.PairOptions(12, 0.1, "none"), "803d98bc6e93"),
    ],
)
def test_pairs_follow_from_the_draws(options, pairs):
    """Labels, lengths, cuts; also of a sentence without a place for a cut."""
    corpora = [numbered_documents(seed) for seed in range(40)]
    corpora += [[[[3, 6, *[1] * 10]], [[7, 8, 9]]]] * 3
    found = [
        pair
        for seed, corpus in enumerate(corpora)
        for pair in make_pairs(corpus, 0, options, random.Random(seed))
    ]
    assert digest(*map(tuple, filter(None, found)), found.count(None)) == pairs


def test_half_of_the_pairs_are_exchanged():
    """Of full length; a short target would need a draw below 0."""
    corpus = [[[5, 6], [7], [8, 9, 10]], [[11, 12], [13]]]
    options = segment_pairs.PairOptions(128, 0.5)
    for coin, label in ((0.4999, 1), (0.5, 0)):
        draws = Prepared(0.5, 1, coin)  # The length, the cut, the coin.
        (pair,) = make_pairs(corpus, 0, options, draws)
        both = [5, 6], [7, 8, 9, 10]
        first, second = both[::-1] if label else both
        assert pair == Pair(first, second, label, single_sentence=False)


def test_next_sentence_prediction_keeps_the_order_for_label_0():
    options = segment_pairs.PairOptions(40, 0.0, random_next_sentence=True)
    seen = set()
    for seed in range(30):
        corpus = numbered_documents(seed)
        whole, rng = flat(corpus[0]), random.Random(seed)
        pairs = list(make_pairs(corpus, 0, options, rng))
        for pair in pairs:
            seen.add(pair.label)
            assert is_run(pair.first, whole)
            assert (pair.second[0] in whole) == (pair.label == 0)
        # Sentences that a random segment displaced come up again.
        used = flat([pair.first for pair in pairs])
        # A random segment ends with the sentence that fills the sequence.
        assert all(pair.tokens_cut < 12 for pair in pairs if pair.label)
        assert sorted(set(used)) == sorted(used)
    assert seen == {0, 1}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sentence_objective": "nsp"}, "`sentence_objective=nsp`"),
        ({"random_next_sentence": True}, "`sentence_objective=nsp`"),
        ({"single_segment_policy": "random"}, "`single_segment_policy=random`"),
    ],
)
def test_random_segments_need_another_document(changes, named):
    """The true next sentence is never called random."""
    options = segment_pairs.PairOptions(8, 0.0, **changes)
    document = [[3, 4, 5, 6, 7]] * 9
    with refused(f"{named} .*is one document"):
        list(make_pairs([document], 0, options, random.Random(0)))
    for index in (0, 1):  # Though each draw is the document itself.
        draws = random.Random(0)
        draws.randint = lambda low, high, own=index: min(max(own, low), high)
        corpus = [document, document]
        corpus[1 - index] = [[30, 31]]
        pairs = list(make_pairs(corpus, index, options, draws))
        random_ones = [p.second for p in pairs if p.label]
        assert random_ones and all(s == [30, 31] for s in random_ones)
    draws = Prepared(0.5, *[0] * 11)  # Ten documents, and a sentence.
    corpus = [[[3, 4, 5]], [[30, 31]]]
    (pair,) = make_pairs(corpus, 0, RANDOM(128), draws)
    assert (pair.second, draws.draws) == ([30, 31], [])


def test_random_segments_do_not_keep_blocks_of_other_documents():
    """Their instances would keep blocks of megabytes in memory."""
    own, other = np.arange(9), np.arange(9, 18)
    corpus = [segment_pairs.Document(block, [0, 9]) for block in (own, other)]
    (pair,) = segment_pairs.make_pairs(
        corpus, 0, RANDOM(128, 0.0), random.Random(0), WORD_START
    )
    segments = [as_list(pair.first), as_list(pair.second)]
    assert sorted(segments) == [own.tolist(), other.tolist()]
    for part in (pair.first, pair.second):
        assert not np.shares_memory(part.tokens, other)


class Prepared:
    """Draws that are known beforehand; all must be used."""

    def __init__(self, *draws):
        self.draws = list(draws)
        self.ranges = []

    def random(self):
        return self.draws.pop(0)

    def randint(self, first, last):
        draw = self.draws.pop(0)
        self.ranges.append((first, last))
        assert first <= draw <= last
        return draw


def test_sequences_have_room_for_markers_and_tokens():
    segment_pairs.PairOptions(4, sentence_objective="none")
    segment_pairs.PairOptions(5)
    with refused("=4 is too small. .* need 5."):
        segment_pairs.PairOptions(4)


def test_the_original_has_a_name_for_nsp():
    given = {"random_next_sentence": True}
    for objective in (None, "nsp"):
        options = segment_pairs.PairOptions(
            128, sentence_objective=objective, **given
        )
        assert options.objective == "nsp"
    usual = segment_pairs.PairOptions(128)
    assert usual == segment_pairs.PairOptions(128, 0.1, None, False, "split")
    assert usual.objective == "sop"
    with refused("objective=none contradict"):
        segment_pairs.PairOptions(128, sentence_objective="none", **given)


def truncate(first, second, limit, rng):
    parts = (
        segment_pairs.Slice(np.array(x), 0, len(x)) for x in (first, second)
    )
    return (*map(as_list, segment_pairs.truncate_pair(*parts, limit, rng)),)


def truncate_one_by_one(first, second, limit, rng):
    """The original's truncate_seq_pair, on lists."""
    first, second = list(first), list(second)
    while len(first) + len(second) > limit:
        longer = first if len(first) > len(second) else second
        del longer[0 if rng.random() < 0.5 else -1]
    return first, second


def test_truncation_equals_that_of_one_token_after_another():
    """Also the example of the docstring, and both parts equally long."""
    rng = random.Random(4)
    assert truncate([5, 6, 7], [8, 9], 4, Prepared(0.3)) == ([6, 7], [8, 9])
    assert truncate([1, 2], [3, 4], 3, Prepared(0.5)) == ([1, 2], [3])
    for seed in range(500):
        first = [rng.randint(0, 99) for _ in range(rng.randint(1, 12))]
        second = [rng.randint(0, 99) for _ in range(rng.randint(0, 12))]
        limit = rng.randint(1, 25)
        both = first, second, limit
        wanted = truncate_one_by_one(*both, random.Random(seed))
        assert truncate(*both, random.Random(seed)) == wanted


# What the original does not have.


@pytest.mark.parametrize(
    ("sentence", "places"),
    [
        (range(3, 43), set(range(15, 34, 3))),  # 10 of 40 on both sides.
        ([3, 1, 1, 6, 7, 1, 1, 9], {6}),
        ([1, 6, 9, 1], {9}),
        ([6, 1, 1, 1, 1, 1, 1, 6], set()),  # A part of one piece.
        ([3, 6, 9], set()),
        ([3, 4, 5, 7, 8, 9], set()),
    ],
)
def test_single_sentence_is_split_at_a_quarter_or_has_no_label(
    sentence, places
):
    """Multiples of 3 start words."""
    options = segment_pairs.PairOptions(128, 0.0)
    found = set()
    for seed in range(100):
        corpus = [[list(sentence)], [[30, 31]]]
        (pair,) = make_pairs(corpus, 0, options, random.Random(seed))
        if not places:
            nothing = [], layouts.NO_LABEL
            assert pair == Pair(list(sentence), *nothing, single_sentence=True)
            continue
        earlier, later = pair[1::-1] if pair.label else pair[:2]
        assert pair.single_sentence and earlier + later == list(sentence)
        found.add(later[0])
    assert found == places


def test_single_sentence_of_one_word_and_with_drop_is_left_out():
    rng = random.Random(0)
    split = segment_pairs.PairOptions(128, 0.0)
    assert list(make_pairs([[[3, 4, 5]], [[7, 8]]], 0, split, rng)) == [None]
    drop = segment_pairs.PairOptions(128, 0.0, single_segment_policy="drop")
    corpus = [[[3, 4, 6, 7]], [[8]]]
    assert list(make_pairs(corpus, 0, drop, rng)) == [None]
    # The policy is for the sentence order only.
    nsp = dataclasses.replace(drop, sentence_objective="nsp")
    (pair,) = make_pairs(corpus, 0, nsp, rng)
    assert pair == Pair([3, 4, 6, 7], [8], 1, single_sentence=True)
