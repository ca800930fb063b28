"""Cleaning of texts for SentencePiece."""

import sys
import unicodedata

import pytest

from albert_tf.text import cleaning, wordpiece_rules


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("  a \t b\n\u3000c\x1c ", "a b c"),
        ("½ … ﬁ É ü", "1⁄2 ... fi e u"),
        ("が", "か"),
        ("\ud55c", "\u1112\u1161\u11ab"),
        ("``a''", "``a''"),
        ("ΑΣ İ", "ας i"),
        ("", ""),
    ],
)
def test_preprocess_text(text, cleaned):
    assert cleaning.preprocess_text(text) == cleaned


def test_preprocess_text_can_keep_case_and_accents():
    assert cleaning.preprocess_text("É", lower=False) == "E"
    composed = cleaning.preprocess_text("E\u0301 ﬁ", keep_accents=True)
    assert composed == "é fi"


def test_characters_become_a_class_of_ranges():
    found = cleaning.character_class(lambda c: c in "abcxy\x0a\U0010ffff")
    assert found == r"[\x{a}\x{61}-\x{63}\x{78}-\x{79}\x{10ffff}]"


@pytest.mark.parametrize(
    "matches", [wordpiece_rules.is_dropped, str.isspace, unicodedata.combining]
)
def test_a_class_has_all_characters_that_match(matches):
    codes = [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]
    expected = cleaning.class_of(code for code in codes if matches(chr(code)))
    assert cleaning.character_class(matches) == expected
