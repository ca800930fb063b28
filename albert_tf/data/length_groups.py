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


def shuffled_batches(
    windows: tf.data.Dataset,
    layout: layouts.Layout,
    count: int,
    seed: int,
    first_step: int,
) -> tf.data.Dataset:
    """Divide the records of each window into batches, in random order.

    Args:
        windows: Serialized records, string [count * batch_size], endless, from
            the window of `first_step` on.

    Returns:
        Serialized records, string [batch_size], from batch `first_step` on.
    """
    first_window, done = divmod(first_step, count)
    shape = [count, windows.element_spec.shape[0] // count]

    def divide(number: tf.Tensor, serialized: tf.Tensor) -> tf.data.Dataset:
        by_length = tf.argsort(record_lengths(layout, serialized), stable=True)
        rows = tf.reshape(by_length, shape)
        draws = tf.random.stateless_uniform([count], [seed, number])
        rows = tf.gather(rows, tf.argsort(draws, stable=True))
        return tf.data.Dataset.from_tensor_slices(tf.gather(serialized, rows))

    return windows.enumerate(first_window).flat_map(divide).skip(done)


def sorted_batches(
    records: tf.data.Dataset, layout: layouts.Layout, batch_size: int
) -> tf.data.Dataset:
    """Divide the records of each window into batches, the longest first.

    Returns:
        Numbers of the records, int64 [batch], and the serialized records,
        string [batch]; the last batch may be smaller.
    """
    size = max_records(batch_size)

    def sort(numbers: tf.Tensor, serialized: tf.Tensor) -> tf.data.Dataset:
        sizes = record_lengths(layout, serialized)
        order = tf.argsort(sizes, direction="DESCENDING", stable=True)
        ordered = tf.gather(numbers, order), tf.gather(serialized, order)
        return tf.data.Dataset.from_tensor_slices(ordered)

    return records.enumerate().batch(size).flat_map(sort).batch(batch_size)


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
