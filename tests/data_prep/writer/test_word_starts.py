"""Where words start in records: by the text, or by a segmenter."""

import logging
import re
import sys

import numpy as np
import pytest

from albert_tf.data import manifests, masking
from albert_tf.text import tokenization
from data_prep.vocabulary import letters
from data_prep.writer import word_starts
from tests.conftest import changed, refused
from tests.data_prep import writing

COUNTS = dict.fromkeys((*letters.NAMES, "tokens", "unknown_pieces"), 0)


def choose(tokenizer, text, **changes):
    arguments = {"requested": None, "segmenter": "none", **changes}
    return word_starts.choose_rule(
        **arguments, tokenizer=tokenizer, counts=letters.count([text])
    )


@pytest.mark.parametrize(
    "text, keep_accents, rule",
    [
        ("It rains. " * 300 + "Caf\u00e9 Stra\u00dfe", False, "english"),
        ("Die Rei\u00dfleine. " * 9, False, "marker"),
        ("\u00dcber B\u00e4ren. " * 9, True, "marker"),
        ("\u4eca\u5929", False, "marker"),
    ],
)
def test_the_text_decides(undescribed_vocab, text, keep_accents, rule):
    tokenizer = tokenization.Tokenizer(
        undescribed_vocab, keep_accents=keep_accents
    )
    assert choose(tokenizer, text) == rule


def test_options_come_before_the_text(tiny_tokenizer, chinese):
    wordpieces = tokenization.load(chinese.vocabulary)
    assert choose(wordpieces, "abc") == "wordpiece"
    assert choose(tiny_tokenizer, "abc", requested="marker") == "marker"
    assert choose(tiny_tokenizer, "abc", segmenter="jieba") == "jieba"


@pytest.mark.parametrize("rule", masking.WORD_START_RULES)
def test_a_rule_for_the_other_kind_of_vocabulary(rule, tiny_tokenizer, chinese):
    fits, other = tiny_tokenizer, tokenization.load(chinese.vocabulary)
    if rule == "wordpiece":
        fits, other = other, fits
    word_starts.check_rule(rule, fits)
    word_starts.check_rule(None, other)
    with refused(f"rule={rule}` does not fit"):
        word_starts.check_rule(rule, other)


@pytest.mark.parametrize(
    "changes, keep_accents, message",
    [
        ({}, False, ""),
        ({"unknown_pieces": 1}, False, ""),  # Not above 1 %.
        ({"unknown_pieces": 2}, False, "2.0 % of the pieces are <unk>"),
        ({"letter_marks": 3}, False, "removes the marks .* of 3.0 % of the "),
        ({"letter_marks": 50}, True, ""),
    ],
)
def test_a_vocabulary_that_does_not_fit(
    changes, keep_accents, message, undescribed_vocab, caplog
):
    counts = {**COUNTS, "tokens": 100, "letters": 100, **changes}
    tokenizer = tokenization.Tokenizer(
        undescribed_vocab, keep_accents=keep_accents
    )
    word_starts.warn_of_misfit(counts, tokenizer)
    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == bool(message)
    assert re.search(message, caplog.text)


def test_wordpiece_that_takes_letters_apart(chinese, caplog):
    tokenizer = tokenization.load(chinese.vocabulary)
    counts = {**COUNTS, **letters.count(["한국어 abc"])}
    word_starts.warn_of_misfit(counts, tokenizer)
    assert "50.0 % of the letters of this text, or takes them" in caplog.text


@pytest.fixture
def by_twos(monkeypatch):
    """A segmenter whose words are two characters; it needs no package."""
    cut = lambda text: [text[i : i + 2] for i in range(0, len(text), 2)]  # noqa: E731
    monkeypatch.setattr(word_starts, "load", lambda name: cut)
    monkeypatch.setattr(word_starts, "versions", lambda name: {"by_twos": "1"})


@pytest.fixture
def chinese(base, tmp_path):
    text = (
        "\u4eca\u5929\u4e0b\u96e8\u3002\n\u660e\u5929\u53bb\u516c\u56ed\n\n" * 6
    )
    (tmp_path / "zh.txt").write_text(text, "utf-8")
    words = sorted(set(text.replace("\n", "")))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), "utf-8")
    return changed(
        base,
        input_file=str(tmp_path / "zh.txt"),
        spm_model_file=None,
        vocab_file=str(tmp_path / "vocab.txt"),
        word_segmenter="jieba",
    )


STARTS = {"\u4eca": 1, "\u4e0b": 1, "\u96e8": 0, "\u3002": 1, "\u660e": 1}
STARTS |= {"\u53bb": 1, "\u516c": 0, "\u56ed": 1, "[CLS]": 1, "[SEP]": 1}


