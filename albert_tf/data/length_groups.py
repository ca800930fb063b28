"""Batches of examples that are about equally long, with little padding.

Examples are taken in windows of several batches. Those of a window are sorted
by length and divided into batches, and each batch is padded to the shortest
allowed length that holds its longest example. There are few allowed lengths, so
that few shapes are compiled.

Everything follows from the order of the records, the seed and the number of the
window. So a restarted run continues with the same batches, and batches do not
depend on the number of replicas.
"""

import dataclasses

import tensorflow as tf

from albert_tf.data import layouts, lengths, parsing

# A window has about so many records, but at least MIN_BATCHES batches, and not
# more than there are.
WINDOW_RECORDS = 4096
MIN_BATCHES = 8

Batch = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Grouping:
    """How examples of a window come into batches.

    Attributes:
        shortest: Tokens of the shortest batches.
        mixes_equal: Whether those that are padded to the same length stay in
            their random order, so that examples of equal texts do not gather.
    """

    shortest: int
    mixes_equal: bool = False

    def order(self, layout: layouts.Layout, serialized: tf.Tensor) -> tf.Tensor:
        """Return the numbers of records, int32 [n], the shortest first."""
        tokens = record_lengths(layout, serialized)
        if self.mixes_equal:
            tokens = padded(tokens, layout, self.shortest)
        return tf.argsort(tokens, stable=True)


def max_records(batch_size: int) -> int:
    """Return how many records a window has if the files hold enough."""
    return max(MIN_BATCHES, WINDOW_RECORDS // batch_size) * batch_size


def record_lengths(layout: layouts.Layout, serialized: tf.Tensor) -> tf.Tensor:
    """Return the tokens of the longest sequence of each record, int32 [n]."""
    names = "input_mask", "is_real_example"
    mask = tuple(f for f in layout if f.name in names)
    return _lengths(parsing.parse(mask, serialized)["input_mask"])


def trim(batch: Batch, layout: layouts.Layout, shortest: int) -> Batch:
    """Cut padding that all sequences of a batch have."""
    names = lengths.sequence_features(layout)
    longest = tf.reduce_max(_lengths(batch["input_mask"]))
    length = padded(longest[None], layout, shortest)[0]
    return {
        name: value[..., :length] if name in names else value
        for name, value in batch.items()
    }


def padded(
    tokens: tf.Tensor, layout: layouts.Layout, shortest: int
) -> tf.Tensor:
    """Return what lengths are padded to, int32 [n]."""
    (mask,) = (f for f in layout if f.name == "input_mask")
    allowed = tf.constant(lengths.allowed(shortest, mask.shape[-1]))
    return tf.gather(allowed, tf.searchsorted(allowed, tokens))


def _lengths(mask: tf.Tensor) -> tf.Tensor:
    """Return the longest sequence of each row of a mask [n, ..., S]."""
    sums = tf.reduce_sum(mask, -1)
    return tf.reduce_max(tf.reshape(sums, [tf.shape(mask)[0], -1]), 1)
