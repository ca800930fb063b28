"""Feature files: records of examples, kept under a key of what made them.

Beside each file `X` lies `X.json`, which says how many records it has and what
they follow from: the content of the data, the vocabulary, the options. A file
is used again only where all of that is the same.
"""

import dataclasses
import hashlib
import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf import errors, files, record_encoding
from albert_tf.tasks import base, text_files

FACTS_ENDING = ".json"
_EXAMPLES, _RECORDS = "num_examples", "num_records"
_CONTENT = "content_sha256"
# Of the order of training examples in cached files. The order in which they are
# learnt follows from --seed, by shuffling again.
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class FeatureFile:
    """A finished TFRecord file of features.

    Attributes:
        path: The file.
        num_records: Records in it.
    """

    path: str
    num_records: int


def describe(task: base.Task, source: str, split: str) -> dict[str, Any]:
    """Return everything that the features of a split follow from.

    Args:
        task: The task with its tokenizer and options.
        source: File or folder of the split.
        split: Its name.
    """
    return {
        "split": split,
        "options": {**task.settings, **task.tokenizer.settings},
        "vocab_sha256": task.tokenizer.fingerprint,
        "layout": repr(task.layout(split)),
        _CONTENT: _content_sha256(source),
    }


def same_content(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two descriptions are about the same data."""
    return bool(one[_CONTENT] == other[_CONTENT])


def _content_sha256(path: str) -> str:
    """Return the fingerprint of a file, or of all files below a folder."""
    digest = hashlib.sha256()
    names = text_files.list_folder(path)
    if not names and files.exists(path):
        return files.sha256(path)
    for name in names:
        inner = _content_sha256(os.path.join(path, name))
        digest.update(f"{name}\0{inner}\0".encode())
    return digest.hexdigest()


def encode(
    task: base.Task, examples: Sequence[base.Example], split: str
) -> Iterator[list[bytes]]:
    """Yield the records of examples, in order, framed for a TFRecord file."""
    layout = task.layout(split)
    for values in task.featurize(examples, split):
        messages = record_encoding.encode_batch(layout, values)
        yield record_encoding.frame_batch(messages)


def write(
    path: str,
    batches: Iterable[Sequence[bytes]],
    num_examples: int,
    facts: dict[str, Any],
) -> FeatureFile:
    """Write framed records to a file, and what they follow from beside it.

    Args:
        path: The file; its folder is created.
        batches: From `encode`.
        num_examples: Examples that the records were made of.
        facts: From `describe`.
    """
    files.make_folder(os.path.dirname(path))
    num_records = 0
    with files.replace_atomically(path) as stream:
        for batch in batches:
            stream.write(b"".join(batch))
            num_records += len(batch)
    facts = {**facts, _EXAMPLES: num_examples, _RECORDS: num_records}
    text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
    files.write_text(path + FACTS_ENDING, text)
    logging.info(
        "Wrote %d records of %d examples to %s", num_records, num_examples, path
    )
    return FeatureFile(path, num_records)


def cached(
    task: base.Task,
    source: str,
    split: str,
    folder: str,
    examples: Sequence[base.Example],
) -> FeatureFile:
    """Return the features of a split; make them if they are not there.

    The name holds a key of everything that the features follow from, so changed
    texts, another vocabulary or another length make another file.

    Args:
        task: Turns examples into features.
        source: File or folder of the split.
        split: Its name.
        folder: Where the file is, or will be.
        examples: All of them, as read. For training they are shuffled, so that
            batches do not follow the order of the data.
    """
    facts = describe(task, source, split)
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    path = os.path.join(folder, f"{task.name}-{split}-{key[:16]}.tfrecord")
    if files.exists(path) and files.exists(path + FACTS_ENDING):
        logging.info("Using the features of an earlier run: %s", path)
        return FeatureFile(path, _read_facts(path)[_RECORDS])
    if split == base.TRAIN:
        examples = random.Random(_SEED).sample(examples, len(examples))
    return write(path, encode(task, examples, split), len(examples), facts)


def opened(
    task: base.Task, path: str, source: str | None, split: str, option: str
) -> FeatureFile:
    """Return a file of data_prep.create_finetuning_data, if it fits.

    Args:
        task: What the file is wanted for.
        path: The file.
        source: File or folder of the split, if it is there to compare.
        split: Its name.
        option: Name of the option the path came from, for messages.

    Raises:
        errors.UserError: It was made from other data, with another vocabulary,
            or with other options.
    """
    files.require_file(path, option)
    facts = _read_facts(path)
    wanted = describe(task, source or "", split)
    if source is None:
        wanted.pop(_CONTENT)
    flat = {**facts, **facts.get("options", {})}
    lines = [
        f"  {name}: {flat.get(name)!r} there, {value!r} here"
        for name, value in {**wanted, **wanted.pop("options")}.items()
        if name != "options" and flat.get(name) != value
    ]
    if lines:
        raise errors.UserError(
            f"--{option}={path} was not made for this run:\n"
            + "\n".join(lines)
            + "\nMake it again with data_prep.create_finetuning_data and the "
            "options of this run, or leave the option out."
        )
    return FeatureFile(path, facts[_RECORDS])


def _read_facts(path: str) -> dict[str, Any]:
    try:
        facts = json.loads(files.read_bytes(path + FACTS_ENDING))
        int(facts[_RECORDS])
    except (OSError, ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path}{FACTS_ENDING} is missing or damaged, so nobody knows what "
            f"{path} was made from. Remove {path}; it will be made again."
        ) from None
    return dict(facts)
