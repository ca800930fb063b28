"""Feature files: records of examples, cached under a key of their inputs.

Beside each file `X` lies `X.json` with the number of records and their key:
the content of the data, the vocabulary, the options. A file is used again only
if the key is the same.
"""

import dataclasses
import hashlib
import io
import operator
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.common import (
    errors,
    files,
    outputs,
    parallel,
    progress,
    strict_json,
)
from albert_tf.data import examples as messages_of
from albert_tf.data import layouts, tfrecord
from albert_tf.finetuning import base

Batches = Iterable[Sequence[bytes]]  # Of framed records.

KEY_ENDING = ".json"
_EXAMPLES, _RECORDS = "num_examples", "num_records"
CONTENT = "content_sha256"
# Seed for the order of training records in cached files. Training shuffles
# again, by `seed`.
_SEED = 12345
# Examples that a process turns into records at a time; no result depends on it.
_BLOCK = 256
# Starting a process takes longer than this many examples.
_WORTH_A_PROCESS = 8192
_SEGMENTS = 2  # Of texts that are divided at a [SEP].


@dataclasses.dataclass(frozen=True)
class FeatureFile:
    """A finished TFRecord file of features."""

    path: str
    num_records: int


def describe(task: base.Task, content: str, split: str) -> dict[str, Any]:
    """Return the key of a split: all that decides its features.

    Args:
        content: The `content_sha256` of its data from before they were read.
    """
    return {
        "split": split,
        "options": {**task.settings, **task.tokenizer.settings},
        "vocab_sha256": task.tokenizer.fingerprint,
        "layout": repr(task.layout(split)),
        CONTENT: content,
    }


