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
    one = tf.ones_like(kept_first)
    cls, sep = _markers(cls_id, one), _markers(sep_id, one)
    front = tf.concat([cls, head(first, kept_first), sep], axis=1)
    last_sep = _markers(sep_id, tf.cast(kept_second > 0, tf.int64))
    back = tf.concat([head(second, kept_second), last_sep], axis=1)
    ids = tf.concat([front, back], axis=1)
    segment_ids = [tf.zeros_like(front), tf.ones_like(back)]
    rows = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.concat(segment_ids, axis=1),
    }
    shape = _shape_of(ids)
    return {name: row.to_tensor(shape=shape) for name, row in rows.items()}


def _shape_of(rows: tf.RaggedTensor) -> tf.Tensor:
    """Return that of padded rows: one column at least, also without rows."""
    lengths = tf.concat([[1], rows.row_lengths()], 0)
    return tf.stack([-1, tf.reduce_max(lengths)])


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
    positions = tf.ragged.range(segment.row_lengths())
    return tf.ragged.boolean_mask(segment, positions < lengths[:, tf.newaxis])


def _markers(id_: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Return rows with `counts` (0 or 1) times the same id."""
    values = tf.fill([tf.reduce_sum(counts)], tf.constant(id_, tf.int32))
    return tf.RaggedTensor.from_row_lengths(values, counts)
