"""Cleaning of text before SentencePiece.

text_ops.py has the same functions as TensorFlow operations. The cleaning before
WordPiece is in wordpiece.py.
"""

import unicodedata
from collections.abc import Sequence

# What `str.split` divides text at, besides the space and the line feed.
_OTHER_SPACES = (
    "\t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def collapse_spaces(text: str) -> str:
    r"""Strip the text and replace every run of white space by one space.

    Example:
        collapse_spaces(" a\t b\n") = "a b"
    """
    return " ".join(text.split())


def fold_characters(
    text: str, *, lower: bool = True, keep_accents: bool = False
) -> str:
    """Normalize, strip of accents and lower-case characters; keep spaces.

    Example:
        fold_characters("É½") = "e1⁄2"
    """
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
    combining characters are removed, and the rest is lower-cased. Nothing else
    is changed: doubled back-ticks stay as they are.

    Source: the original's tokenization.preprocess_text; `keep_accents` is ours.

    Example:
        preprocess_text("  Café\t½… ") = "cafe 1⁄2..."
        preprocess_text("Über", keep_accents=True) = "über"

    Args:
        text: Any string.
        lower: Whether the vocabulary is uncased.
        keep_accents: Compose characters (NFKC) instead of dropping accents,
            for a vocabulary that was trained on such text.
    """
    return fold_characters(
        collapse_spaces(text), lower=lower, keep_accents=keep_accents
    )


def preprocess_lines(
    lines: Sequence[str], *, lower: bool = True, keep_accents: bool = False
) -> list[str]:
    """Do what `preprocess_text` does with each of many lines, faster.

    All lines are cleaned together, joined by line feeds: no step looks across
    one. Only lines that are not ASCII are normalized.

    Example:
        preprocess_lines([" Café  ½", "", "It"]) = ["cafe 1⁄2", "", "it"]

    Args:
        lines: Any strings; those with a line feed make it slow.
        lower: Whether the vocabulary is uncased.
        keep_accents: See `preprocess_text`.
    """
    text = "\n".join(lines)
    if text.count("\n") != len(lines) - 1:
        return [
            preprocess_text(line, lower=lower, keep_accents=keep_accents)
            for line in lines
        ]
    for space in _OTHER_SPACES:
        text = text.replace(space, " ")
    cleaned = [
        collapse_spaces(line) if "  " in line else line.strip(" ")
        for line in text.split("\n")
    ]
    others = [i for i, line in enumerate(cleaned) if not line.isascii()]
    folded = fold_characters(
        "\n".join(cleaned[i] for i in others),
        lower=lower,
        keep_accents=keep_accents,
    )
    if lower:
        cleaned = [line.lower() for line in cleaned]
    for i, line in zip(others, folded.split("\n"), strict=False):
        cleaned[i] = line
    return cleaned
