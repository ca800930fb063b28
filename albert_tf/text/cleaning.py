"""Cleaning of text before SentencePiece.

text_ops.py has the same functions as TensorFlow operations. The cleaning before
WordPiece is in wordpiece.py.
"""

import unicodedata


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
        text = "".join(c for c in text if not unicodedata.combining(c))
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
