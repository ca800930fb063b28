"""Rows of several instances: short ones share a row, so there is less padding.

A row is a sequence of the batch. The records of a file are taken in windows, in
order. Those of a window are put into rows, the longest first, each into the row
with the least room that still holds it. A pass shuffles rows. So a file has the
same rows in every pass, and a restarted run finds its place by counting them.

Dimensions: B rows, S tokens of a row, P predictions of a row, K instances of a
row at most (`MAX_INSTANCES`), n instances of a batch.

Source: Krell et al., arXiv 2107.02027; best fit of the lengths in descending
order.
"""

import bisect
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data import drawing, layouts, parsing

# Records of a window. More do not fill rows better.
WINDOW_RECORDS = 1024
# Instances K in a row, at most. With 8, rows of 512 tokens of Chinese news held
# 2.46 on average, not 2.54.
MAX_INSTANCES = 16

Batch = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Packing:
    """How records are put into rows.

    Attributes:
        layout: The features of a record. A row has room for the tokens and
            predictions of one record in full length.
        masks: What will mask the records; None if they hold masks.
    """

    layout: layouts.Layout
    masks: drawing.Masks | None = None

    def pack(self, records: tf.data.Dataset) -> tf.data.Dataset:
        """Put the serialized records of a file into rows, string [K].

        A row has empty strings behind its last record.
        """

        def pack_window(serialized: tf.Tensor) -> tf.data.Dataset:
            instances = tf.numpy_function(
                pack_rows,
                [*self._count(serialized), *self._capacity],
                tf.int64,
                stateful=False,
            )
            instances = tf.ensure_shape(instances, [None, MAX_INSTANCES])
            with_empty = tf.concat([serialized, [""]], 0)
            return tf.data.Dataset.from_tensor_slices(
                tf.gather(with_empty, instances)
            )

        return records.batch(WINDOW_RECORDS).flat_map(pack_window)

    @property
    def _capacity(self) -> tuple[int, int]:
        """Most tokens S and predictions P of a row: those of a record."""
        shapes = {feature.name: feature.shape for feature in self.layout}
        if self.masks:
            return shapes["input_ids"][0], self.masks.masker.num_predictions
        return shapes["input_ids"][0], shapes["masked_lm_weights"][0]

    def _count(self, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Count tokens and predictions of each record, int64 [n] both."""
        names = "input_mask", "masked_lm_weights"
        features = tuple(f for f in self.layout if f.name in names)
        parsed = parsing.parse(features, serialized)
        lengths = tf.math.count_nonzero(parsed["input_mask"], 1)
        if self.masks is None:
            weights = parsed["masked_lm_weights"]
            return lengths, tf.math.count_nonzero(weights, 1)
        num_predictions = tf.numpy_function(
            self.masks.masker.most_predictions,
            [lengths],
            tf.int64,
            stateful=False,
        )
        return lengths, num_predictions


def pack_rows(
    lengths: np.ndarray,
    num_predictions: np.ndarray,
    max_length: int,
    max_predictions: int,
) -> np.ndarray:
    """Put instances into few rows: best fit, the longest first.

    Example:
        lengths = [60, 128, 50, 70, 8], max_length = 128, no predictions:
        rows [1], [3, 2, 4] and [0], each filled up with 5

    Args:
        lengths: int64 [n], tokens of each instance.
        num_predictions: int64 [n], masked positions of each instance.
        max_length: Tokens that a row has room for.
        max_predictions: Masked positions that a row has room for.

    Returns:
        int64 [rows, K], the indices of the instances of each row; n fills up.
    """
    rows: list[list[int]] = []  # Indices of the instances of each row.
    free_predictions: list[int] = []  # Of each row.
    open_rows: list[tuple[int, int]] = []  # Free tokens, row; ascending.
    for instance in np.argsort(-lengths, kind="stable").tolist():
        length, needed = int(lengths[instance]), int(num_predictions[instance])
        slot = bisect.bisect_left(open_rows, (length, 0))
        while (
            slot < len(open_rows)
            and free_predictions[open_rows[slot][1]] < needed
        ):
            slot += 1
        if slot < len(open_rows):
            free, row = open_rows.pop(slot)
        else:
            free, row = int(max_length), len(rows)
            rows.append([])
            free_predictions.append(int(max_predictions))
        rows[row].append(instance)
        free_predictions[row] -= needed
        if len(rows[row]) < MAX_INSTANCES:
            bisect.insort(open_rows, (free - length, row))
    padded_rows = np.full([len(rows), MAX_INSTANCES], len(lengths))
    for row, instances in enumerate(rows):
        padded_rows[row, : len(instances)] = instances
    return padded_rows


def join(
    serialized: tf.Tensor,
    layout: layouts.Layout,
    mask: Callable[[Batch, tf.Tensor], Batch] = lambda batch, _: batch,
) -> Batch:
    """Parse rows of records, and join the instances of each row.

    Example:
        Two instances of 3 and 2 tokens in a row of 6:
        input_ids    = [2, 11, 3, 2, 3, 0]
        instance_ids = [1, 1, 1, 2, 2, 0]
        position_ids = [0, 1, 2, 0, 1, 0]
        cls_positions = [0, 3, 0, ...], one entry for each of K slots

    Args:
        serialized: string [B, K], from `Packing.pack`.
        mask: (instances, int64 [n]: row * K + slot in the row) to instances
            with predictions. Default: the records hold them.

    Returns:
        `input_ids`, `segment_ids`, `instance_ids` (from 1; 0 is padding) and
        `position_ids` int32 [B, S]; `masked_lm_positions` and `masked_lm_ids`
        int32, `masked_lm_weights` float32 [B, P]; `cls_positions` and
        `next_sentence_labels` int32 [B, K], the latter `NO_LABEL` where there
        is no instance; `is_real_example` int32 [B], all 1.
    """
    indices = tf.where(serialized != "")  # [n, 2]
    batch = parsing.parse(layout, tf.gather_nd(serialized, indices))
    batch = mask(batch, indices[:, 0] * MAX_INSTANCES + indices[:, 1])
    return _join_instances(batch, _Slots(indices, serialized.shape[0]))


def _join_instances(batch: Batch, slots: "_Slots") -> Batch:
    """Move the instances [n, S] of a batch into rows [B, S]; see `join`."""
    predicted = batch["masked_lm_weights"] > 0
    real = batch["input_mask"] > 0
    lengths = slots.scatter(tf.reduce_sum(batch["input_mask"], 1))
    is_used = tf.cast(lengths > 0, tf.int32)
    starts = tf.cumsum(lengths, 1, exclusive=True) * is_used
    offsets = tf.gather_nd(starts, slots.indices)[:, None]
    positions = tf.range(real.shape[1])[None]
    instances = tf.cast(slots.indices[:, 1:], tf.int32) + 1
    # Shifted so that NO_LABEL is 0, which `scatter` fills empty slots with.
    labels = batch["next_sentence_labels"][:, 0] - layouts.NO_LABEL
    join_rows = slots.join_rows
    return {
        "input_ids": join_rows(batch["input_ids"], real),
        "segment_ids": join_rows(batch["segment_ids"], real),
        "instance_ids": join_rows(instances + 0 * positions, real),
        "position_ids": join_rows(0 * instances + positions, real),
        "masked_lm_positions": join_rows(
            batch["masked_lm_positions"] + offsets, predicted
        ),
        "masked_lm_ids": join_rows(batch["masked_lm_ids"], predicted),
        "masked_lm_weights": join_rows(batch["masked_lm_weights"], predicted),
        "cls_positions": starts,
        "next_sentence_labels": slots.scatter(labels) + layouts.NO_LABEL,
        "is_real_example": tf.ones([slots.rows], tf.int32),
    }


class _Slots(NamedTuple):
    """The row of each instance of a batch, and its slot in the row."""

    indices: tf.Tensor  # int64 [n, 2], row and slot, ascending.
    rows: int  # The number B of rows.

    def scatter(self, values: tf.Tensor) -> tf.Tensor:
        """Return values [n] as [B, K]; 0 where there is no instance."""
        shape = [self.rows, MAX_INSTANCES]
        return tf.scatter_nd(self.indices, values, shape)

    def join_rows(self, values: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
        """Concatenate the chosen values of each row: [n, W] to [B, W].

        The instances of a row follow each other, then zeros; `chosen` is bool
        [n, W], such as False for padding.
        """
        counts = self.scatter(tf.math.count_nonzero(chosen, 1))
        ragged = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(values, chosen), tf.reduce_sum(counts, 1)
        )
        return ragged.to_tensor(shape=[self.rows, chosen.shape[1]])
