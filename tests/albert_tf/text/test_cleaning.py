"""Cleaning of texts for SentencePiece."""

import pytest

from albert_tf.text import cleaning
from tests.albert_tf.text import hard_texts


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


@pytest.mark.parametrize("keep_accents", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_lines_together_are_cleaned_as_each_of_them(lower, keep_accents):
    options = {"lower": lower, "keep_accents": keep_accents}
    spaces = [c for c in map(chr, range(0x3001)) if c.isspace()]
    edges = [f"{c}x {c}y{c}" for c in spaces]
    edges += "Σ|ΑΣ|Σ |\u0301a|¨".split("|")
    # Some texts hold line feeds.
    texts = [*hard_texts.HARD, *hard_texts.random_texts(400), *edges]
    for some in (texts, ["plain", "text"], ["É"], [""], []):
        wanted = [cleaning.preprocess_text(text, **options) for text in some]
        assert cleaning.preprocess_lines(some, **options) == wanted


def test_characters_become_a_class_of_ranges():
    found = cleaning.character_class(lambda c: c in "abcxy\x0a\U0010ffff")
    assert found == r"[\x{a}\x{61}-\x{63}\x{78}-\x{79}\x{10ffff}]"
