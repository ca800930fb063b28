"""The rules of WordPiece, as functions of texts: cleaning, words, pieces.

Python alone is imported: exports for other runtimes have a copy of this file.
"""

import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence

CONTINUATION = "##"  # Begins a piece that does not begin a word.
# Characters; a longer word is unknown as a whole. Google's; others have 100.
LONGEST_WORD = 200

# Unicode's blocks of Chinese characters (also used in Japanese and Korean).
_CJK_RANGES = (
    ("\u4e00", "\u9fff"),
    ("\u3400", "\u4dbf"),
    ("\U00020000", "\U0002a6df"),
    ("\U0002a700", "\U0002b73f"),
    ("\U0002b740", "\U0002b81f"),
    ("\U0002b820", "\U0002ceaf"),
    ("\uf900", "\ufaff"),
    ("\U0002f800", "\U0002fa1f"),
)
# All marks of ASCII count as punctuation; Unicode calls some of them symbols.
_ASCII_MARK_RANGES = (("!", "/"), (":", "@"), ("[", "`"), ("{", "~"))


def is_dropped(character: str) -> bool:
    """Tell whether cleaning removes a character: control or U+FFFD."""
    if character in "\t\n\r":
        return False
    is_control = unicodedata.category(character) in ("Cc", "Cf")
    return is_control or character == "\ufffd"


def is_cjk(character: str) -> bool:
    """Tell whether a character is Chinese and so a word of its own."""
    return any(low <= character <= high for low, high in _CJK_RANGES)


def is_accent(character: str) -> bool:
    """Tell whether a character is a combining accent (category Mn)."""
    return unicodedata.category(character) == "Mn"


def is_punctuation(character: str) -> bool:
    """Tell whether a character is a punctuation mark, a word of its own."""
    return unicodedata.category(character).startswith("P") or any(
        low <= character <= high for low, high in _ASCII_MARK_RANGES
    )


class _CharacterTable(dict[int, str]):
    """A table for `str.translate` that works out each character once."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = self._replace(chr(code))
        return self[code]


def _clean_character(character: str) -> str:
    if is_dropped(character):
        return ""
    return f" {character} " if is_cjk(character) else character


_CLEAN = _CharacterTable(_clean_character)
_WITHOUT_ACCENTS = _CharacterTable(lambda c: "" if is_accent(c) else c)
_PUNCTUATION_APART = _CharacterTable(
    lambda c: f" {c} " if is_punctuation(c) else c
)


def clean_text(text: str, *, lower: bool, keep_accents: bool = False) -> str:
    r"""Clean a text as BERT does before it cuts words.

    Control characters are removed, runs of white space become one space, and
    Chinese characters get spaces around them. For an uncased vocabulary the
    text is lower-cased and accents are removed (NFD, category Mn).

    Source: the original's tokenization.BasicTokenizer; `keep_accents` is ours.

    Example:
        clean_text("A\x00É\t今天", lower=True) = "ae 今 天"
    """
    text = " ".join(text.translate(_CLEAN).split())
    if not lower:
        return text
    text = text.lower()
    if keep_accents or text.isascii():
        return text
    return unicodedata.normalize("NFD", text).translate(_WITHOUT_ACCENTS)


def split_words(cleaned: str) -> list[str]:
    """Cut a cleaned text into words; every punctuation mark is one.

    Example:
        split_words("it's 今 天。") = ["it", "'", "s", "今", "天", "。"]
    """
    return cleaned.translate(_PUNCTUATION_APART).split()


def cut_word(
    word: str, ids: Mapping[str, int], unk_id: int, longest: int = LONGEST_WORD
) -> list[int]:
    """Return the ids of a word's pieces, always the longest that fits.

    A word of more than `longest` characters, or with a part that is no piece,
    is unknown as a whole.
    """
    if len(word) > longest:
        return [unk_id]
    found, start, mark = [], 0, ""
    while start < len(word):
        for end in range(len(word), start, -1):
            id_ = ids.get(mark + word[start:end])
            if id_ is not None:
                break
        else:
            return [unk_id]
        found.append(id_)
        start, mark = end, CONTINUATION
    return found


def encode_with_offsets(
    text: str,
    pieces: Sequence[str],
    *,
    cut: Callable[[str], list[int]],
    unk_id: int,
    lower: bool,
    keep_accents: bool,
) -> tuple[list[int], list[int], list[int]]:
    """Cut a text, and say where its pieces come from.

    Args:
        pieces: The vocabulary.
        cut: `cut_word` for this vocabulary.

    Returns:
        The ids; for each the index of its first character in the text, and that
        of its last character plus 1.
    """

    def clean(part: str) -> str:
        return clean_text(part, lower=lower, keep_accents=keep_accents)

    found, lengths = [], []
    for word in split_words(clean(text)):
        new = cut(word)
        found += new
        if new == [unk_id]:
            lengths.append(len(word))
        else:
            lengths += [len(pieces[i].removeprefix(CONTINUATION)) for i in new]
    # The pieces, concatenated, are the cleaned text without white space.
    sources: list[int] = []
    for index, character in enumerate(text):
        width = 1 - character.isspace()
        if not (character.isascii() and character.isprintable()):
            width = len("".join(clean(character).split()))
        sources += [index] * width
    stops = list(itertools.accumulate(lengths))
    starts = [sources[stop - n] for stop, n in zip(stops, lengths, strict=True)]
    return found, starts, [sources[stop - 1] + 1 for stop in stops]
