"""The layout of a TFRecord, declared once: encode, parse, write, check.

Step 5 of the walk writes pretraining instances with it, step 6 parses them by
the same declaration; fine-tuning features travel the same way. A record file
is preceded by nothing and followed by nothing; what it was made from stands in
a small side file, the manifest, that training compares with its own options.

TensorFlow is imported where it is used, so that a script can reject a wrong
option before it has spent seconds on loading it.
"""

import contextlib
import dataclasses
import glob
import hashlib
import operator
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from albert_tf import errors, files, strict_json

if TYPE_CHECKING:
    import tensorflow as tf

MANIFEST_ENDING = ".manifest.json"
FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Feature:
    """One entry of a record.

    Attributes:
        name: The key in the `tf.train.Example`.
        shape: `()` for one number, `(n,)` for exactly n of them.
        dtype: How the numbers are stored. `parse` returns int64 as int32.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["int64", "float32"]


Layout = tuple[Feature, ...]


def pretraining_layout(
    max_seq_length: int, max_predictions_per_seq: int
) -> Layout:
    """Return the features of a pretraining record.

    Source: the original's create_pretraining_data.write_instance_to_example_
    files; the names are kept so that either program reads the other's files.

    Args:
        max_seq_length: Tokens of a sequence, S, special ones included.
        max_predictions_per_seq: Length P of the prediction lists. Records made
            with `--do_permutation` hold twice the number given to the writer.

    Returns:
        `input_ids` [S], pieces after masking, padded with 0;
        `input_mask` [S], 1 for real tokens, 0 for padding;
        `segment_ids` [S], 0 up to the first [SEP], 1 after it, 0 for padding;
        `token_boundary` [S], 1 where a word starts, padded with 0;
        `masked_lm_positions` [P], ascending, padded with 0;
        `masked_lm_ids` [P], the hidden pieces, padded with 0;
        `masked_lm_weights` [P], 1.0 for a prediction, 0.0 for padding;
        `next_sentence_labels` [1], the sentence-order label: 0 for segments in
        their order, 1 for exchanged ones (or a random second segment).
    """
    sequence, predictions = (max_seq_length,), (max_predictions_per_seq,)
    return (
        Feature("input_ids", sequence, "int64"),
        Feature("input_mask", sequence, "int64"),
        Feature("segment_ids", sequence, "int64"),
        Feature("token_boundary", sequence, "int64"),
        Feature("masked_lm_positions", predictions, "int64"),
        Feature("masked_lm_ids", predictions, "int64"),
        Feature("masked_lm_weights", predictions, "float32"),
        Feature("next_sentence_labels", (1,), "int64"),
    )


def without_masks(layout: Layout) -> Layout:
    """Return the layout of records that training masks by itself."""
    return tuple(f for f in layout if not f.name.startswith("masked_lm_"))


def classification_layout(
    max_seq_length: int, *, regression: bool = False
) -> Layout:
    """Return the features of a classification or regression record.

    Source: the original's classifier_utils.file_based_convert_examples_to_
    features.

    Args:
        max_seq_length: Tokens of a sequence, S, special ones included.
        regression: Whether the label is a number rather than a class.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `label_ids` scalar; `is_real_example` scalar, 0 for examples that only
        fill up the last batch.
    """
    sequence = (max_seq_length,)
    return (
        Feature("input_ids", sequence, "int64"),
        Feature("input_mask", sequence, "int64"),
        Feature("segment_ids", sequence, "int64"),
        Feature("label_ids", (), "float32" if regression else "int64"),
        Feature("is_real_example", (), "int64"),
    )


def squad_layout(max_seq_length: int, *, is_training: bool) -> Layout:
    """Return the features of a window over a paragraph.

    Source: the original's squad_utils.FeatureWriter.

    Args:
        max_seq_length: Tokens of a sequence, S, special ones included.
        is_training: Whether the right answer is part of the record.

    Returns:
        `unique_ids` scalar, counts the windows from 1,000,000,000 on;
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `p_mask` [S], 1 where no answer may begin or end: question, markers but
        [CLS], padding; in training also the scalars `start_positions`,
        `end_positions`, positions of the answer's first and last piece, 0 where
        the window holds none, and `is_impossible`, 1 for these windows.
    """
    sequence = (max_seq_length,)
    features = [
        Feature("unique_ids", (), "int64"),
        Feature("input_ids", sequence, "int64"),
        Feature("input_mask", sequence, "int64"),
        Feature("segment_ids", sequence, "int64"),
        Feature("p_mask", sequence, "int64"),
    ]
    if is_training:
        features += [
            Feature("start_positions", (), "int64"),
            Feature("end_positions", (), "int64"),
            Feature("is_impossible", (), "int64"),
        ]
    return tuple(features)


def encode(layout: Layout, values: Mapping[str, Any]) -> bytes:
    """Serialize one instance; equal values give equal bytes.

    Example:
        layout = (Feature("input_ids", (3,), "int64"),)
        parse(layout, [encode(layout, {"input_ids": [2, 48, 3]})])
        result = {"input_ids": [[2, 48, 3]]}

    Args:
        layout: The features, in any order.
        values: For each feature a sequence or array of its shape, already
            padded; a plain number for shape `()`.

    Returns:
        A serialized `tf.train.Example`.

    Raises:
        ValueError: A feature is missing, unknown or of another shape. This is
            a mistake in the calling program.
    """
    import tensorflow as tf

    if len(values) != len(layout):
        unknown = values.keys() - {feature.name for feature in layout}
        if unknown:
            raise ValueError(f"The layout has no features {sorted(unknown)}.")
    example = tf.train.Example()
    for feature in layout:
        numbers = _flat(feature, values)
        target = example.features.feature[feature.name]
        if feature.dtype == "int64":
            target.int64_list.value.extend(numbers)
        else:
            target.float_list.value.extend(numbers)
    return bytes(example.SerializeToString(deterministic=True))


def _flat(feature: Feature, values: Mapping[str, Any]) -> Sequence[Any]:
    """Return the numbers of one feature in a row, their shape checked."""
    if feature.name not in values:
        raise ValueError(f"The feature {feature.name} has no value.")
    value = values[feature.name]
    shape = (len(value),) if isinstance(value, list) else np.shape(value)
    if shape != feature.shape:
        raise ValueError(
            f"The feature {feature.name} has shape {shape}; the layout wants "
            f"{feature.shape}."
        )
    if isinstance(value, list):
        return value
    flat: list[Any] = np.ravel(value).tolist()
    return flat


def parse(layout: Layout, serialized: "tf.Tensor") -> dict[str, "tf.Tensor"]:
    """Parse a batch of serialized examples; for use inside `Dataset.map`.

    Args:
        layout: The features to read; others in the records are ignored.
        serialized: string [batch].

    Returns:
        By feature name, int32 or float32 [batch, *shape].
    """
    import tensorflow as tf

    wanted = {
        feature.name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        for feature in layout
    }
    parsed = tf.io.parse_example(serialized, wanted)
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }


class ShardedWriter:
    """Write records in turn to several files that appear only when complete.

    The bytes go to `PATH.partial`. When the `with` block ends well, all files
    are synced to the disk and renamed; after an error the partial files are
    removed, and whatever stood under the final names is untouched.

    Example:
        with ShardedWriter(["a", "b"]) as writer:
            for record in (r0, r1, r2):
                writer.write(record)
        Then a holds r0 and r2, b holds r1.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Remember the paths; nothing is opened before the `with` block.

        Args:
            paths: One or more different files; missing folders are created.
        """
        if not paths or len(set(paths)) != len(paths):
            raise ValueError(
                f"Output paths must be one or more, different: {list(paths)}"
            )
        self.paths = tuple(paths)
        self.num_written = 0
        self._writers: list[Any] = []

    def __enter__(self) -> Self:
        """Open the partial files.

        Raises:
            errors.UserError: A folder cannot be created or written to.
        """
        try:
            for path in self.paths:
                files.make_folder(os.path.dirname(path))
                self._writers.append(_open_writer(path))
        except BaseException:
            self._remove_partials()
            raise
        return self

    def write(self, record: bytes) -> None:
        """Append one serialized example to the next file.

        Raises:
            errors.UserError: The disk is full or fails.
        """
        shard = self.num_written % len(self._writers)
        try:
            self._writers[shard].write(record)
        except _op_error() as error:
            raise _write_error(self.paths[shard], error) from error
        self.num_written += 1

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Put the files in place, or remove what was written after an error."""
        if error_type is not None:
            self._remove_partials()
            return
        try:
            for path, writer in zip(self.paths, self._writers, strict=True):
                _close(path, writer)
            for path in self.paths:
                if not files.is_remote(path):
                    files.sync(_partial(path))
            for path in self.paths:
                _rename(_partial(path), path)
        except BaseException:
            self._remove_partials()
            raise

    def _remove_partials(self) -> None:
        import tensorflow as tf

        for writer in self._writers:
            with contextlib.suppress(tf.errors.OpError):
                writer.close()
        for path in self.paths:
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.remove(_partial(path))


