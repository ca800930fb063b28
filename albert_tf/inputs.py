"""TFRecord files to batches for training and evaluation.

The batches are a pure function of files, seed and step: a restarted run skips
the records it has already seen and goes on with the same ones.
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf import records

# Files read at the same time; their records are taken in turn.
INTERLEAVED_FILES = 16
# Records held back for shuffling. Those of a dupe_factor lie in one shuffled
# file, so a few thousand mix well.
SHUFFLE_BUFFER = 10_000

Batch = dict[str, tf.Tensor]


def training_dataset(
    paths: Sequence[str],
    layout: records.Layout,
    batch_size: int,
    *,
    seed: int,
    first_step: int = 0,
) -> tf.data.Dataset:
    """Endless, shuffled batches of `batch_size` examples.

    Args:
        paths: TFRecord files.
        layout: Layout of their records.
        batch_size: Examples per batch, over all replicas.
        seed: Decides the order, anew in every pass over the files.
        first_step: Batches to leave out at the beginning.
    """
    files = tf.data.Dataset.from_tensor_slices(list(paths))
    files = files.shuffle(len(paths), seed=seed)
    dataset = files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=INTERLEAVED_FILES,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    dataset = dataset.shuffle(SHUFFLE_BUFFER, seed=seed).repeat()
    dataset = dataset.skip(first_step * batch_size)
    dataset = dataset.batch(batch_size, drop_remainder=True)
    return _finish(dataset, layout, batch_size)


def evaluation_dataset(
    paths: Sequence[str],
    layout: records.Layout,
    batch_size: int,
    max_batches: int | None = None,
) -> tf.data.Dataset:
    """All examples once, in file order; the last batch is filled with zeros.

    Args:
        paths: TFRecord files.
        layout: Layout of their records.
        batch_size: Examples per batch, over all replicas.
        max_batches: Stop after so many batches; None for all.
    """
    dataset = tf.data.TFRecordDataset(list(paths)).batch(batch_size)
    if max_batches is not None:
        dataset = dataset.take(max_batches)
    return _finish(dataset, layout, batch_size)


def _finish(
    dataset: tf.data.Dataset, layout: records.Layout, batch_size: int
) -> tf.data.Dataset:
    """Parse batches of serialized examples and give them a static shape."""
    dataset = dataset.map(
        lambda serialized: _pad(records.parse(layout, serialized), batch_size),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    options = tf.data.Options()
    # Every worker reads all files and keeps its part of each batch, so that the
    # order of examples does not depend on the number of workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def _pad(batch: Batch, batch_size: int) -> Batch:
    """Fill up a batch with zeros and mark which examples are real.

    Adds `is_real_example` int32 [batch] where the records do not bring it:
    1 for examples of the file, 0 for filling. Every sum leaves filling out.
    """
    size = tf.shape(batch["input_ids"])[0]
    batch = {"is_real_example": tf.ones([size], tf.int32), **batch}
    padded = {}
    for name, value in batch.items():
        widths = [[0, batch_size - size]] + [[0, 0]] * (value.shape.rank - 1)
        padded[name] = tf.ensure_shape(
            tf.pad(value, widths), [batch_size, *value.shape[1:]]
        )
    return padded
