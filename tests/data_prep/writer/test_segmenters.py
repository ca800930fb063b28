"""Words of text without spaces."""

import sys

import numpy as np
import pytest

from albert_tf.common import errors
from data_prep.writer import segmenters


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
    found = segmenters.word_starts(text, cut_at(*words))
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
    found = segmenters.mark_pieces(text, (names, begins, ends), cut_at(*words))
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
    segmenters.load.cache_clear()
    with pytest.raises(
        errors.UserError, match=f"`word_segmenter={name}` needs .*{packages}"
    ):
        segmenters.load(name)


def test_nothing_is_needed_without_a_segmenter():
    assert segmenters.versions("none") == {}


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("jieba", "今天天气很好。", ["今天天气", "很", "好", "。"]),
        ("mecab", "東京へ行きました。", ["東京", "へ", "行き"]),
    ],
)
def test_real_segmenters(name, text, words):
    segmenters.load.cache_clear()
    found = [w for w in segmenters.load(name)(text) if w.strip()]
    assert found[: len(words)] == words
    assert "".join(found) == text
    assert all(segmenters.versions(name).values())
