"""Counts of letters, by which a language is judged."""

import lzma

import pytest

from data_prep.vocabulary import letters


def counted(*texts):
    found = letters.count(texts)
    return tuple(found[name] for name in letters.NAMES)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", (0, 0, 0, 0, 0, 0)),
        ("It is 12:30.", (4, 0, 0, 0, 0, 0)),
        ("Größe", (5, 1, 1, 1, 0, 0)),
        ("Gro\u0308\u00dfe", (5, 1, 1, 1, 0, 0)),  # Decomposed.
        ("Caf\u00e9 \ufb01", (5, 1, 1, 0, 0, 0)),
        ("今天", (2, 0, 0, 2, 2, 2)),
        ("ガカ", (2, 1, 1, 2, 2, 2)),
        ("ไป", (2, 0, 0, 2, 2, 0)),
        ("ที", (1, 0, 1, 1, 1, 0)),  # A vowel sign of class 0.
        ("한국", (2, 0, 2, 2, 0, 0)),
        ("\U0001f600 \u2764\ufe0f", (0, 0, 0, 0, 0, 0)),
    ],
)
def test_letters_of_scripts(text, expected):
    assert counted(text) == expected


def test_many_texts_are_counted_together(monkeypatch):
    texts = ["ab", "ü", "", "天", "1"]
    expected = letters.count(texts)
    monkeypatch.setattr(letters, "_TEXTS_AT_ONCE", 2)
    assert letters.count(texts) == expected
    assert expected["letters"] == 4


def test_share():
    counts = letters.count(["aü"])
    assert letters.rate(counts, "letter_marks") == 0.5
    assert letters.rate(counts, "letters", "letter_marks") == 1.5
    assert letters.rate(letters.count([]), "letter_marks") == 0


@pytest.mark.parametrize(
    "name, marks, others",
    [
        ("corpora/wikitext-2-valid.txt.xz", False, False),
        ("en/wikipedia_short.txt.xz", False, False),
        ("de/wikipedia_de.txt.xz", True, True),
        ("ja/aozora.txt.xz", True, True),
        ("multi/tr_sentences.txt.xz", True, True),
        ("multi/hi_sentences.txt.xz", True, True),
        ("multi/th_sentences.txt.xz", True, True),
        ("zh-more/wikipedia_hans.txt.xz", False, True),
    ],
)
def test_real_languages_are_judged_rightly(shared_dir, name, marks, others):
    with lzma.open(shared_dir / "data" / name, "rt", encoding="utf-8") as file:
        found = letters.count([file.read(300_000)])
    share = letters.rate(found, "letter_marks")
    assert marks == (share > letters.MARKS_MATTER)
    share = letters.rate(found, "letters_not_a_to_z", "letter_marks")
    assert others == (share > letters.OTHERS_MATTER)
