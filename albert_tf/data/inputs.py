"""TFRecord files to batches for training and evaluation.

The batches are a pure function of files, seed and step. A restarted run skips
the passes it has finished and the records it has seen of the current pass, and
continues with the same batches.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.common import errors, random_streams
from albert_tf.data import (
    drawing,
    layouts,
    length_groups,
    manifests,
    packed_rows,
    parsing,
    tfrecord,
)

# Files read at the same time; their records are taken in turn.
INTERLEAVED_FILES = 16
# Records among which the next one is drawn. The writer of pretraining records
# shuffles them too, so a few thousand mix well.
SHUFFLE_BUFFER = 10_000

# Distance between the seeds of two passes. TensorFlow takes seeds modulo
# 2**31 - 1, so that 2**31 would be 1: the passes of the next seed.
_SEED_STEP = 2**20 + 7

# What masks are drawn for; each has seeds of its own.
_TRAINING, _EVALUATION = range(2)

# Records that are parsed together, in search of one that cannot be.
_PARSED_AT_ONCE = 1000

Batch = dict[str, tf.Tensor]


def training_dataset(
    paths: Sequence[str],
    layout: layouts.Layout,
    batch_size: int,
    *,
    seed: int,
    first_step: int = 0,
    drawer: drawing.Drawer | None = None,
) -> tf.data.Dataset:
    """Endless, shuffled batches of `batch_size` examples.

    Args:
        seed: Decides the order, anew in every pass over the files.
        first_step: Batches to leave out at the beginning.
        drawer: Makes features of the examples, anew in every pass.
    """
    records = _shuffled_records(paths, seed, first_step * batch_size)
    dataset = records.batch(batch_size, drop_remainder=True)
    dataset = dataset.enumerate(first_step)
    return _to_batches(
        dataset, layout, batch_size, drawer, seed, is_training=True
    )


def grouped_training_dataset(
    paths: Sequence[str],
    layout: layouts.Layout,
    batch_size: int,
    *,
    seed: int,
    grouping: length_groups.Grouping,
    first_step: int = 0,
) -> tf.data.Dataset:
    """Endless, shuffled batches of similar length, see `length_groups`."""
    # A window of several passes would put the same record into a batch several
    # times, because its copies are equally long.
    most = min(length_groups.max_records(batch_size), count_examples(paths))
    count = max(1, most // batch_size)  # Batches of a window.
    # A window is read from its beginning, and its first batches are dropped.
    first_window, skipped = divmod(first_step, count)
    num_seen = (first_step - skipped) * batch_size
    records = _shuffled_records(paths, seed, num_seen)
    windows = records.batch(count * batch_size, drop_remainder=True)

    def divide(window: tf.Tensor, serialized: tf.Tensor) -> tf.data.Dataset:
        by_length = grouping.order(layout, serialized)
        batches = tf.reshape(by_length, [count, batch_size])
        draws = tf.random.stateless_uniform([count], [seed, window])
        order = tf.gather(batches, tf.argsort(draws, stable=True))
        return tf.data.Dataset.from_tensor_slices(tf.gather(serialized, order))

    def finish(serialized: tf.Tensor) -> Batch:
        batch = _fill_up(parsing.parse(layout, serialized), batch_size)
        return length_groups.trim(batch, layout, grouping.shortest)

    batches = windows.enumerate(first_window).flat_map(divide).skip(skipped)
    return _prepare_batches(batches, finish)


def packed_training_dataset(
    paths: Sequence[str],
    packing: packed_rows.Packing,
    batch_size: int,
    *,
    seed: int,
    num_rows: int,
    first_step: int = 0,
) -> tf.data.Dataset:
    """Endless, shuffled batches of packed rows, see `packed_rows.join`.

    Where the packing has masks, pieces are masked anew in every pass.
    `num_rows` is from `count_rows`.
    """

    def open_rows(path: tf.Tensor) -> tf.data.Dataset:
        return packing.pack(_open(path))

    num_passes, num_seen = divmod(first_step * batch_size, num_rows)
    shuffled = _shuffled(paths, seed, open_rows, num_passes).skip(num_seen)
    dataset = shuffled.batch(batch_size, drop_remainder=True)
    draw_seed = random_streams.derive(0, _TRAINING, seed)

    def finish(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
        def mask(batch: Batch, slots: tf.Tensor) -> Batch:
            if packing.masks is None:
                return batch
            return _draw(batch, number, slots, packing.masks, draw_seed, True)

        return packed_rows.join(serialized, packing.layout, mask)

    return _prepare_batches(dataset.enumerate(first_step), finish)


def count_rows(paths: Sequence[str], packing: packed_rows.Packing) -> int:
    """Count the rows that the instances of the files share; all are read."""

    def count(path: tf.Tensor) -> tf.data.Dataset:
        batches = packing.pack(_open(path)).batch(packed_rows.WINDOW_RECORDS)
        return batches.map(lambda rows: tf.shape(rows)[0])

    files = tf.data.Dataset.from_tensor_slices(list(paths))
    counts = files.interleave(count, num_parallel_calls=tf.data.AUTOTUNE)
    return sum(map(int, counts.as_numpy_iterator()))


def _shuffled_records(
    paths: Sequence[str], seed: int, num_seen: int
) -> tf.data.Dataset:
    """Shuffle serialized records, without end; skip the first `num_seen`."""
    num_passes = 0
    if num_seen:
        num_passes, num_seen = divmod(num_seen, count_examples(paths))
    return _shuffled(paths, seed, _open, num_passes).skip(num_seen)


def _shuffled(
    paths: Sequence[str],
    seed: int,
    open_file: Callable[[tf.Tensor], tf.data.Dataset],
    num_passes: int,
) -> tf.data.Dataset:
    """Shuffle the records of `open_file`, without end; skip so many passes."""

    def one_pass(pass_number: tf.Tensor) -> tf.data.Dataset:
        pass_seed = pass_number * _SEED_STEP + seed
        files = tf.data.Dataset.from_tensor_slices(list(paths))
        files = files.shuffle(
            len(paths), pass_seed, reshuffle_each_iteration=False
        )
        dataset = files.interleave(
            open_file,
            cycle_length=INTERLEAVED_FILES,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return dataset.shuffle(
            SHUFFLE_BUFFER, pass_seed, reshuffle_each_iteration=False
        )

    return tf.data.Dataset.range(num_passes, tf.int64.max).flat_map(one_pass)


def evaluation_dataset(
    paths: Sequence[str],
    layout: layouts.Layout,
    batch_size: int,
    max_batches: int | None = None,
    *,
    seed: int = 0,
    drawer: drawing.Drawer | None = None,
) -> tf.data.Dataset:
    """All examples once, in file order; the last batch is filled with zeros.

    The drawer draws the same at each evaluation.
    """
    dataset = tf.data.Dataset.from_tensor_slices(list(paths))
    dataset = dataset.flat_map(_open).batch(batch_size)
    if max_batches is not None:
        dataset = dataset.take(max_batches)
    return _to_batches(dataset.enumerate(), layout, batch_size, drawer, seed)


def grouped_evaluation_dataset(
    paths: Sequence[str], layout: layouts.Layout, batch_size: int, shortest: int
) -> tf.data.Dataset:
    """All examples once, in batches of similar length, see `length_groups`.

    The longest of a window come first. Batches also have `record_number` int32
    [batch], the index of each record in file order.
    """
    records = tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(_open)
    windows = records.enumerate().batch(length_groups.max_records(batch_size))

    def sort(numbers: tf.Tensor, serialized: tf.Tensor) -> tf.data.Dataset:
        lengths = length_groups.record_lengths(layout, serialized)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        ordered = tf.gather(numbers, order), tf.gather(serialized, order)
        return tf.data.Dataset.from_tensor_slices(ordered)

    def finish(numbers: tf.Tensor, serialized: tf.Tensor) -> Batch:
        batch = parsing.parse(layout, serialized)
        batch["record_number"] = tf.cast(numbers, tf.int32)
        batch = _fill_up(batch, batch_size)
        return length_groups.trim(batch, layout, shortest)

    return _prepare_batches(windows.flat_map(sort).batch(batch_size), finish)


def count_examples(paths: Sequence[str]) -> int:
    """Return how many records are in the files.

    Manifests say it if every file has one, and `paths` has all files that it
    names. Otherwise the files are read.
    """
    absolute = {os.path.abspath(path) for path in paths}
    counts: dict[str, int] = {}
    for path in paths:
        manifest = manifests.find(path)
        if manifest is None:
            break
        folder = os.path.dirname(os.path.abspath(path))
        shards = [os.path.join(folder, shard) for shard in manifest.shards]
        if not absolute.issuperset(shards):
            break
        counts[min(shards)] = manifest.num_examples
    else:
        return sum(counts.values())
    return sum(map(tfrecord.count_records, paths))


@contextlib.contextmanager
def naming_damage(
    paths: Sequence[str],
    layout: layouts.Layout,
    remedy: str = "Copy the file again, or write the records again.",
) -> Iterator[None]:
    """Make errors about damaged records in the block name file and record.

    TensorFlow names neither. So the files are read again, up to the first
    record that is damaged or of another layout.
    """
    try:
        yield
    except tf.errors.DataLossError:
        for path in paths:
            for _ in tfrecord.read_records(path, remedy):
                pass
        raise
    except tf.errors.InvalidArgumentError:
        check_values(paths, layout, remedy)
        raise


def check_values(
    paths: Sequence[str],
    layout: layouts.Layout,
    remedy: str,
    most: int | None = None,
) -> None:
    """Refuse records of another layout, or with numbers that no model can use.

    The first `most` records of each file are checked; None: all.
    """
    for path in paths:
        records = itertools.islice(tfrecord.read_records(path), most)
        first = 1
        while block := list(itertools.islice(records, _PARSED_AT_ONCE)):
            try:
                parsing.parse(layout, tf.constant(block))
            except tf.errors.InvalidArgumentError as error:
                for number, record in enumerate(block, first):
                    if fault := parsing.describe_fault(layout, record):
                        raise errors.UserError(
                            f"The record file {path} cannot be used: record "
                            f"{number:,} {fault}. {remedy}"
                        ) from error
            first += len(block)


def _open(path: tf.Tensor) -> tf.data.Dataset:
    """Read a file; one whose name ends in .gz is decompressed."""
    compressed = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, tf.where(compressed, "GZIP", ""))


def _to_batches(
    dataset: tf.data.Dataset,
    layout: layouts.Layout,
    batch_size: int,
    drawer: drawing.Drawer | None,
    seed: int,
    *,
    is_training: bool = False,
) -> tf.data.Dataset:
    """Parse (step, batch of records), fill it up and draw further features."""
    purpose = _TRAINING if is_training else _EVALUATION
    draw_seed = random_streams.derive(0, purpose, seed)

    def finish(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
        batch = _fill_up(parsing.parse(layout, serialized), batch_size)
        if drawer is None:
            return batch
        slots = tf.range(batch_size)
        return _draw(batch, number, slots, drawer, draw_seed, is_training)

    return _prepare_batches(dataset, finish)


def _prepare_batches(
    dataset: tf.data.Dataset, finish: Callable[..., Batch]
) -> tf.data.Dataset:
    """Apply `finish` to batches of records in parallel, ahead of their use."""
    parallel = tf.data.AUTOTUNE
    dataset = dataset.map(finish, parallel, deterministic=True)
    options = tf.data.Options()
    # Every worker reads all files and keeps its part of each batch, so that the
    # order of examples does not depend on the number of workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def _draw(
    batch: Batch,
    number: tf.Tensor,
    slots: tf.Tensor,
    drawer: drawing.Drawer,
    seed: int,
    is_training: bool,
) -> Batch:
    """Add the features of a drawer; those that it replaces are dropped.

    The seed of an example follows from `seed`, the number of the batch and the
    slot of the example in it, int [n].
    """
    names, size = list(batch), slots.shape[0]

    def draw(
        number: int, slots: np.ndarray, *values: np.ndarray
    ) -> list[np.ndarray]:
        batch_seed = random_streams.derive(seed, int(number))
        repeated = np.full(len(slots), batch_seed, np.uint64)
        seeds = random_streams.derive_array(repeated, slots)
        step = int(number) if is_training else None
        features = drawer.draw(
            dict(zip(names, values, strict=True)), seeds, step
        )
        return [features[f.name].astype(types[f.dtype]) for f in drawer.makes]

    types = {"int64": np.int32, "float32": np.float32}
    drawn = tf.numpy_function(
        draw,
        [number, slots, *batch.values()],
        [types[feature.dtype] for feature in drawer.makes],
        stateful=False,
    )
    kept = {name: batch[name] for name in names if name not in drawer.drops}
    return kept | {
        feature.name: tf.ensure_shape(value, [size, *feature.shape])
        for feature, value in zip(drawer.makes, drawn, strict=True)
    }


def _fill_up(batch: Batch, batch_size: int) -> Batch:
    """Fill up a batch with zeros and mark which examples are real.

    Adds `is_real_example` int32 [batch] if the records do not have it:
    1 for examples of the file, 0 for filling. Every sum leaves filling out.
    """
    size = tf.shape(next(iter(batch.values())))[0]
    batch = {"is_real_example": tf.ones([size], tf.int32), **batch}
    padded = {}
    for name, value in batch.items():
        widths = [[0, batch_size - size]] + [[0, 0]] * (value.shape.rank - 1)
        padded[name] = tf.ensure_shape(
            tf.pad(value, widths), [batch_size, *value.shape[1:]]
        )
    return padded
