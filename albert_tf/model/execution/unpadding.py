"""A batch without padding, for serving: one row for each real token.

Most of an encoder treats every position alike, so it can work on a matrix with
one row for each real token: 64 sentences of mixed length take 1.22 s; OpenVINO,
which computes at padding, takes 1.94 s. Only attention must know which rows
form a sequence; it converts to [B, N, S, D], with padding, and back.

Dimensions are those of `network.encoder`; R is the number of rows.
"""

import tensorflow as tf


class Unpadding:
    """Which positions of a batch are kept, sequence after sequence.

    The first position of a sequence is kept always, even if the sequence is all
    padding: other positions without a row read its row in attention.

    Example:
        With kept [[1, 1, 0], [1, 1, 1]] the positions 0, 1, 3, 4 and 5 of
        the six have a row; position 2 reads the row of position 0.
    """

    def __init__(self, kept: tf.Tensor, heads: int):
        """Find out which rows and which parts of rows to gather.

        `kept` is int32 [B, S], 1 where a position is kept. A row of queries,
        keys and values has 3 * N parts of D numbers, a row of the context N.
        """
        self._heads = heads
        self._shape = tf.shape(kept)
        is_first = tf.range(self._shape[1]) == 0
        has_row = tf.cast(kept, tf.bool) | is_first
        # [R], the position of each row in the batch.
        self._positions = tf.where(tf.reshape(has_row, [-1]))[:, 0]
        row_ids = tf.cumsum(tf.reshape(tf.cast(has_row, tf.int32), [-1])) - 1
        row_ids = tf.reshape(row_ids, self._shape)
        # [B, S], the row that each position reads; padding reads the first.
        rows = tf.where(has_row, row_ids, row_ids[:, :1])
        part_offsets = tf.reshape(tf.range(3 * heads), [3, 1, heads, 1])
        # [3, B, N, S], the part that each position of a head reads.
        self._split = rows[:, None, :] * (3 * heads) + part_offsets
        length = tf.cast(self._shape[1], tf.int64)
        before = self._positions // length * (heads - 1) * length
        head_starts = tf.range(heads, dtype=tf.int64) * length
        # [R, N], the parts of context [B, N, S, D] that form each row.
        self._merged = (self._positions + before)[:, None] + head_starts

    def unpad(self, x: tf.Tensor) -> tf.Tensor:
        """Return the rows [R, W] of x [B, S, W]."""
        return tf.gather(tf.reshape(x, [-1, x.shape[-1]]), self._positions)

    def pad(self, rows: tf.Tensor) -> tf.Tensor:
        """Return [B, S, W] of rows [R, W]; positions without one are 0."""
        width = rows.shape[-1]
        count = tf.cast(tf.reduce_prod(self._shape), tf.int64)
        flat = tf.scatter_nd(self._positions[:, None], rows, [count, width])
        return tf.reshape(flat, tf.concat([self._shape, [width]], 0))

    def choose(self, rows: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
        """Return the rows, of [R, W], of the sequences `chosen`, bool [B]."""
        length = tf.cast(self._shape[1], tf.int64)
        is_chosen = tf.gather(chosen, self._positions // length)
        return tf.boolean_mask(rows, is_chosen)

    def split(self, rows: tf.Tensor) -> list[tf.Tensor]:
        """Return query, key and value [B, N, S, D] of rows [R, 3 * N * D]."""
        size = rows.shape[-1] // (3 * self._heads)
        parts = tf.reshape(rows, [-1, size])
        return tf.unstack(tf.gather(parts, self._split))

    def merge(self, context: tf.Tensor) -> tf.Tensor:
        """Return the rows [R, N * D] of context [B, N, S, D]."""
        size = context.shape[3]
        merged = tf.gather(tf.reshape(context, [-1, size]), self._merged)
        return tf.reshape(merged, [-1, self._heads * size])
