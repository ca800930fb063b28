"""Phrases and entities of a file, found in the text: ERNIE 1.0's units."""

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Mapping

import numpy as np

from albert_tf.common import errors, files
from albert_tf.data import marks, masking

# What files list, and how its pieces are marked.
KINDS = {"phrases": marks.PHRASE, "entities": marks.ENTITY}
# Options that name the files.
OPTIONS = {"phrase_file": "phrases", "entity_file": "entities"}


@functools.cache  # Categories of all characters take a moment.
def _word_pattern() -> re.Pattern[str]:
    """Return the regular expression of a word.

    A word is letters and digits with their marks, and with joiners and further
    format characters between them, up to a space or sign; or a sign, or a
    character of a script without spaces, with its marks.
    """
    alone = "".join(f"{low}-{high}" for low, high in masking.WITHOUT_SPACES)
    letter = rf"[^\W{alone}]"
    mark, joiner = _category_class("Mn", "Mc", "Me"), _category_class("Cf")
    inside = rf"{mark}|{joiner}+(?={letter}|{mark})"
    return re.compile(rf"(?:{letter}+(?:{inside})*)+|\S{mark}*")


def _category_class(*names: str) -> str:
    """Return a character class, "[...]", of some categories of Unicode."""
    categories = map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))
    flags = "".join("x" if name in names else " " for name in categories)
    runs = (match.span() for match in re.finditer("x+", flags))
    return f"[{''.join(f'{chr(a)}-{chr(b - 1)}' for a, b in runs)}]"


@dataclasses.dataclass(frozen=True)
class Units:
    """The phrases or entities of a file, as tuples of lower-case words."""

    units: frozenset[tuple[str, ...]]
    # First word to the lengths of units, in words, longest first.
    lengths: Mapping[str, tuple[int, ...]]

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each unit: the longest, from left to right.

        Example:
            units "new york" and "new york city", text "In New  York city!":
            [(3, 17)]
        """
        word_spans = [match.span() for match in _word_pattern().finditer(text)]
        words = [text[begin:end].lower() for begin, end in word_spans]
        spans, word = [], 0
        while word < len(words):
            lengths = self.lengths.get(words[word], ())
            candidates = (tuple(words[word : word + n]) for n in lengths)
            unit = next((unit for unit in candidates if unit in self.units), ())
            if unit:
                last = word + len(unit) - 1
                spans.append((word_spans[word][0], word_spans[last][1]))
            word += max(1, len(unit))
        return spans


def read(path: str, option: str) -> Units:
    """Read a file of one unit a line; `option` names it in errors."""
    lines = files.read_lines(path, option)
    words = (map(str.lower, _word_pattern().findall(line)) for line in lines)
    units = frozenset(map(tuple, words)) - {()}
    if not units:
        raise errors.UserError(
            f"`{option}={path}` names nothing. Write one phrase or entity a "
            "line."
        )
    lengths: dict[str, set[int]] = {}
    for unit in units:
        lengths.setdefault(unit[0], set()).add(len(unit))
    return Units(
        units, {w: tuple(sorted(n, reverse=True)) for w, n in lengths.items()}
    )


def mark_continued(spans: list[tuple[int, int]], length: int) -> np.ndarray:
    """Return which characters are in a unit but do not begin it.

    The result has one more, behind the text: bool [length + 1].
    """
    is_continued = np.zeros(length + 1, bool)
    for begin, end in spans:
        is_continued[begin + 1 : end] = True
    return is_continued
