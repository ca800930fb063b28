"""TensorFlow operations that pack pieces into the inputs of the model.

The exported services use them between tokenizer and model.
"""

from collections.abc import Sequence

import tensorflow as tf


def pack_inputs(
    segments: Sequence[tf.RaggedTensor],
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, tf.Tensor]:
    """Make the inputs of the model from one or two segments.

    `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`. What does not fit
    is cut, see `_kept_lengths`. Rows whose second segment is empty then take
    the form of one segment. Rows are padded with 0 to the longest of the batch.

    Source: the original's classifier_utils.convert_single_example.

    Example, with cls_id 2, sep_id 3, max_seq_length 7:
        segments    [[[11, 12, 13], [14]], [[21, 22], []]]
        input_ids   [[2, 11, 12, 3, 21, 22, 3], [2, 14, 3, 0, 0, 0, 0]]
        input_mask  [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
        segment_ids [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]

    Args:
        segments: One or two int32 [batch, (pieces)] without special pieces.
        max_seq_length: Longest row, in pieces, special ones included; above 3.

    Returns:
        `input_ids`, `input_mask` (1 for a piece, 0 for padding) and
        `segment_ids` (1 for the second segment and its `[SEP]`, 0 elsewhere),
        int32 [batch, longest].
    """
    first = segments[0]
    second = segments[1] if len(segments) == 2 else first[:, :0]
    kept_first, kept_second = _kept_lengths(
        first.row_lengths(),
        second.row_lengths(),
        budget=max_seq_length - 2 - tf.cast(second.row_lengths() > 0, tf.int64),
    )
    front = kept_first + 2
    length = front + kept_second + tf.cast(kept_second > 0, tf.int64)
    # One column at least, also without rows.
    position = tf.range(tf.reduce_max(tf.concat([[1], length], 0)))
    # TensorFlow loses the rank of texts in parts, and would warn of it.
    front, length = tf.reshape(front, [-1, 1]), tf.reshape(length, [-1, 1])
    is_piece = position < length
    is_back = is_piece & (position >= front)
    ids = tf.where(
        is_back, _pieces(second, position - front), _pieces(first, position - 1)
    )
    ids = tf.where(position == 0, cls_id, ids)
    is_sep = (position == front - 1) | (position == length - 1)
    ids = tf.where(is_sep, sep_id, ids)
    return {
        "input_ids": tf.where(is_piece, ids, 0),
        "input_mask": tf.cast(is_piece, tf.int32),
        "segment_ids": tf.cast(is_back, tf.int32),
    }


def _pieces(segment: tf.RaggedTensor, columns: tf.Tensor) -> tf.Tensor:
    """Return the pieces in some columns of each row; any where it has none.

    Args:
        columns: int64 [batch or 1, columns].
    """
    values = tf.concat([segment.values, [0]], 0)
    index = tf.reshape(segment.row_starts(), [-1, 1]) + columns
    last = tf.size(segment.values, tf.int64)
    return tf.gather(values, tf.clip_by_value(index, 0, last))


def _kept_lengths(
    length_a: tf.Tensor, length_b: tf.Tensor, budget: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lengths of two segments after truncation.

    The result is that of dropping the last piece of the longer segment, or of
    the second one if both are equally long, until both fit.

    Source: the original's classifier_utils._truncate_seq_pair.

    Example:
        lengths 7 and 2, budget 6 -> 4 and 2
        lengths 7 and 6, budget 5 -> 3 and 2

    All are int64 [batch].
    """
    half = budget // 2
    room_a = tf.where(length_b <= half, budget - length_b, budget - half)
    kept_a = tf.minimum(length_a, room_a)
    return kept_a, tf.minimum(length_b, budget - kept_a)


def head(segment: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Keep the first `lengths` (int64 [batch]) pieces of each row."""
    # The values are masked, not the rows: comparing these takes 300 operations.
    position = tf.ragged.range(segment.row_lengths()).values
    is_kept = position < tf.gather(lengths, segment.value_rowids())
    return tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(segment.values, is_kept),
        tf.minimum(lengths, segment.row_lengths()),
        validate=False,
    )
