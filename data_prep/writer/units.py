"""Phrases and entities that a file lists, in the text: ERNIE 1.0's units."""

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
def _word() -> re.Pattern[str]:
    """Return what matches a word.

    It is letters and digits with their marks, and with joiners and further
    format characters between them, up to a space or sign; or a sign, or a
    character of a script without spaces, with its marks.
    """
    alone = "".join(f"{low}-{high}" for low, high in masking.WITHOUT_SPACES)
    letter = rf"[^\W{alone}]"
    mark, joiner = _of_category("Mn", "Mc", "Me"), _of_category("Cf")
    inside = rf"{mark}|{joiner}+(?={letter}|{mark})"
    return re.compile(rf"(?:{letter}+(?:{inside})*)+|\S{mark}*")


def _of_category(*names: str) -> str:
    """Return the class of a regular expression of categories of Unicode."""
    of_all = map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))
    matches = "".join("x" if name in names else " " for name in of_all)
    runs = (match.span() for match in re.finditer("x+", matches))
    return f"[{''.join(f'{chr(a)}-{chr(b - 1)}' for a, b in runs)}]"


@dataclasses.dataclass(frozen=True)
class Units:
    """What a file lists, as words in lower case."""

    units: frozenset[tuple[str, ...]]
    # First word to the lengths of units, in words, longest first.
    lengths: Mapping[str, tuple[int, ...]]

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return where units begin and end: the longest, from left to right.

        Example:
            units "new york" and "new york city", text "In New  York city!":
            [(3, 17)]
        """
        places = [match.span() for match in _word().finditer(text)]
        words = [text[begin:end].lower() for begin, end in places]
        spans, word = [], 0
        while word < len(words):
            sizes = self.lengths.get(words[word], ())
            candidates = (tuple(words[word : word + n]) for n in sizes)
            unit = next((unit for unit in candidates if unit in self.units), ())
            if unit:
                last = word + len(unit) - 1
                spans.append((places[word][0], places[last][1]))
            word += max(1, len(unit))
        return spans


def read(path: str, option: str) -> Units:
    """Read a file of one unit a line; `option` names it in errors."""
    lines = files.read_lines(path, option)
    words = (map(str.lower, _word().findall(line)) for line in lines)
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


def continued(spans: list[tuple[int, int]], length: int) -> np.ndarray:
    """Return which characters are in a unit but do not begin it.

    The result has one more, behind the text: bool [length + 1].
    """
    is_continued = np.zeros(length + 1, bool)
    for begin, end in spans:
        is_continued[begin + 1 : end] = True
    return is_continued