def _partial(path: str) -> str:
    return f"{path}.partial"


def _op_error() -> type[Exception]:
    """Return the class of TensorFlow's errors; asked for only after one."""
    import tensorflow as tf

    error: type[Exception] = tf.errors.OpError
    return error


def _write_error(path: str, error: Exception) -> errors.UserError:
    return errors.UserError(
        f"Cannot write the output file {path}: {error}. It must be in a place "
        "with free space that you may write to. Choose another one."
    )


def _open_writer(path: str) -> "tf.io.TFRecordWriter":
    import tensorflow as tf

    try:
        return tf.io.TFRecordWriter(_partial(path))
    except tf.errors.OpError as error:
        raise _write_error(path, error) from error


def _close(path: str, writer: "tf.io.TFRecordWriter") -> None:
    try:
        writer.close()
    except _op_error() as error:
        raise _write_error(path, error) from error


def _rename(source: str, target: str) -> None:
    if files.is_remote(target):
        import tensorflow as tf

        tf.io.gfile.rename(source, target, overwrite=True)
    else:
        os.replace(source, target)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """How a set of pretraining record files was made.

    Attributes:
        shards: Base names of the record files, in writing order.
        shard_bytes: Their sizes.
        num_examples: Records in all files together.
        max_seq_length: Length of `input_ids`.
        max_predictions_per_seq: Length of `masked_lm_positions`: twice the
            writer's option with `--do_permutation`.
        vocab_size: Pieces of the vocabulary, special ones included.
        vocab_sha256: Fingerprint of the vocabulary.
        random_seed: Seed of all draws.
        options: All options of the program that wrote the records.
        shard_sha256: Of each file.
        has_masks: Whether pieces are hidden; without it, training hides them.
        word_start_rule: Which pieces start a word.
        inputs: Path, bytes and SHA-256 of each text file.
        corpus: What was found in the text, counted.
        summary: What the records are like: shares and distributions.
        versions: Of the programs that decide about the content.
        format_version: Of this file.
    """

    shards: tuple[str, ...]
    shard_bytes: tuple[int, ...]
    num_examples: int
    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    vocab_sha256: str
    random_seed: int
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    shard_sha256: tuple[str, ...] = ()
    has_masks: bool = True
    word_start_rule: str = ""
    inputs: Sequence[Mapping[str, Any]] = ()
    corpus: Mapping[str, int] = dataclasses.field(default_factory=dict)
    summary: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    format_version: int = FORMAT_VERSION


