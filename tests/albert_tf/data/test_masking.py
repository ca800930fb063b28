"""Masking of batches."""

import collections
import random

import numpy as np
import pytest

from albert_tf.data import masking
from tests.conftest import digest

CLS, SEP, MASK = 2, 3, 4
# Ids 5 to 104 start a word, 105 to 204 continue one.
PIECES = (
    ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    + [f"▁{n}" for n in range(100)]
    + ["ing"] * 100
)
VOCABULARY = masking.Vocabulary.from_pieces(
    PIECES,
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    starts_word=masking.english_starts_word,
)


def make_sequence(rng, length):
    body = [
        rng.randint(5, 104) if rng.random() < 0.7 else rng.randint(105, 204)
        for _ in range(length - 3)
    ]
    cut = rng.randint(1, length - 4)
    return [CLS, *body[:cut], SEP, *body[cut:], SEP]


def mask_all(sequences, keys, **options):
    width = max(map(len, sequences))
    tokens = np.array([s + [0] * (width - len(s)) for s in sequences])
    lengths = np.array([len(s) for s in sequences])
    masker = masking.Masker(masking.MaskingOptions(**options), VOCABULARY)
    return masker.mask(tokens, lengths, np.array(keys, np.uint64))


class Result(collections.namedtuple("Result", "ids positions labels")):
    """What became of one sequence."""


def unpack(batch, row, length):
    count = batch.counts[row]
    for padded in (batch.positions[row], batch.labels[row]):
        assert not padded[count:].any()
    assert not batch.input_ids[row, length:].any()
    return Result(
        batch.input_ids[row, :length].tolist(),
        batch.positions[row, :count].tolist(),
        batch.labels[row, :count].tolist(),
    )


def mask(tokens, key=0, **options):
    return unpack(mask_all([tokens], [key], **options), 0, len(tokens))


@pytest.mark.parametrize(
    ("options", "masked"),
    [
        ({}, "f26a21399212"),
        ({"do_whole_word_mask": False}, "24834b2515b0"),
        ({"do_permutation": True}, "3c2505a4d01e"),
        ({"stop_ngrams_at_sep": True, "ngram": 6}, "30c112ab1846"),
        ({"favor_shorter_ngram": False}, "183f0ecea237"),
        (
            {"masked_lm_prob": 0.6, "max_predictions_per_seq": 50},
            "7815b04346e1",
        ),
        (
            {"masked_lm_prob": 1.0, "max_predictions_per_seq": 200},
            "5964ce0582f4",
        ),
        ({"ngram": 1}, "5ce22b7c7859"),
    ],
)
def test_masks_follow_from_the_keys(options, masked):
    """Golden values; parity/test_original_records.py compares shares."""
    rng = random.Random(1)
    sequences = [make_sequence(rng, rng.randint(5, 90)) for _ in range(150)]
    sequences[7] = sequences[7][: sequences[7].index(SEP)]  # It has none.
    for tokens in sequences[8:60]:  # Three or four segments, or empty ones.
        tokens.insert(len(tokens) // 2, SEP)
        tokens.insert(len(tokens) // 3, SEP)
    keys = [rng.getrandbits(64) for _ in sequences]
    batch = mask_all(sequences, keys, **options)
    for row, tokens in enumerate(sequences):
        ids, positions, labels = unpack(batch, row, len(tokens))
        assert positions == sorted({*positions})
        assert labels == [tokens[place] for place in positions]
        assert all(
            ids[n] == tokens[n] for n in {*range(len(tokens))} - {*positions}
        )
        boundary = batch.token_boundary[row].tolist()
        assert boundary[: len(tokens)] == [int(t < 105) for t in tokens]
    assert masked == digest(
        batch.input_ids,
        batch.positions,
        batch.token_boundary,
        batch.run_lengths,
    )


def test_a_word_longer_than_the_budget_is_passed_over():
    tokens = [CLS, 5, 105, 106, SEP, 6, SEP]  # A budget of one piece.
    for key in range(20):
        assert mask(tokens, key).positions == [5]
    assert mask([CLS, 5, SEP]).positions == [1]  # One at least.
    assert mask(tokens, masked_lm_prob=0) == Result(tokens, [], [])
    assert mask([CLS, SEP, SEP]) == Result([CLS, SEP, SEP], [], [])


@pytest.mark.parametrize(
    ("rule", "starts", "continues"),
    [
        (
            "english",
            "▁rain ▁ <unk> ! 19 's é が 2nd € £ – ' = > [ É".split(),
            "ing s .com ing. ... ING <0xE5>".split(),
        ),
        (
            "marker",
            "▁дождь ▁ <unk> [MASK] ! – € 天气 が ไทย".split(),
            "ями s iß 9 한 <0xE5>".split(),
        ),
        (
            "wordpiece",
            "rain 今 , [UNK] [CLS] # 19 .".split(),
            "##ing ##天 ## ##1".split(),
        ),
    ],
)
def test_word_start_rules(rule, starts, continues):
    starts_word = masking.WORD_START_RULES[rule]
    assert all(map(starts_word, starts))
    assert not any(map(starts_word, continues))


@pytest.mark.parametrize("rule", masking.WORD_START_RULES)
@pytest.mark.parametrize(
    "character",
    [
        "\u0301",  # Combining accent, Mn.
        "\u093f",  # Vowel sign of Devanagari, Mc.
        "\u0e34",  # Vowel sign of Thai, a script without spaces.
        "\u1039",  # Virama of Myanmar, another one.
        "\u20e3",  # Combining keycap, Me.
        "\u200c",
        "\u200d",
        "\u3099",  # Voiced sound mark of Japanese.
        "\ufe0f",
        "\U000e0100",  # Variation selectors.
    ],
)
def test_marks_and_joiners_start_no_word(rule, character):
    starts_word = masking.WORD_START_RULES[rule]
    assert not starts_word(character)
    assert not starts_word(f"{character}天")
    assert starts_word("天") and starts_word(f"天{character}")


def test_blocks_without_spaces_have_their_ends():
    inside = "\u0e00\u0fff\u1000\u109f\u1780\u17ff\u3040\u30ff\u31f0\u31ff"
    inside += "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff\uff66\uff9f"
    inside += "\U00020000\U0003ffff"
    outside = "\u0dff\u10a0\u177f\u1800\u303f\u3100\u31ef\u3200\u33ff\u4dc0"
    outside += "\ua000\uf8ff\ufb00\uff65\uffa0\U0001ffff\U00040000"
    assert all(map(masking.has_no_spaces, inside))
    assert not any(map(masking.has_no_spaces, outside))


@pytest.mark.parametrize("ngram", [1, 2, 3, 15])
@pytest.mark.parametrize("favor_shorter", [True, False])
def test_lengths_have_the_shares_of_the_paper(ngram, favor_shorter):
    cumulative = masking.cumulative_lengths(ngram, favor_shorter)
    wanted = 1 / np.arange(1, ngram + 1)
    wanted /= wanted.sum()
    wanted = wanted if favor_shorter else wanted[::-1]
    np.testing.assert_allclose(np.diff(cumulative, prepend=0), wanted)
    assert cumulative[-1] == 1
