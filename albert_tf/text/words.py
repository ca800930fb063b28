"""Where the words of a text begin and end, for tags of words.

A word is what stands between white space and marks; a mark between two letters
or digits is a part of their word, unless it is an apostrophe. Each character of
a script that is written without spaces is a word of its own. word_ops.py has
the same as TensorFlow operations.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf.text import wordpiece_rules

# Thai and Lao, Myanmar, Khmer, Japanese kana: full and half width.
_ALONE = (
    ("\u0e01", "\u0eff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u3040", "\u30ff"),
    ("\u31f0", "\u31ff"),
    ("\uff66", "\uff9f"),
)
_LAST_CJK = "\U0002fa1f"
_APOSTROPHES = frozenset("'’‘＇`´")
_SPACE, _LETTER, _MARK, _WORD = range(4)
# Words of files without a blank before them, and without one after them.
_CLOSES = re.compile(
    r"[,;:،؛؟۔।॥]|[.!?…]+|[)\]}]+|''|['’](s|m|d|t|ll|re|ve)|n['’]t|’", re.I
)
_OPENS = re.compile(r"[(\[{]+|[¿¡$£‘‚]|``|([a-z]|\w*(qu|ll|un))['’]", re.I)
# Those that open and close in turn.
_QUOTES = {
    mark: pair for pair in ('"', "'", "„“”", "«»", "‹›") for mark in pair
}


def stands_alone(character: str) -> bool:
    """Tell whether a character is of a script without spaces."""
    if not _ALONE[0][0] <= character <= _LAST_CJK:  # Most are decided here.
        return False
    return wordpiece_rules.is_cjk(character) or any(
        low <= character <= high for low, high in _ALONE
    )


def is_word(character: str) -> bool:
    """Tell whether a character is a word of its own, wherever it stands."""
    return character in _APOSTROPHES or stands_alone(character)


def is_mark(character: str) -> bool:
    """Tell whether a character is another punctuation mark, or a symbol."""
    is_one = unicodedata.category(character)[0] in "PS"
    return is_one and not is_word(character)


@functools.cache
def _kind(character: str) -> int:
    if character.isspace():
        return _SPACE
    if is_word(character):
        return _WORD
    return _MARK if is_mark(character) else _LETTER


def ranges(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the first character of each word, and its last one plus 1.

    Example:
        "(U.S. 東京)" has the words "(", "U.S", ".", "東", "京", ")"
        starts = [0, 1, 4, 6, 7, 8], ends = [1, 4, 5, 7, 8, 9]

    Returns:
        int64 [words] each.
    """
    kinds = np.fromiter(map(_kind, f" {text} "), np.int8, len(text) + 2)
    letter, space = kinds == _LETTER, kinds == _SPACE
    joins = (kinds == _MARK)[1:-1] & letter[:-2] & letter[2:]
    letter[1:-1] |= joins
    begins = ~space[1:] & ~(letter[1:] & letter[:-1])
    starts = np.flatnonzero(begins)
    # A word ends where white space or the next one begins.
    edges = np.flatnonzero(begins | space[1:])
    return starts, edges[np.searchsorted(edges, starts, "right")]


def nearest(text: str, part: str, start: int) -> int:
    """Return where a part stands in a text: at `start`, else nearest to it.

    Of two places the earlier one; -1 if there is none, or no part.
    """
    if not part:
        return -1
    # From the end backwards in a reversed text: str.rfind may take quadratic
    # time, str.find does not.
    rest = len(text) - len(part)
    back = text[::-1].find(part[::-1], max(0, rest - start))
    places = [rest - back] if back >= 0 else []
    after = text.find(part, max(0, start))
    if after >= 0:
        places.append(after)
    return min(places, key=lambda place: abs(place - start), default=-1)


def join(
    words: Sequence[str], blanks: Sequence[bool] | None = None
) -> tuple[str, np.ndarray]:
    """Return words as a text.

    Example:
        join(["He", "saw", "東", "京", "."]) = "He saw 東京.", [0, 3, 7, 8, 9]

    Args:
        blanks: Whether each word has one before it. None: by a rule for marks.

    Returns:
        The text; where each word begins in it, int64 [words].
    """
    text, starts = "", []
    for word, blank in zip(words, blanks or _blanks(words), strict=True):
        text += " " * blank
        starts.append(len(text))
        text += word
    return text, np.array(starts, np.int64)


def snap(
    spans: Iterable[dict[str, Any]], words: Sequence[str]
) -> list[dict[str, Any]]:
    """Return spans of the text that words become as spans of these words.

    A word belongs to the span that has its first character; a span without one
    is left out: of "U.S" and "." for the word "U.S." the second.
    """
    text, starts = join(words)
    ends = starts + [len(word) for word in words]
    byte = [0, *itertools.accumulate(len(c.encode()) for c in text)]
    snapped = []
    for span in spans:
        first, stop = np.searchsorted(starts, [span["start"], span["end"]])
        if first < stop:
            start, end = int(starts[first]), int(ends[stop - 1])
            places = {"start": start, "end": end}
            if "start_byte" in span:
                places |= {"start_byte": byte[start], "end_byte": byte[end]}
            snapped.append({**span, **places, "text": text[start:end]})
    return snapped


def _blanks(words: Sequence[str]) -> list[bool]:
    """Return before which words texts have a blank."""
    num_alone = sum(stands_alone(word[0]) for word in words)
    num_others = sum(len(w) > 1 and _kind(w[0]) == _LETTER for w in words)
    # In Chinese and the like not even numbers and marks have one.
    has_none = num_alone > num_others
    found, opened, last, opens = [], set[str](), "", True
    for word in words:
        blank = not (opens or _CLOSES.fullmatch(word))
        if has_none:  # But between words of letters that are not single ones.
            kinds = {_kind(last[-1:] or " "), _kind(word[0])}
            blank &= len(last + word) > 2 and kinds == {_LETTER}
        blank &= not (stands_alone(last[-1:]) and stands_alone(word[0]))
        opens = bool(_OPENS.fullmatch(word))
        if pair := _QUOTES.get(word):
            # Or of a genitive, as in `the workers ' union`.
            closes = pair in opened or (word == "'" and last.endswith("s"))
            (opened.discard if closes else opened.add)(pair)
            opens, blank = not closes, blank and not closes
        found.append(blank)
        last = word
    return found
