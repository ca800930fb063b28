"""Cleaning of text as TensorFlow operations, for many texts at once.

Each function gives the same text as the one of that name in cleaning.py.
"""

import unicodedata
from collections.abc import Callable

import tensorflow as tf
import tensorflow_text

from albert_tf.text import cleaning

_STAND_IN = "\U0010ffff"  # Unicode assures that this is not a character.


def replace_each(
    texts: tf.Tensor, is_replaced: Callable[[str], object], new: str
) -> tf.Tensor:
    r"""Replace characters that `is_replaced`; `\0` is the character."""
    return tf.strings.regex_replace(
        texts, cleaning.character_class(is_replaced), new
    )


def matches(
    is_replaced: Callable[[str], object],
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that tells which texts are one wanted character."""
    return lambda texts: tf.strings.regex_full_match(
        texts, cleaning.character_class(is_replaced)
    )


def collapse_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Do what `cleaning.collapse_spaces` does, for many texts."""
    spaces = cleaning.character_class(str.isspace) + "+"
    return tf.strings.strip(tf.strings.regex_replace(texts, spaces, " "))


def split_parts(texts: tf.Tensor) -> tf.Tensor:
    """Do what `cleaning.split_parts` does; string [batch, parts], filled up."""
    length = tf.strings.length(texts, unit="UTF8_CHAR")[:, None]
    place = tf.range(0, tf.reduce_max(length), cleaning.LONGEST_PART)
    place = tf.minimum(place, length)
    size = tf.fill(tf.shape(place), cleaning.LONGEST_PART)
    blocks = tf.strings.substr(texts[:, None], place, size, unit="UTF8_CHAR")
    space = cleaning.character_class(str.isspace)
    last_word = rf"{space}[^{space[1:]}*\z"
    heads = tf.strings.regex_replace(blocks, last_word, "")
    heads = tf.where(place + size < length, heads, blocks)
    size = tf.strings.length(blocks) - tf.strings.length(heads)
    tails = tf.strings.substr(blocks, tf.strings.length(heads), size)
    return tf.strings.join(
        [tf.pad(tails, [(0, 0), (1, 0)]), tf.pad(heads, [(0, 0), (0, 1)])]
    )


def strip(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Do what `str.strip` does, for many texts.

    Returns:
        The stripped texts, string; int32, how many bytes were removed at their
        beginnings; both of the shape of `texts`.
    """
    spaces = cleaning.character_class(str.isspace) + "+"
    begun = tf.strings.regex_replace(texts, rf"\A{spaces}", "")
    lost = tf.strings.length(texts) - tf.strings.length(begun)
    return tf.strings.regex_replace(begun, rf"{spaces}\z", ""), lost


def valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Replace bytes that are not UTF-8 by U+FFFD."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")


def to_lower(texts: tf.Tensor) -> tf.Tensor:
    """Do what `str.lower` does, for many texts.

    TensorFlow's operation ends a text at the character NUL, so NUL is replaced
    by a noncharacter meanwhile. Case folding is no alternative: it maps more
    characters, and composes decomposed ones.
    """
    texts = tf.strings.regex_replace(texts, r"\x{0}", _STAND_IN)
    texts = tf.strings.lower(texts, encoding="utf-8")
    return tf.strings.regex_replace(texts, _STAND_IN, "\0")


def fold_characters(
    texts: tf.Tensor, lower: bool, keep_accents: bool
) -> tf.Tensor:
    """Do what `cleaning.fold_characters` does, for many texts."""
    if keep_accents:
        texts = tensorflow_text.normalize_utf8(texts, "NFKC")
    else:
        texts = tensorflow_text.normalize_utf8(texts, "NFKD")
        accents = cleaning.character_class(unicodedata.combining) + "+"
        texts = tf.strings.regex_replace(texts, accents, "")
    return to_lower(texts) if lower else texts


def normalize(
    texts: tf.Tensor, lower: bool, keep_accents: bool = False
) -> tf.Tensor:
    r"""Clean texts as `cleaning.preprocess_text` does.

    Both agree on every character that is in the Unicode tables of Python and of
    TensorFlow. With Python 3.11 (Unicode 14) and TensorFlow 2.20:

    - 40 capital letters that are missing in TensorFlow's older table of lower
      case stay capitals here;
    - a capital sigma at the end of a word becomes the other small sigma here if
      one of 117 similarly new letters comes before it;
    - 118 characters that are newer than Python's tables are decomposed only
      here. With 30k-clean.model, 36 of all characters get other ids: the
      outlined letters and digits from U+1CCD6 on (Unicode 16).

    Example, string [batch]; bytes that are not UTF-8 become U+FFFD:
        normalize(["  Café\t½… "], lower=True) = ["cafe 1⁄2..."]
    """
    texts = collapse_spaces(valid_utf8(texts))
    return fold_characters(texts, lower, keep_accents)
