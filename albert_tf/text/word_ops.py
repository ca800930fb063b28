"""Words of texts as TensorFlow operations; words.py has the same in Python.

Words are concatenated over all texts of a batch.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.text import offset_ops, text_ops, words

# What no piece, and no character, has as its number.
NONE: int = tf.int32.max


class Words(NamedTuple):
    """The words of texts, int32 [words] each.

    Attributes:
        row: Number of the text.
        start: First byte in the text.
        end: Last byte plus 1.
        start_character: First character in the text.
        end_character: Last character plus 1.
    """

    row: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    start_character: tf.Tensor
    end_character: tf.Tensor


class _Characters(NamedTuple):
    """The characters of words, int32 [characters] each."""

    place: tf.Tensor  # First byte, counted over all texts.
    word: tf.Tensor  # Number of the word.


def _bases(lengths: tf.Tensor) -> tf.Tensor:
    """Return where each text begins among all, a byte apart, int32 [batch]."""
    return tf.cumsum(lengths + 1, exclusive=True)


def find(texts: tf.Tensor) -> tuple[Words, _Characters]:
    """Return what `words.ranges` does, for string [batch]."""
    units = offset_ops.to_characters(texts)
    first = offset_ops.is_first(units.rows)
    last = tf.concat([first[1:], [True]], 0)[: tf.size(first)]
    is_space, mark, apart = (
        units.each(text_ops.matches(wanted))
        for wanted in (str.isspace, words.is_mark, words.is_word)
    )
    letter = ~(is_space | mark | apart)
    behind = tf.concat([letter[1:], [False]], 0)[: tf.size(letter)]
    letter |= mark & offset_ops.previous(letter) & ~first & behind & ~last
    begins = ~is_space & ~(letter & offset_ops.previous(letter) & ~first)
    number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    rows = tf.cast(units.rows, tf.int32)
    # Numbers of the characters in their texts.
    index = tf.range(tf.size(rows))
    character = index - tf.searchsorted(rows, rows)
    inside = ~is_space
    owner = tf.boolean_mask(number, inside)
    count = tf.reduce_sum(tf.cast(begins, tf.int32))

    def last_of(values: tf.Tensor) -> tf.Tensor:
        kept = tf.boolean_mask(values, inside)
        return tf.math.unsorted_segment_max(kept, owner, count)

    def first_of(values: tf.Tensor) -> tf.Tensor:
        return tf.boolean_mask(values, begins)

    place = units.starts + tf.gather(_bases(units.lengths), rows)
    return Words(
        first_of(rows),
        first_of(units.starts),
        last_of(units.ends),
        first_of(character),
        last_of(character) + 1,
    ), _Characters(tf.boolean_mask(place, inside), owner)


def find_pieces(
    texts: tf.Tensor,
    found: Words,
    characters: _Characters,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Do what `portable.find_pieces` of tagging does.

    Args:
        starts: int32 [batch, (pieces)], first byte of each piece in its text.
        ends: int32 [batch, (pieces)], last byte plus 1.

    Returns:
        int32 [words], the first piece of each word, counted over all texts,
        `NONE` for those without; bool [words], which of these go on.
    """
    bases = _bases(tf.strings.length(texts))
    base = tf.gather(bases, starts.value_rowids())
    start, end = starts.flat_values + base, ends.flat_values + base
    place = tf.concat([characters.place, [NONE]], 0)
    index = tf.searchsorted(characters.place, start)
    is_real = tf.gather(place, index) < end
    count = tf.size(found.row)
    owner = tf.gather(tf.concat([characters.word, [count]], 0), index)
    first = tf.math.unsorted_segment_min(
        tf.range(tf.size(start)), tf.where(is_real, owner, count), count + 1
    )[:count]
    begin = found.start + tf.gather(bases, found.row)
    before = tf.searchsorted(tf.boolean_mask(start, is_real), begin, "right")
    real_ends = tf.concat([[0], tf.boolean_mask(end, is_real)], 0)
    return first, (first == NONE) & (tf.gather(real_ends, before) > begin)
