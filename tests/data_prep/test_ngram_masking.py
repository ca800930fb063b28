import collections
import random

import numpy as np
import pytest

from albert_tf import errors
from data_prep import ngram_masking

CLS, SEP, MASK = 2, 3, 4
# Ids 5 to 104 start a word, 105 to 204 continue one.
PIECES = (
    ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    + [f"▁{n}" for n in range(100)]
    + ["ing"] * 100
)
VOCABULARY = ngram_masking.Vocabulary.from_pieces(
    PIECES,
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    starts_word=ngram_masking.sentencepiece_starts_word,
)


def make_sequence(rng, length):
    body = [
        rng.randint(5, 104) if rng.random() < 0.7 else rng.randint(105, 204)
        for _ in range(length - 3)
    ]
    cut = rng.randint(1, length - 4)
    return [CLS, *body[:cut], SEP, *body[cut:], SEP]


def mask(tokens, seed=0, **options):
    masker = ngram_masking.Masker(
        ngram_masking.MaskingOptions(**options), VOCABULARY
    )
    return masker.mask(tokens, random.Random(seed), np.random.RandomState(seed))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("permute", [False, True])
@pytest.mark.parametrize("probability", [0.15, 0.5, 1.0])
def test_labels_restore_the_sequence(whole_words, permute, probability):
    rng = random.Random(1)
    for seed in range(100):
        tokens = make_sequence(rng, rng.randint(5, 90))
        result = mask(
            tokens,
            seed,
            do_whole_word_mask=whole_words,
            do_permutation=permute,
            masked_lm_prob=probability,
        )
        restored = list(result.input_ids)
        for position, label in zip(
            result.positions, result.labels, strict=True
        ):
            restored[position] = label
        assert restored == tokens
        assert result.positions == sorted(set(result.positions))
        hidden = {tokens[position] for position in result.positions}
        assert hidden.isdisjoint((CLS, SEP))
        budget = min(20, max(1, round(len(tokens) * probability)))
        assert len(result.positions) <= budget * (1 + permute)
        assert result.token_boundary == [int(t < 105) for t in tokens]


@pytest.mark.parametrize(
    ("length", "budget"),
    [(10, 2), (30, 4), (50, 8), (70, 10), (128, 19), (512, 20)],
)
def test_budget_counts_pieces_and_is_met_by_single_piece_words(length, budget):
    tokens = [CLS, *[5] * (length - 4), SEP, 6, SEP]
    assert len(mask(tokens).positions) == budget


def test_budget_of_77_at_512():
    tokens = [CLS, *[5] * 508, SEP, 6, SEP]
    result = mask(tokens, max_predictions_per_seq=100)
    assert len(result.positions) == 77


def test_no_masking_takes_no_draw():
    rng, length_rng = random.Random(1), np.random.RandomState(1)
    options = ngram_masking.MaskingOptions(masked_lm_prob=0)
    masker = ngram_masking.Masker(options, VOCABULARY)
    tokens = [CLS, 5, 105, SEP, 6, SEP]
    result = masker.mask(tokens, rng, length_rng)
    assert result == ngram_masking.MaskedSequence(
        tokens, [], [], [1, 1, 0, 1, 1, 1]
    )
    assert rng.random() == random.Random(1).random()
    assert (
        length_rng.random_sample() == np.random.RandomState(1).random_sample()
    )


def test_words_are_masked_whole():
    rng = random.Random(2)
    for seed in range(50):
        tokens = make_sequence(rng, 80)
        chosen = set(mask(tokens, seed).positions)
        for word in ngram_masking.find_words(tokens, VOCABULARY, True):
            assert chosen.issuperset(word) or chosen.isdisjoint(word)


def test_a_word_longer_than_the_budget_is_passed_over():
    tokens = [CLS, 5, 105, 106, SEP, 6, SEP]  # A budget of one piece.
    for seed in range(20):
        assert mask(tokens, seed).positions == [5]


def test_find_words_example_of_the_docstring():
    tokens = [CLS, 5, 6, 105, SEP, 7, 8, SEP]
    words = ngram_masking.find_words(tokens, VOCABULARY, True)
    assert words == [[1], [2, 3], [5], [6]]
    words = ngram_masking.find_words(tokens, VOCABULARY, False)
    assert words == [[1], [2], [3], [5], [6]]


def test_continuations_open_a_word_only_at_the_very_beginning():
    tokens = [CLS, 105, 5, SEP, 106, 6, SEP]
    words = ngram_masking.find_words(tokens, VOCABULARY, True)
    assert words == [[1], [2, 4], [5]]  # As the original, across the [SEP].


@pytest.mark.parametrize(
    ("piece", "starts"),
    [(p, True) for p in ("▁rain", "▁", "<unk>", "!", "19", "'s", "é", "が")]
    + [(p, True) for p in ("2nd", "€", "£", "–", "'", "=", ">", "[", "É")]
    + [(p, False) for p in ("ing", "s", ".com", "ing.", "...", "ING")],
)
def test_which_pieces_start_a_word(piece, starts):
    assert ngram_masking.sentencepiece_starts_word(piece) is starts


