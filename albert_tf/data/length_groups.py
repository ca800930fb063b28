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
        shortest: Sequence length of the shortest batches.
        mixes_equal: Whether examples that are padded to the same length stay
            in random order, so that those of equal texts are not in one batch.
    """

    shortest: int
    mixes_equal: bool = False

    def order(self, layout: layouts.Layout, serialized: tf.Tensor) -> tf.Tensor:
        """Return the indices of records, int32 [n], the shortest first."""
        sequence_lengths = record_lengths(layout, serialized)
        if self.mixes_equal:
            sequence_lengths = round_up(sequence_lengths, layout, self.shortest)
        return tf.argsort(sequence_lengths, stable=True)


def max_records(batch_size: int) -> int:
    """Return how many records a window has if the files hold enough."""
    return max(MIN_BATCHES, WINDOW_RECORDS // batch_size) * batch_size


def record_lengths(layout: layouts.Layout, serialized: tf.Tensor) -> tf.Tensor:
    """Return the length of the longest sequence of each record, int32 [n]."""
    names = "input_mask", "is_real_example"
    features = tuple(f for f in layout if f.name in names)
    return _longest_sequences(parsing.parse(features, serialized)["input_mask"])


def trim(batch: Batch, layout: layouts.Layout, shortest: int) -> Batch:
    """Remove common padding of a batch, down to an allowed length."""
    names = lengths.sequence_features(layout)
    longest = tf.reduce_max(_longest_sequences(batch["input_mask"]))
    length = round_up(longest[None], layout, shortest)[0]
    return {
        name: value[..., :length] if name in names else value
        for name, value in batch.items()
    }


def round_up(
    sequence_lengths: tf.Tensor, layout: layouts.Layout, shortest: int
) -> tf.Tensor:
    """Return the allowed length that each length is padded to, int32 [n]."""
    (mask,) = (f for f in layout if f.name == "input_mask")
    allowed = tf.constant(lengths.allowed(shortest, mask.shape[-1]))
    return tf.gather(allowed, tf.searchsorted(allowed, sequence_lengths))


def _longest_sequences(mask: tf.Tensor) -> tf.Tensor:
    """Return the longest sequence of each row of a mask [n, ..., S]."""
    sums = tf.reduce_sum(mask, -1)
    return tf.reduce_max(tf.reshape(sums, [tf.shape(mask)[0], -1]), 1)
