"""Cleaning of text before SentencePiece, and its parts.

text_ops.py has the same functions as TensorFlow operations. The cleaning before
WordPiece is in wordpiece.py.
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

# Characters; see `split_parts`.
LONGEST_PART = 10_000
# Longer runs of a category are of unassigned and of private characters, which
# no rule tells apart. So 200,000 of all 1,114,112 characters are looked at.
_ALIKE = 60_000
_LAST_WORD = re.compile(r"\s\S*\Z")


def collapse_spaces(text: str) -> str:
    """Strip the text and replace every run of white space by one space."""
    return " ".join(text.split())


def fold_characters(
    text: str, *, lower: bool = True, keep_accents: bool = False
) -> str:
    """Normalize, strip of accents and lower-case characters; keep spaces."""
    if keep_accents:
        text = unicodedata.normalize("NFKC", text)
    elif not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        for mark in filter(unicodedata.combining, set(text)):
            text = text.replace(mark, "")
    return text.lower() if lower else text


def preprocess_text(
    text: str, *, lower: bool = True, keep_accents: bool = False
) -> str:
    r"""Clean a text as the training data of the released English models.

    White space is collapsed, compatibility characters are decomposed (NFKD),
    combining characters are removed, and the rest is lower-cased. With
    `keep_accents` characters are composed (NFKC) instead.

    Source: the original's tokenization.preprocess_text; `keep_accents` is ours.

    Example:
        preprocess_text("  Café\t½… ") = "cafe 1⁄2..."
        preprocess_text("Über", keep_accents=True) = "über"
    """
    return fold_characters(
        collapse_spaces(text), lower=lower, keep_accents=keep_accents
    )


def split_parts(text: str) -> Iterator[str]:
    """Yield the parts of a text, which are cleaned and cut one by one.

    SentencePiece takes time by the square of a run of characters that the
    vocabulary lacks. So of a text of more than `LONGEST_PART` characters each
    `LONGEST_PART` is divided before its last white space. Pieces do not cross
    white space, so they stay the same; but a longer word is divided.
    """
    begin = 0
    for end in range(LONGEST_PART, len(text), LONGEST_PART):
        last_word = _LAST_WORD.search(text, end - LONGEST_PART, end)
        place = last_word.start() if last_word else end
        yield text[begin:place]
        begin = place
    yield text[begin:]


def encode(
    cut: Callable[[str], Sequence[int]], text: str, enough: int | None = None
) -> list[int]:
    """Return the ids that `cut` returns for all parts of a text.

    Args:
        enough: Pieces after which the others may be left out.
    """
    if len(text) <= LONGEST_PART:
        return list(cut(text))
    ids: list[int] = []
    for part in split_parts(text):
        ids += cut(part)
        if enough is not None and len(ids) >= enough:
            break
    return ids


@functools.cache
def character_class(matches: Callable[[str], object]) -> str:
    r"""Return the class of a regular expression of all matching characters.

    Example:
        character_class(lambda c: c in "abcx") = "[\x{61}-\x{63}\x{78}]"
    """
    codes: list[int] = []
    for run in _runs():
        if len(run) > _ALIKE:
            codes += run if matches(chr(run[0])) else ()
        else:
            codes += (code for code in run if matches(chr(code)))
    return class_of(codes)


@functools.cache
def _runs() -> list[range]:
    """Return all code points but surrogates in runs of one category."""
    categories = map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))
    runs, start = [], 0
    for category, group in itertools.groupby(categories):
        run = range(start, start := start + sum(1 for _ in group))
        if category != "Cs":
            runs.append(run)
    return runs


def class_of(codes: Iterable[int]) -> str:
    """Return the class of ascending codes; see `character_class`."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    parts = [
        rf"\x{{{low:x}}}" + (rf"-\x{{{high:x}}}" if high > low else "")
        for low, high in ranges
    ]
    return f"[{''.join(parts)}]"