def test_records_have_the_words_of_the_segmenter(chinese, by_twos):
    settings = writing.run(chinese, masking_time="training")
    manifest = manifests.find(settings.output_file)
    assert manifest.word_start_rule == "jieba"
    assert manifest.options["word_segmenter"] == "jieba"
    assert manifest.versions["by_twos"] == "1"
    tokenizer = tokenization.load(settings.vocabulary)
    arrays = writing.read_arrays(settings)
    pieces = tokenizer.ids_to_pieces(arrays["input_ids"].ravel().tolist())
    marks = arrays["token_boundary"].ravel().tolist()
    found = {p: m for p, m in zip(pieces, marks, strict=True) if p in STARTS}
    assert found == STARTS


def test_masks_hide_the_words_of_the_segmenter(chinese, by_twos):
    settings = writing.run(chinese, masked_lm_prob=0.2)
    arrays = writing.read_arrays(settings)
    predicted = np.zeros(arrays["input_ids"].shape, bool)
    rows, columns = np.nonzero(arrays["masked_lm_weights"])
    predicted[rows, arrays["masked_lm_positions"][rows, columns]] = True
    is_inside = (arrays["token_boundary"] == 0) & (arrays["input_mask"] == 1)
    rows, columns = np.nonzero(is_inside)
    assert (predicted[rows, columns] == predicted[rows, columns - 1]).all()
    assert predicted[rows, columns].any()


def test_tokens_of_a_segmenter_say_where_words_start(tiny_tokenizer):
    vocabulary = word_starts.make_vocabulary(tiny_tokenizer, "jieba")
    found = word_starts.starts_of_tokens(vocabulary, "jieba")
    assert found.tolist() == [False, True] * tiny_tokenizer.vocab_size


def cut_at(*words):
    return lambda text: words


@pytest.mark.parametrize(
    "text, words, starts",
    [
        ("", [], []),
        ("今天很好", ["今天", "很", "好"], [0, 2, 3]),
        ("今天 很好", ["今天", " ", "很好"], [0, 3]),
        ("好很好", ["好", "很", "好"], [0, 1, 2]),
        (" a  b ", ["a", "b"], [1, 4]),
        ("abc", ["ab", "?", "c"], [0, 2]),  # What is not there is left out.
        ("天\u093f\u200d今", "天 \u093f \u200d 今".split(), [0, 3]),
    ],
)
def test_word_starts(text, words, starts):
    found = word_starts.word_starts(text, cut_at(*words))
    assert len(found) == len(text) + 1
    assert np.flatnonzero(found).tolist() == starts


@pytest.mark.parametrize(
    "text, words, pieces, marks",
    [
        # Two pieces of one word.
        (
            "今天好",
            ["今天", "好"],
            [("▁今", 0, 1), ("天", 1, 2), ("好", 2, 3)],
            "101",
        ),
        # A piece that spans two words joins them.
        (
            "今天很好",
            ["今天", "很", "好"],
            [("▁今", 0, 1), ("天很", 1, 3), ("好", 3, 4)],
            "101",
        ),
        # The mark of the first space belongs to the word behind it.
        ("今天", ["今天"], [("▁", 0, 0), ("今", 0, 1), ("天", 1, 2)], "100"),
        # A piece may begin with the space before it.
        ("a 天", ["a", " ", "天"], [("▁a", 0, 1), ("▁天", 1, 3)], "11"),
        # Bytes of one character.
        (
            "今天",
            ["今", "天"],
            [("▁今", 0, 1), ("<0xE5>", 1, 2), ("<0xA4>", 2, 2)],
            "110",
        ),
        # The first piece begins a word, whatever the segmenter finds.
        ("abc", ["bc"], [("▁a", 0, 1), ("b", 1, 2), ("c", 2, 3)], "110"),
        ("", [], [], ""),
    ],
)
def test_marks_of_pieces(text, words, pieces, marks):
    names = [name for name, _, _ in pieces]
    begins, ends = (
        np.array([piece[i] for piece in pieces], np.int32) for i in (1, 2)
    )
    found = word_starts.mark_pieces(text, (names, begins, ends), cut_at(*words))
    assert "".join(str(int(mark)) for mark in found) == marks


@pytest.mark.parametrize(
    "name, module, packages",
    [
        ("jieba", "jieba", "pip install jieba"),
        ("mecab", "fugashi", "pip install fugashi unidic-lite"),
    ],
)
def test_a_missing_package_is_named(name, module, packages, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    word_starts.load.cache_clear()
    with refused(f"`word_segmenter={name}` needs .*{packages}"):
        word_starts.load(name)


def test_nothing_is_needed_without_a_segmenter():
    assert word_starts.versions("none") == {}


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("jieba", "今天天气很好。", ["今天天气", "很", "好", "。"]),
        ("mecab", "東京へ行きました。", ["東京", "へ", "行き"]),
    ],
)
def test_real_segmenters(name, text, words):
    word_starts.load.cache_clear()
    found = [w for w in word_starts.load(name)(text) if w.strip()]
    assert found[: len(words)] == words
    assert "".join(found) == text
    assert all(word_starts.versions(name).values())
