"""TFRecord files to batches for training and evaluation.

The batches are a pure function of files, seed and step. A restarted run leaves
out the passes it has finished, skips the records of the present one that it has
seen, and goes on with the same ones.
"""

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf import masking, random_streams, records

# Files read at the same time; their records are taken in turn.
INTERLEAVED_FILES = 16
# Records held back for shuffling. Those of a dupe_factor lie in one shuffled
# file, so a few thousand mix well.
SHUFFLE_BUFFER = 10_000

# Between the seeds of two passes.
_SEEDS = 2**31

# What keys of masks are for.
_TRAINING, _EVALUATION = range(2)

Batch = dict[str, tf.Tensor]


def training_dataset(
    paths: Sequence[str],
    layout: records.Layout,
    batch_size: int,
    *,
    seed: int,
    first_step: int = 0,
    masker: masking.Masker | None = None,
) -> tf.data.Dataset:
    """Endless, shuffled batches of `batch_size` examples.

    Args:
        paths: TFRecord files.
        layout: Layout of their records.
        batch_size: Examples per batch, over all replicas.
        seed: Decides the order, anew in every pass over the files.
        first_step: Batches to leave out at the beginning.
        masker: Hides pieces of records that hold no masks, anew in every pass.
    """

    def one_pass(number: tf.Tensor) -> tf.data.Dataset:
        own = number * _SEEDS + seed
        files = tf.data.Dataset.from_tensor_slices(list(paths))
        files = files.shuffle(len(paths), own, reshuffle_each_iteration=False)
        dataset = files.interleave(
            _open,
            cycle_length=INTERLEAVED_FILES,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return dataset.shuffle(
            SHUFFLE_BUFFER, own, reshuffle_each_iteration=False
        )

    passes, seen = 0, first_step * batch_size
    if seen:
        passes, seen = divmod(seen, count_examples(paths))
    dataset = tf.data.Dataset.range(passes, tf.int64.max).flat_map(one_pass)
    dataset = dataset.skip(seen).batch(batch_size, drop_remainder=True)
    dataset = dataset.enumerate(first_step)
    key = random_streams.derive(0, _TRAINING, seed)
    return _finish(dataset, layout, batch_size, masker, key)


def evaluation_dataset(
    paths: Sequence[str],
    layout: records.Layout,
    batch_size: int,
    max_batches: int | None = None,
    *,
    seed: int = 0,
    masker: masking.Masker | None = None,
) -> tf.data.Dataset:
    """All examples once, in file order; the last batch is filled with zeros.

    Args:
        paths: TFRecord files.
        layout: Layout of their records.
        batch_size: Examples per batch, over all replicas.
        max_batches: Stop after so many batches; None for all.
        seed: Decides about masks.
        masker: Hides pieces of records that hold no masks, every time the same.
    """
    dataset = tf.data.Dataset.from_tensor_slices(list(paths))
    dataset = dataset.flat_map(_open).batch(batch_size)
    if max_batches is not None:
        dataset = dataset.take(max_batches)
    key = random_streams.derive(0, _EVALUATION, seed)
    return _finish(dataset.enumerate(), layout, batch_size, masker, key)


def count_examples(paths: Sequence[str]) -> int:
    """Return how many records are in the files.

    Their manifests say it, if they name no other files; else all are read.
    """
    names = {os.path.abspath(path) for path in paths}
    found: dict[str, int] = {}
    for path in paths:
        manifest = records.find_manifest(path)
        folder = os.path.dirname(os.path.abspath(path))
        shards = (
            [os.path.join(folder, s) for s in manifest.shards]
            if manifest
            else []
        )
        if manifest is None or not names.issuperset(shards):
            break
        found[min(shards)] = manifest.num_examples
    else:
        return sum(found.values())
    dataset = tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(_open)
    return int(dataset.reduce(np.int64(0), lambda sum_, _: sum_ + 1))


def _open(path: tf.Tensor) -> tf.data.Dataset:
    """Read a file; one whose name ends in .gz is unpacked."""
    packed = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, tf.where(packed, "GZIP", ""))


def _finish(
    dataset: tf.data.Dataset,
    layout: records.Layout,
    batch_size: int,
    masker: masking.Masker | None,
    key: int,
) -> tf.data.Dataset:
    """Parse numbered batches of examples and give them a static shape."""

    def finish(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
        batch = _pad(records.parse(layout, serialized), batch_size)
        return _mask(batch, number, masker, key) if masker else batch

    dataset = dataset.map(
        finish,
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


def _mask(
    batch: Batch, number: tf.Tensor, masker: masking.Masker, key: int
) -> Batch:
    """Hide pieces, with draws that follow from the number of the batch."""
    size, length = batch["input_ids"].shape
    width = masker.num_predictions

    def mask(
        ids: np.ndarray, real: np.ndarray, boundary: np.ndarray, number: int
    ) -> tuple[np.ndarray, ...]:
        keys = random_streams.derive_array(
            np.full(size, random_streams.derive(key, int(number)), np.uint64),
            np.arange(size),
        )
        masked = masker.mask(ids, real.sum(1), keys, boundary)
        weights = np.arange(width) < masked.counts[:, None]
        return (
            masked.input_ids,
            masked.positions,
            masked.labels,
            weights.astype(np.float32),
        )

    names = "input_ids", "input_mask", "token_boundary"
    ids, positions, labels, weights = tf.numpy_function(
        mask,
        [*(batch[name] for name in names), number],
        [tf.int32, tf.int32, tf.int32, tf.float32],
        stateful=False,
    )
    return {
        **batch,
        "input_ids": tf.ensure_shape(ids, [size, length]),
        "masked_lm_positions": tf.ensure_shape(positions, [size, width]),
        "masked_lm_ids": tf.ensure_shape(labels, [size, width]),
        "masked_lm_weights": tf.ensure_shape(weights, [size, width]),
    }


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