def write_manifest(paths: Sequence[str], manifest: Manifest) -> str:
    """Write the manifest of finished record files beside the first of them.

    Args:
        paths: The record files.
        manifest: What to write.

    Returns:
        The path of the manifest: `<first path>.manifest.json`.
    """
    path = f"{paths[0]}{MANIFEST_ENDING}"
    content = dataclasses.asdict(manifest)
    text = strict_json.dumps(content, indent=2, sort_keys=True)
    files.write_text(path, text + "\n")
    return path


def find_manifest(record_path: str) -> Manifest | None:
    """Return the manifest that lists a record file, or None.

    Args:
        record_path: A record file; its folder is searched.

    Raises:
        errors.UserError: A manifest in that folder cannot be read.
    """
    path = find_manifest_path(record_path)
    return None if path is None else _read_manifest(path)


def find_manifest_path(record_path: str) -> str | None:
    """Return the path of the manifest that lists a record file, or None.

    Raises:
        errors.UserError: A manifest in that folder cannot be read.
    """
    folder, name = os.path.split(record_path)
    if files.is_remote(record_path):
        import tensorflow as tf

        found = tf.io.gfile.glob(f"{folder}/*{MANIFEST_ENDING}")
    else:
        found = glob.glob(
            os.path.join(glob.escape(folder), f"*{MANIFEST_ENDING}")
        )
    for path in sorted(found):
        if name in _read_manifest(path).shards:
            return str(path)
    return None