def differences(
    key: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[str]:
    """Return a line for each entry of an expected key that differs in `key`."""
    expected = _flatten_options(expected)
    expected.pop("options", None)
    return outputs.changes(_flatten_options(key), expected)


def _flatten_options(key: Mapping[str, Any]) -> dict[str, Any]:
    # Files of earlier versions do not say what WordPiece did with accents.
    return {"keep_accents": False, **key, **key.get("options", {})}


def content_sha256(path: str) -> str:
    """Return the SHA-256 of a file, or of all files below a folder.

    Files of other programs, whose names begin with a dot, do not count.
    """
    names = [n for n in files.list_folder(path) if not n.startswith(".")]
    if not names and files.exists(path) and not os.path.isdir(path):
        return files.sha256(path)
    digest = hashlib.sha256()
    for name in names:
        inner = content_sha256(os.path.join(path, name))
        digest.update(f"{name}\0{inner}\0".encode())
    return digest.hexdigest()


def data_sha256(task: base.Task, path: str) -> str:
    """Return the `content_sha256` of a task's file or folder for a split."""
    if not task.reads_folders and files.list_folder(path):
        raise errors.UserError(
            f"{path} is a folder, but {task.name} is read from files. Name a "
            "file in it."
        )
    return content_sha256(path)


def encode(
    task: base.Task,
    examples: Sequence[base.Example],
    split: str,
    num_workers: int = 0,
    *,
    with_padding: bool = False,
) -> Iterator[Sequence[bytes]]:
    """Yield the records of examples, in order, framed for a TFRecord file.

    Shows progress, and warns at the end of cut texts and the like. The records
    do not depend on the number of processes.

    Args:
        num_workers: Processes; 0 is one per core, if there is work for them.
        with_padding: Whether records hold padding, as the original's do.
    """
    total = len(examples)
    layout = task.layout(split)
    if with_padding:
        layout = layouts.with_padding(layout)
    if not num_workers:
        num_workers = min(parallel.resolve(0), total // _WORTH_A_PROCESS)
    num_workers = max(1, min(num_workers, -(-total // _BLOCK)))
    if type(task).__module__ == "__main__":
        num_workers = 1  # Other processes do not know the script's classes.
    blocks = (examples[i : i + _BLOCK] for i in range(0, total, _BLOCK))
    num_examples = num_records = 0
    remarks: base.Remarks = {}
    with (
        parallel.workers(num_workers, (task, split, layout)) as map_blocks,
        progress.Progress("features", total, "examples") as bar,
    ):
        for count, block, block_remarks in map_blocks(_encode_block, blocks):
            yield task.renumber(block, num_records)
            num_records += len(block)
            num_examples += count
            for message, names in block_remarks.items():
                remarks.setdefault(message, []).extend(names)
            bar.update(num_examples)
    base.log_remarks(remarks)


def _encode_block(
    examples: Sequence[base.Example],
) -> tuple[int, list[bytes], base.Remarks]:
    task, split, layout = parallel.shared_value()
    framed: list[bytes] = []
    task.remarks = {}
    try:
        for values in task.featurize(examples, split):
            messages = tfrecord.encode_batch(layout, values)
            framed += tfrecord.frame_batch(messages)
        return len(examples), framed, task.remarks
    finally:
        task.remarks = None


def write(
    path: str,
    batches: Batches,
    num_examples: int,
    key: dict[str, Any],
    *,
    through_link: bool = False,
) -> FeatureFile:
    """Write records, and their key beside them: both files or neither."""
    files.make_folder(os.path.dirname(path))
    num_records, key_path = 0, path + KEY_ENDING
    with files.replace_atomically(key_path, through_link=False) as key_file:
        with files.replace_atomically(
            path, through_link=through_link
        ) as stream:
            for batch in batches:
                stream.write(b"".join(batch))
                num_records += len(batch)
            key = {**key, _EXAMPLES: num_examples, _RECORDS: num_records}
            text = strict_json.dumps(key, indent=2, sort_keys=True) + "\n"
            key_file.write(text.encode())
            key_file.flush()  # If the disk is full, neither file appears.
            if files.exists(key_path):  # It is about other records.
                files.remove(key_path)
    logging.info(
        "Wrote %d records of %d examples to %s", num_records, num_examples, path
    )
    return FeatureFile(path, num_records)


def open_or_make(
    task: base.Task,
    key: dict[str, Any],
    folder: str,
    examples: Sequence[base.Example],
    complete: Callable[[Batches], Batches] = lambda batches: batches,
) -> FeatureFile:
    """Return the feature file of a split; make it if it is not there.

    Its name holds a hash of the key. The records of training are shuffled, so
    that batches do not follow the order of the data.

    Args:
        key: From `describe`.
        complete: Adds a teacher's outputs to framed records.
    """
    path = os.path.join(folder, name(task.name, key))
    existing = _open_existing(path)
    if existing:
        return existing
    split = key["split"]
    batches = complete(encode(task, examples, split))
    if split == base.TRAIN:
        batches = _shuffle(batches)
    return write(path, batches, len(examples), key)


def shuffle(file: FeatureFile, task: base.Task, folder: str) -> FeatureFile:
    """Make a shuffled copy of a file with records in the order of the data.

    It is the file that `open_or_make` makes from the same data.
    """
    key = _read_key(file.path)
    num_examples = key.pop(_EXAMPLES)
    num_records = key.pop(_RECORDS)
    path = os.path.join(folder, name(task.name, key))
    finished = _open_existing(path)
    if finished:
        return finished
    messages: list[bytes] = []
    content = io.BytesIO(files.read_bytes(file.path))
    try:
        size = len(content.getbuffer())
        messages.extend(tfrecord.read_frames(content, size))
        if len(messages) != num_records or content.read():
            raise ValueError(f"{file.path}{KEY_ENDING} says {num_records:,}")
        layout = layouts.for_model(
            task.layout(base.TRAIN), task.tokenizer.vocab_size, _SEGMENTS
        )
        records: list[bytes] = []
        for start in range(0, len(messages), _BLOCK):  # Without padding.
            values = messages_of.decode_batch(
                layouts.with_padding(layout), messages[start : start + _BLOCK]
            )
            encoded = tfrecord.encode_batch(layout, values)
            records += tfrecord.frame_batch(encoded)
    except ValueError as error:
        raise errors.UserError(
            f"{file.path} is damaged after {len(messages):,} whole records: "
            f"{error}. Make it again with data_prep.create_finetuning_data."
        ) from None
    return write(path, _shuffle([records]), num_examples, key)


def name(task_name: str, key: Mapping[str, Any]) -> str:
    """Return the name of the file that `open_or_make` makes."""
    digest = hashlib.sha256(
        strict_json.dumps(key, sort_keys=True).encode()
    ).hexdigest()
    return f"{task_name}-{key['split']}-{digest[:16]}.tfrecord"


def _open_existing(path: str) -> FeatureFile | None:
    if not (files.exists(path) and files.exists(path + KEY_ENDING)):
        return None
    logging.info("Using the features of an earlier run: %s", path)
    num_records = _read_key(path)[_RECORDS]
    remedy = f"Remove it and {path}{KEY_ENDING}; it will be made again."
    count = tfrecord.count_records(path, remedy)
    if count != num_records:
        raise errors.UserError(
            f"The record file {path} is damaged: it has {count:,} records of "
            f"{num_records:,}. {remedy}"
        )
    return FeatureFile(path, num_records)


def _shuffle(batches: Batches) -> Iterator[list[bytes]]:
    records = [record for batch in batches for record in batch]
    random.Random(_SEED).shuffle(records)
    for start in range(0, len(records), _BLOCK):
        yield records[start : start + _BLOCK]


def open_prepared(
    task: base.Task, path: str, content: str | None, split: str, option: str
) -> FeatureFile:
    """Open a file of data_prep.create_finetuning_data, if it fits the run.

    `content` is the `content_sha256` of the data; None if they are not there.
    """
    files.require_file(path, option)
    key = _read_key(path)
    expected = describe(task, content or "", split)
    if content is None:
        expected.pop(CONTENT)
    outputs.require_same(
        f"`{option}={path}` was not made for this run",
        differences(key, expected),
        "Make it again with data_prep.create_finetuning_data and the options "
        f"of this run, or leave `{option}` out.",
    )
    return FeatureFile(path, key[_RECORDS])


def _read_key(path: str) -> dict[str, Any]:
    try:
        key = strict_json.loads(files.read_bytes(path + KEY_ENDING))
        operator.index(key[_RECORDS])
        _flatten_options(key)  # They are no object in a damaged file.
    except (OSError, ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path}{KEY_ENDING} is missing or damaged, so it is not known "
            f"what {path} was made from. Remove {path}; it will be made again."
        ) from None
    return dict(key)
