"""Lines of a corpus that also stand in evaluation texts."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from data_prep.writer import sentences

GRAM = 13  # As in the analysis of GPT-3, arXiv 2005.14165, appendix C.
# Shorter sentences ("What do you want?") are everywhere.
SHORTEST = 6
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation.

    Example:
        words_of("Don't, 3.5!") = ["don", "t", "3", "5"]
    """
    return _WORD.findall(text.lower())


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, but the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)
    elif isinstance(value, dict):
        yield from texts_in(list(value.values()))


class Overlap:
    """Finds 13 words in a row, or a whole sentence, of given texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Remember texts."""
        self._grams: set[int] = set()
        self._sentences: set[str] = set()
        for text in texts:
            self._grams.update(_grams(words_of(text)))
            for sentence in (text, *sentences.split_paragraph(text, "en")):
                self._sentences.add(" ".join(words_of(sentence)))

    def has(self, line: str) -> bool:
        """Tell whether a line shares `GRAM` words in a row with a text.

        A line of fewer words, but `SHORTEST` or more, must be a sentence of a
        text as a whole. Case and punctuation do not count.
        """
        words = words_of(line)
        if len(words) >= GRAM:
            return not self._grams.isdisjoint(_grams(words))
        return len(words) >= SHORTEST and " ".join(words) in self._sentences


def _grams(words: list[str]) -> Iterator[int]:
    """Yield a hash of each `GRAM` words in a row."""
    for start in range(len(words) - GRAM + 1):
        yield hash(" ".join(words[start : start + GRAM]))
