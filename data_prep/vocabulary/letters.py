"""Counts of the letters of a text by kind, which show what language it is.

By them the vocabulary trainers choose a normalization, and the writer a rule
for word starts; it also warns if a vocabulary does not fit.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.data import masking
from albert_tf.text import normalization, wordpiece_rules

# Above this share of letters with marks, marks distinguish words. English has
# 0.00 to 0.09 %, German 1.4 %, all others more: docs/languages.md.
MARKS_MATTER = 0.004
# Above this share of letters that are not a to z, and of marks, it is another
# language.
# English has 0.00 to 0.12 %, and 0.5 % with many foreign names and words;
# German has 1.6 %.
OTHERS_MATTER = 0.007
# Above this share of Chinese and Japanese letters, a text has many characters
# that occur once or twice.
MANY_CHARACTERS = 0.5
# What the original's rule takes from letters, by the kind of the vocabulary.
LOST = {
    normalization.SENTENCEPIECE: "letter_marks",
    normalization.WORDPIECE: "letters_changed_by_wordpiece",
}
_KANA = ("\u3040", "\u30ff"), ("\u31f0", "\u31ff"), ("\uff66", "\uff9f")
# Texts that are counted at a time: each character takes twelve bytes meanwhile.
_TEXTS_AT_ONCE = 8192
NAMES = (
    "letters",
    "letter_marks",
    "letters_changed_by_wordpiece",
    "letters_not_a_to_z",
    "letters_without_spaces",
    "letters_chinese_japanese",
)


def count(texts: Iterable[str]) -> dict[str, int]:
    """Count the letters of texts.

    Example:
        count(["Größe 1", "天한"]) = {"letters": 7, "letter_marks": 1,
            "letters_changed_by_wordpiece": 2, "letters_not_a_to_z": 3,
            "letters_without_spaces": 1, "letters_chinese_japanese": 1}

    Returns:
        "letters"; "letter_marks": the combining characters of the decomposed
        text (NFKD), which the original's rule removes for SentencePiece;
        "letters_changed_by_wordpiece": letters and vowel signs that its rule
        for WordPiece removes, strips of marks or takes apart (Hangul);
        "letters_not_a_to_z": letters that are others even without marks;
        "letters_without_spaces": those of scripts without spaces between words;
        "letters_chinese_japanese".
    """
    totals = np.zeros(len(NAMES), np.int64)
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, _TEXTS_AT_ONCE)):
        joined = "".join(batch).encode("utf-32-le", "surrogatepass")
        frequencies = np.bincount(np.frombuffer(joined, np.uint32))
        for code in np.flatnonzero(frequencies).tolist():
            totals += frequencies[code] * np.array(_counts_of(code))
    return dict(zip(NAMES, totals.tolist(), strict=True))


@functools.cache
def _counts_of(code: int) -> tuple[int, ...]:
    """Return what one character adds to each count of `NAMES`."""
    character = chr(code)
    parts = unicodedata.normalize("NFKD", character)
    marks = sum(unicodedata.combining(part) != 0 for part in parts)
    kept = wordpiece_rules.clean_text(character, lower=True, keep_accents=True)
    changed = kept != wordpiece_rules.clean_text(character, lower=True)
    changed &= not "\ufe00" <= character <= "\ufe0f"  # They follow emoji.
    letters_of_parts = [part for part in parts if part.isalpha()]
    if not letters_of_parts:
        return (0, marks, int(changed), 0, 0, 0)
    is_other = not all(part.isascii() for part in letters_of_parts)
    is_kana = any(low <= character <= high for low, high in _KANA)
    is_chinese_or_japanese = is_kana or wordpiece_rules.is_cjk(character)
    flags = (
        changed,
        is_other,
        masking.has_no_spaces(character),
        is_chinese_or_japanese,
    )
    return (1, marks, *map(int, flags))


def rate(counts: Mapping[str, int], *names: str) -> float:
    """Return the rate of some kinds among all letters; 0 without letters."""
    return sum(counts[name] for name in names) / max(1, counts["letters"])