@pytest.mark.parametrize(
    ("piece", "starts"),
    [(p, True) for p in ("rain", "今", ",", "[UNK]", "[CLS]", "#", "19", ".")]
    + [(p, False) for p in ("##ing", "##天", "##", "##1")],
)
def test_which_wordpieces_start_a_word(piece, starts):
    assert ngram_masking.wordpiece_starts_word(piece) is starts


def test_words_of_wordpieces():
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] 今 天 un ##want ##ed ,".split()
    vocabulary = ngram_masking.Vocabulary.from_pieces(
        pieces,
        cls_id=CLS,
        sep_id=SEP,
        mask_id=MASK,
        starts_word=ngram_masking.wordpiece_starts_word,
    )
    assert list(vocabulary.boundaries) == [1] * 8 + [0, 0, 1]
    tokens = [CLS, 5, 6, 7, 8, 9, 10, SEP, 5, SEP]
    words = ngram_masking.find_words(tokens, vocabulary, True)
    assert words == [[1], [2], [3, 4, 5], [6], [8]]


@pytest.mark.parametrize("ngram", [1, 2, 3, 5])
@pytest.mark.parametrize("favor_shorter", [True, False])
def test_length_draws_equal_numpys_choice(ngram, favor_shorter):
    cumulative = ngram_masking.cumulative_lengths(ngram, favor_shorter)
    weights = np.diff([0, *cumulative])
    wanted = np.array([1 / n for n in range(1, ngram + 1)])
    wanted = wanted / wanted.sum()
    np.testing.assert_allclose(
        weights, wanted if favor_shorter else wanted[::-1]
    )
    theirs, ours = np.random.RandomState(3), np.random.RandomState(3)
    for _ in range(1000):
        drawn = np.searchsorted(cumulative, ours.random_sample(), "right")
        assert drawn == theirs.choice(ngram, p=weights)


def test_run_lengths_follow_the_distribution():
    words = [[position] for position in range(1, 201)]
    cumulative = ngram_masking.cumulative_lengths(3, True)
    runs = ngram_masking.Runs(words, 3, cumulative)
    length_rng = np.random.RandomState(5)
    counts = collections.Counter(
        len(runs.choose([start % 100], frozenset(), length_rng))
        for start in range(3000)
    )
    expected = {1: 3000 * 6 / 11, 2: 3000 * 3 / 11, 3: 3000 * 2 / 11}
    chi_square = sum(
        (counts[length] - wanted) ** 2 / wanted
        for length, wanted in expected.items()
    )
    assert chi_square < 13.8  # 0.999 quantile, 2 degrees of freedom.


def test_replacements_are_80_10_10():
    tokens = [CLS, *[5] * 400, SEP, 5, SEP]
    counts = collections.Counter()
    for seed in range(150):
        result = mask(tokens, seed, max_predictions_per_seq=60)
        for position in result.positions:
            replacement = result.input_ids[position]
            kind = {MASK: "mask", 5: "keep"}.get(replacement, "random")
            counts[kind] += 1
    total = sum(counts.values())
    size = len(PIECES)  # A random piece may be [MASK] or the same one.
    expected = {
        "mask": 0.8 + 0.1 / size,
        "keep": 0.1 + 0.1 / size,
        "random": 0.1 - 0.2 / size,
    }
    chi_square = sum(
        (counts[kind] - total * share) ** 2 / (total * share)
        for kind, share in expected.items()
    )
    assert total == 150 * 60
    assert chi_square < 13.8  # 0.999 quantile, 2 degrees of freedom.


def test_replacements_come_from_the_whole_vocabulary():
    tokens = [CLS, *[5] * 400, SEP, 5, SEP]
    seen = set()
    for seed in range(200):
        seen.update(mask(tokens, seed, max_predictions_per_seq=60).input_ids)
    assert len(seen) > 0.95 * len(PIECES)
    assert max(seen) == len(PIECES) - 1


def test_permutation_exchanges_pieces_with_each_other():
    tokens = [CLS, *range(5, 75), SEP, *range(75, 105), SEP]
    masked = mask(tokens, 4)
    both = mask(tokens, 4, do_permutation=True)
    moved = sorted(set(both.positions) - set(masked.positions))
    assert moved and len(both.positions) <= 2 * len(masked.positions)
    assert sorted(both.input_ids[p] for p in moved) == [
        tokens[p] for p in moved
    ]
    assert [both.input_ids[p] for p in moved] != [tokens[p] for p in moved]
    for position in masked.positions:
        assert both.input_ids[position] == masked.input_ids[position]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 65, 500])
def test_shuffle_equals_pythons(size):
    ours, theirs = list(range(size)), list(range(size))
    rng, other = random.Random(size), random.Random(size)
    ngram_masking.shuffle(ours, rng)
    other.shuffle(theirs)
    assert ours == theirs
    assert rng.random() == other.random()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_predictions_per_seq": 0}, "--max_predictions_per_seq=0 is too"),
        ({"masked_lm_prob": 1.1}, "--masked_lm_prob=1.1 is not a prob"),
        ({"masked_lm_prob": -1.0}, "--masked_lm_prob=-1.0 is not a prob"),
        ({"ngram": 0}, "--ngram=0 is too small"),
    ],
)
def test_options_out_of_range_are_named(arguments, message):
    with pytest.raises(errors.UserError, match=message):
        ngram_masking.MaskingOptions(**arguments)