def fingerprint(paths: Sequence[str]) -> str:
    """Return what tells the content of record files from others, as SHA-256.

    It is that of their sizes and of the digests in their manifests, in the
    order of the files; the names do not count. No record is read.
    """
    digest = hashlib.sha256()
    for path in paths:
        manifest = find_manifest(path)
        pairs = (
            zip(manifest.shards, manifest.shard_sha256, strict=False)
            if manifest
            else ()
        )
        known = dict(pairs)
        size = files.size_and_time(path)[0]
        digest.update(f"{size} {known.get(os.path.basename(path))}\n".encode())
    return digest.hexdigest()


def remove_manifests(paths: Sequence[str]) -> None:
    """Remove all manifests that list one of these record files."""
    for path in paths:
        while (manifest_path := find_manifest_path(path)) is not None:
            if files.is_remote(manifest_path):
                import tensorflow as tf

                tf.io.gfile.remove(manifest_path)
            else:
                os.remove(manifest_path)


def _read_manifest(path: str) -> Manifest:
    try:
        values = strict_json.loads(files.read_bytes(path))
        version = values["format_version"]
        if version != FORMAT_VERSION:
            raise errors.UserError(
                f"The manifest {path} has format version {version}; this "
                f"program reads version {FORMAT_VERSION}. Use the program "
                "that wrote the records, or write them again."
            )
        values["shards"] = tuple(values["shards"])
        for name in ("shard_bytes", "shard_sha256", "inputs"):
            values[name] = tuple(values.get(name, ()))
        if not isinstance(values["vocab_sha256"], str):
            raise TypeError("vocab_sha256 is no text")
        for _, size in zip(
            values["shards"], values["shard_bytes"], strict=True
        ):
            operator.index(size)
        return Manifest(**values)
    except errors.UserError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise errors.UserError(
            f"The manifest {path} cannot be read ({error}). It must be the "
            "file that data_prep.create_pretraining_data wrote. Write the "
            "records again, or remove the file to use them unchecked."
        ) from error


