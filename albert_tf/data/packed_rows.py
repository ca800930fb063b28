"""Rows of several instances: short ones share a row, so there is less padding.

The records of a file are taken in windows, in order. Those of a window are put
into rows, the longest first, each into the row with the least room that still
holds it. A pass shuffles rows. So a file has the same rows in every pass, and a
restarted run finds its place by counting them.

Dimensions: B rows, S tokens of a row, P predictions of a row, K instances of a
row, n instances of a batch.

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

    def rows(self, records: tf.data.Dataset) -> tf.data.Dataset:
        """Put the serialized records of a file into rows, string [K].

        Behind the last one there are empty strings.
        """

        def divide(serialized: tf.Tensor) -> tf.data.Dataset:
            numbers = tf.numpy_function(
                plan,
                [*self._sizes(serialized), *self._capacity],
                tf.int64,
                stateful=False,
            )
            numbers = tf.ensure_shape(numbers, [None, MAX_INSTANCES])
            padded = tf.concat([serialized, [""]], 0)
            return tf.data.Dataset.from_tensor_slices(
                tf.gather(padded, numbers)
            )

        return records.batch(WINDOW_RECORDS).flat_map(divide)

    @property
    def _capacity(self) -> tuple[int, int]:
        """Tokens S and predictions P of a row: those of a record."""
        shapes = {feature.name: feature.shape for feature in self.layout}
        if self.masks:
            return shapes["input_ids"][0], self.masks.masker.num_predictions
        return shapes["input_ids"][0], shapes["masked_lm_weights"][0]

    def _sizes(self, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return tokens and predictions of each record, int64 [n] both."""
        names = "input_mask", "masked_lm_weights"
        features = tuple(f for f in self.layout if f.name in names)
        parsed = parsing.parse(features, serialized)
        tokens = tf.math.count_nonzero(parsed["input_mask"], 1)
        if self.masks is None:
            return tokens, tf.math.count_nonzero(parsed["masked_lm_weights"], 1)
        predictions = tf.numpy_function(
            self.masks.masker.most_predictions,
            [tokens],
            tf.int64,
            stateful=False,
        )
        return tokens, predictions


def plan(
    tokens: np.ndarray,
    predictions: np.ndarray,
    max_tokens: int,
    max_predictions: int,
) -> np.ndarray:
    """Divide instances among rows.

    Example:
        tokens = [60, 128, 50, 70, 8], rows of 128 tokens, no predictions:
        [1], [3, 2, 4] and [0]; an unused place of a row holds 5

    Args:
        tokens: int64 [n], of each instance.
        predictions: int64 [n].

    Returns:
        int64 [rows, K], numbers of instances; n for a place without one.
    """
    rows: list[list[int]] = []  # Numbers of the instances of each row.
    free_predictions: list[int] = []  # Of each row.
    room: list[tuple[int, int]] = []  # Free tokens, and the row; ascending.
    for number in np.argsort(-tokens, kind="stable").tolist():
        length, masked = int(tokens[number]), int(predictions[number])
        place = bisect.bisect_left(room, (length, 0))
        while place < len(room) and free_predictions[room[place][1]] < masked:
            place += 1
        if place < len(room):
            free, row = room.pop(place)
        else:
            free, row = int(max_tokens), len(rows)
            rows.append([])
            free_predictions.append(int(max_predictions))
        rows[row].append(number)
        free_predictions[row] -= masked
        if len(rows[row]) < MAX_INSTANCES:
            bisect.insort(room, (free - length, row))
    numbers = np.full([len(rows), MAX_INSTANCES], len(tokens))
    for row, members in enumerate(rows):
        numbers[row, : len(members)] = members
    return numbers


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
        cls_positions = [0, 3, 0, ...], one entry for each of K places

    Args:
        serialized: string [B, K], from `Packing.rows`.
        mask: (instances, int64 [n]: row * K + place in the row) to instances
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
    return _join_instances(batch, _Places(indices, serialized.shape[0]))


def _join_instances(batch: Batch, places: "_Places") -> Batch:
    hidden = batch["masked_lm_weights"] > 0
    real = batch["input_mask"] > 0
    used = places.scatter(tf.reduce_sum(batch["input_mask"], 1))
    starts = tf.cumsum(used, 1, exclusive=True) * tf.cast(used > 0, tf.int32)
    offsets = tf.gather_nd(starts, places.indices)[:, None]
    columns = tf.range(real.shape[1])[None]
    instances = tf.cast(places.indices[:, 1:], tf.int32) + 1
    # Shifted so that NO_LABEL is 0, which `scatter` gives places without one.
    labels = batch["next_sentence_labels"][:, 0] - layouts.NO_LABEL
    join_rows = places.join_rows
    return {
        "input_ids": join_rows(batch["input_ids"], real),
        "segment_ids": join_rows(batch["segment_ids"], real),
        "instance_ids": join_rows(instances + 0 * columns, real),
        "position_ids": join_rows(0 * instances + columns, real),
        "masked_lm_positions": join_rows(
            batch["masked_lm_positions"] + offsets, hidden
        ),
        "masked_lm_ids": join_rows(batch["masked_lm_ids"], hidden),
        "masked_lm_weights": join_rows(batch["masked_lm_weights"], hidden),
        "cls_positions": starts,
        "next_sentence_labels": places.scatter(labels) + layouts.NO_LABEL,
        "is_real_example": tf.ones([places.rows], tf.int32),
    }


class _Places(NamedTuple):
    """Where the instances of a batch are."""

    indices: tf.Tensor  # int64 [n, 2], row and place in it, ascending.
    rows: int  # Their number B.

    def scatter(self, values: tf.Tensor) -> tf.Tensor:
        """Return values [n] as [B, K]; 0 where there is no instance."""
        shape = [self.rows, MAX_INSTANCES]
        return tf.scatter_nd(self.indices, values, shape)

    def join_rows(self, values: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
        """Return the chosen values of [n, W], row by row, [B, W].

        A row begins with those of its first instance and ends with zeros.
        """
        counts = self.scatter(tf.math.count_nonzero(chosen, 1))
        ragged = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(values, chosen), tf.reduce_sum(counts, 1)
        )
        return ragged.to_tensor(shape=[self.rows, chosen.shape[1]])
