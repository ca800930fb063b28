"""Batches of examples that are about equally long, with little padding.

Examples are taken in windows of several batches. Those of a window are sorted
by length and divided into batches, and each batch is padded to the shortest
allowed length that holds its longest example. There are few allowed lengths, so
that few shapes are compiled.

Everything follows from the order of the records, the seed and the number of the
window. So a restarted run continues with the same batches, and batches do not
depend on the number of replicas.
"""

import tensorflow as tf

from albert_tf.data import layouts, lengths, parsing

# A window has about so many records, but at least MIN_BATCHES batches, and not
# more than there are.
WINDOW_RECORDS = 4096
MIN_BATCHES = 8

Batch = dict[str, tf.Tensor]


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
    allowed = tf.constant(
        lengths.allowed(shortest, batch["input_mask"].shape[-1])
    )
    longest = tf.reduce_max(_lengths(batch["input_mask"]))
    length = allowed[tf.searchsorted(allowed, longest[None])[0]]
    return {
        name: value[..., :length] if name in names else value
        for name, value in batch.items()
    }


def _lengths(mask: tf.Tensor) -> tf.Tensor:
    """Return the longest sequence of each row of a mask [n, ..., S]."""
    sums = tf.reduce_sum(mask, -1)
    return tf.reduce_max(tf.reshape(sums, [tf.shape(mask)[0], -1]), 1)
