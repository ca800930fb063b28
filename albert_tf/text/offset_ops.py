"""Offsets of cleaned text in the original text, as TensorFlow operations.

Texts are cut into units that are cleaned separately, so every byte of the
cleaned text has an offset in the original text. offsets.py has the same
functions in Python.
"""

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text

from albert_tf.text import text_ops

# Where parts of texts begin and end in the original, int32 [batch, (parts)].
Ranges = tuple[tf.RaggedTensor, tf.RaggedTensor]


class TextParts(NamedTuple):
    """The parts of texts that are cleaned separately, concatenated.

    Attributes:
        texts: string [units].
        starts: int32 [units], first byte in the text.
        ends: int32 [units], last byte plus 1.
        rows: int64 [units], number of the text.
        lengths: int32 [batch], bytes of the texts.
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    rows: tf.Tensor
    lengths: tf.Tensor

    def sources(self, widths: tf.Tensor) -> Ranges:
        """Return where each byte of the cleaned texts comes from.

        `widths`, int32 [units], are the bytes that each unit becomes.
        """
        rows = tf.repeat(self.rows, widths)
        starts, ends = (
            tf.RaggedTensor.from_value_rowids(
                tf.repeat(edges, widths),
                rows,
                tf.size(self.lengths, tf.int64),
                validate=False,
            )
            for edges in (self.starts, self.ends)
        )
        return starts, ends

    def each(self, function: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        """Apply a function to every unit; equal units are computed once."""
        different, index = tf.unique(self.texts)
        return tf.gather(function(different), index)


def to_characters(texts: tf.Tensor) -> TextParts:
    """Cut texts into characters; one that is not UTF-8 becomes U+FFFD."""
    characters, starts = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
    starts, rows = tf.cast(starts.values, tf.int32), characters.value_rowids()
    lengths = tf.strings.length(texts)
    is_last = tf.concat([is_first(rows)[1:], [True]], 0)[: tf.size(rows)]
    following = tf.concat([starts[1:], [0]], 0)[: tf.size(rows)]
    ends = tf.where(is_last, tf.gather(lengths, rows), following)
    return TextParts(characters.values, starts, ends, rows, lengths)


def to_composed_units(texts: tf.Tensor) -> TextParts:
    """Do what `offsets._composed_units` does, for many texts.

    A character belongs to the unit before it if the composed text (NFKC) has no
    boundary between them. Boundaries are compared in the decomposed text, which
    is the same for both.
    """
    characters = to_characters(texts)
    whole = tensorflow_text.normalize_utf8(text_ops.valid_utf8(texts), "NFKC")
    composed = to_characters(whole)
    place = tf.cumsum(characters.each(_decomposed_length), exclusive=True)
    edges = tf.cumsum(composed.each(_decomposed_length), exclusive=True)
    edges = tf.concat([edges, [-1]], 0)
    is_edge = tf.gather(edges, tf.searchsorted(edges[:-1], place)) == place
    is_mark = characters.each(text_ops.matches(unicodedata.combining))
    # Two Japanese marks become combining characters when decomposed.
    may_move = characters.each(text_ops.matches(_begins_with_mark))
    is_free = is_edge & ~is_mark & ~(may_move & previous(may_move))
    after_space = previous(characters.each(text_ops.matches(str.isspace)))
    begins = is_first(characters.rows) | after_space | is_free
    unit = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    parts = tf.RaggedTensor.from_value_rowids(characters.texts, unit)
    return TextParts(
        tf.strings.reduce_join(parts, axis=-1),
        tf.boolean_mask(characters.starts, begins),
        tf.math.segment_max(characters.ends, unit),
        tf.boolean_mask(characters.rows, begins),
        characters.lengths,
    )


def _begins_with_mark(character: str) -> int:
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0])


def _decomposed_length(texts: tf.Tensor) -> tf.Tensor:
    decomposed = tensorflow_text.normalize_utf8(texts, "NFKD")
    return tf.strings.length(decomposed, unit="UTF8_CHAR")


def kept_spaces(units: TextParts, is_plain: tf.Tensor) -> tf.Tensor:
    """Choose one unit of each run of white space inside a text.

    Source: `offsets._collapse_widths`.

    Args:
        is_plain: bool [units], which of them become a plain space; the first
            one of a run is chosen, else the first unit of the run.

    Returns:
        bool [units].
    """
    is_space = units.each(text_ops.matches(str.isspace))
    begins_text = is_first(units.rows)
    ends_text = tf.concat([begins_text[1:], [True]], 0)[: tf.size(is_space)]
    begins_run = is_space & (begins_text | ~previous(is_space))
    run = tf.cumsum(tf.cast(begins_run, tf.int32))
    total = tf.size(run)
    rank = tf.range(total) + tf.where(is_plain, 0, total)
    rank = tf.where(is_space, rank, tf.int32.max)
    best = tf.math.unsorted_segment_min(rank, run, total + 1)
    at_edge = tf.cast(is_space & (begins_text | ends_text), tf.int32)
    touches = tf.math.unsorted_segment_max(at_edge, run, total + 1) > 0
    is_best = is_space & (tf.gather(best, run) == rank)
    return is_best & ~tf.gather(touches, run)


def is_first(rows: tf.Tensor) -> tf.Tensor:
    """Tell which entries begin a row, given the sorted numbers of rows."""
    return tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(rows)]


def previous(values: tf.Tensor, first: int | bool = False) -> tf.Tensor:
    """Return the value before each; `first` before the first one."""
    return tf.concat([[first], values], 0)[:-1]


def join_ranges(
    lengths: tf.RaggedTensor, ranges: Ranges, text_lengths: tf.Tensor
) -> Ranges:
    """Join the ranges of parts to those of pieces.

    Args:
        lengths: int32 [batch, (pieces)], how many parts each piece has.
        ranges: Those of the parts.
        text_lengths: int32 [batch], the position of a piece without parts at
            the end of a text.
    """
    starts, ends = (with_last(edges, text_lengths) for edges in ranges)
    sums = tf.reduce_sum(lengths, -1)
    before = tf.gather(tf.cumsum(sums) - sums, lengths.value_rowids())
    # The running totals of each row.
    stop = lengths.with_flat_values(tf.cumsum(lengths.flat_values) - before)
    begin = stop.with_flat_values(stop.flat_values - lengths.flat_values)
    start = entries_at(starts, begin)
    last = entries_at(ends, stop - 1)
    end = tf.where(lengths.flat_values == 0, start, last)
    return lengths.with_flat_values(start), lengths.with_flat_values(end)


def with_last(rows: tf.RaggedTensor, last: tf.Tensor) -> tf.RaggedTensor:
    """Append one entry to each row."""
    splits = rows.row_splits
    more = tf.range(tf.size(splits, splits.dtype))  # Entries before each row.
    place = tf.range(tf.size(rows.values, splits.dtype))
    place += tf.gather(more, rows.value_rowids())
    values = tf.dynamic_stitch(
        [tf.cast(at, tf.int32) for at in (place, splits[1:] + more[:-1])],
        [rows.values, last],
    )
    return tf.RaggedTensor.from_row_splits(
        values, splits + more, validate=False
    )


def entries_at(rows: tf.RaggedTensor, places: tf.RaggedTensor) -> tf.Tensor:
    """Return `rows[i][places[i]]`, or the nearest entry, int32 [all places].

    Rows have one entry or more.
    """
    row = places.value_rowids()
    last = tf.cast(rows.row_lengths() - 1, tf.int32)
    place = tf.clip_by_value(places.flat_values, 0, tf.gather(last, row))
    first = tf.cast(rows.row_starts(), tf.int32)
    return tf.gather(rows.flat_values, tf.gather(first, row) + place)