@dataclasses.dataclass(frozen=True)
class Expected:
    """What training wants its records to be.

    Attributes:
        max_seq_length: Length of `input_ids`.
        max_predictions_per_seq: Length of `masked_lm_positions`.
        vocab_size: Rows of the embedding table.
        vocab_sha256: Fingerprint of the vocabulary, or None when training does
            not know it.
        has_masks: Whether pieces are hidden in the records already.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    vocab_sha256: str | None = None
    has_masks: bool = True


def check_records(paths: Sequence[str], expected: Expected) -> list[Manifest]:
    """Make sure that pretraining records are what training expects.

    Files with a manifest are compared with it. For files without one, such as
    those of the original program, the first record is looked at.

    Args:
        paths: Record files.
        expected: What they must have been written with.

    Returns:
        The manifests found, each once.

    Raises:
        errors.UserError: A file is missing, empty, damaged or cut short, or was
            written with another length, number of predictions or vocabulary.
    """
    manifests: list[Manifest] = []
    for path in paths:
        first = next(read_records(path), None)
        if first is None:
            raise errors.UserError(
                f"The record file {path} holds no record. Training needs one "
                "in every file. Leave the file out, or write the "
                "records again with fewer output files or more text."
            )
        manifest = find_manifest(path)
        if manifest is None:
            _check_first_record(path, first, expected)
            continue
        _check_manifest(path, manifest, expected)
        if manifest not in manifests:
            manifests.append(manifest)
    return manifests


def read_records(path: str) -> Iterator[bytes]:
    """Yield the serialized records of one file; this is a generator.

    Raises:
        errors.UserError: The file is missing, damaged or cut short.
    """
    import tensorflow as tf

    number = 0
    try:
        packed = "GZIP" if path.endswith(".gz") else ""
        for record in tf.data.TFRecordDataset(path, packed):
            number += 1
            yield record.numpy()
    except tf.errors.DataLossError as error:
        raise errors.UserError(
            f"The record file {path} is damaged: record {number + 1:,} cannot "
            f"be read ({error.message}). A whole TFRecord file is needed. Copy "
            "it again, or write the records again."
        ) from error
    except tf.errors.NotFoundError as error:
        raise errors.UserError(
            f"The record file {path} does not exist. Check the path (the "
            f"current folder is {os.getcwd()})."
        ) from error


def _size(path: str) -> int:
    if files.is_remote(path):
        import tensorflow as tf

        return int(tf.io.gfile.stat(path).length)
    return os.path.getsize(path)


def shard_sizes(paths: Sequence[str]) -> tuple[int, ...]:
    """Return the sizes of finished record files in bytes."""
    return tuple(_size(path) for path in paths)


def _check_manifest(path: str, manifest: Manifest, expected: Expected) -> None:
    name = os.path.basename(path)
    size = manifest.shard_bytes[manifest.shards.index(name)]
    if _size(path) != size:
        raise errors.UserError(
            f"The record file {path} has {_size(path):,} bytes; its manifest "
            f"says {size:,}. It is cut short or was replaced. Copy it again, "
            "or write the records again."
        )
    _check_masks(path, manifest.has_masks, expected.has_masks)
    wanted = ["max_seq_length"]
    if expected.has_masks:
        wanted.append("max_predictions_per_seq")
    for option in wanted:
        _check_number(
            path, option, getattr(manifest, option), getattr(expected, option)
        )
    if manifest.vocab_size != expected.vocab_size:
        raise errors.UserError(
            f"The records {path} were written with a vocabulary of "
            f"{manifest.vocab_size} pieces; the model has {expected.vocab_size}"
            ". Both must be equal. Use a model config with vocab_size="
            f"{manifest.vocab_size}, or write the records again with the "
            "model's vocabulary."
        )
    if expected.vocab_sha256 not in (None, manifest.vocab_sha256):
        raise errors.UserError(
            f"The records {path} were written with another vocabulary (SHA-256 "
            f"{manifest.vocab_sha256[:12]}) than the one given (SHA-256 "
            f"{str(expected.vocab_sha256)[:12]}). Both must be the same file. "
            "Give the vocabulary of the records, or write them again."
        )


def _check_masks(path: str, found: bool, wanted: bool) -> None:
    """Refuse to mask twice, or not at all.

    Raises:
        errors.UserError: It would come to that.
    """
    if found and not wanted:
        raise errors.UserError(
            f"--masked_lm_budget is given, but the records {path} hold masks "
            "already. Drop the option, or write records with "
            "--masking_time=training."
        )
    if wanted and not found:
        raise errors.UserError(
            f"The records {path} hold no masks (--masking_time=training). Give "
            "--masked_lm_budget=20 to mask them in training, or write them "
            "again."
        )


def _check_number(path: str, option: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise errors.UserError(
            f"--{option}={wanted}, but the records {path} were written with "
            f"{option}={found}. Both must be equal (with --do_permutation the "
            f"records hold twice the predictions). Use --{option}={found}, or "
            "write the records again."
        )


def _check_first_record(path: str, record: bytes, expected: Expected) -> None:
    """Check a record that has no manifest by its own numbers."""
    import tensorflow as tf
    from google.protobuf import message

    try:
        features = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        features = {}
    layout = without_masks(pretraining_layout(1, 1))
    missing = [
        feature.name
        for feature in layout
        if feature.name not in features
        and not (expected.has_masks and feature.name == "token_boundary")
    ]
    if missing:
        raise errors.UserError(
            f"The file {path} does not hold pretraining records: its first "
            f"record lacks {', '.join(missing)}. Give files written by "
            "data_prep.create_pretraining_data."
        )
    _check_masks(path, "masked_lm_ids" in features, expected.has_masks)
    ids = features["input_ids"].int64_list.value
    labels = features["masked_lm_ids"].int64_list.value
    positions = features["masked_lm_positions"].int64_list.value
    _check_number(path, "max_seq_length", len(ids), expected.max_seq_length)
    if expected.has_masks:
        _check_number(
            path,
            "max_predictions_per_seq",
            len(positions),
            expected.max_predictions_per_seq,
        )
    highest = max([*ids, *labels])
    if highest >= expected.vocab_size:
        raise errors.UserError(
            f"The records {path} hold the piece id {highest}; the model has "
            f"{expected.vocab_size} pieces, so ids go up to "
            f"{expected.vocab_size - 1}. Use the model config that belongs to "
            "the vocabulary of the records, or write them again."
        )
