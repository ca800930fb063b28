"""The outputs of a teacher for a student's training data, kept in a folder.

The teacher is asked once. The folder has parts, each of the same number of
examples; asking goes on behind the last part that is there.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, progress, strict_json
from albert_tf.data import layouts, tfrecord
from albert_tf.finetuning import base, saved_outputs, teacher
from albert_tf.model.losses import distillation

_MANIFEST = "teacher_outputs.json"
_PART = 2048  # Examples of a file. The number decides about no output.


class StoredOutputs:
    """The outputs of a teacher for the records of training examples."""

    def __init__(self, folder: str):
        self._folder = folder
        path = files.in_folder(folder, _MANIFEST)
        advice = "Remove the folder; the teacher can be asked again"
        found = strict_json.read_object(path, advice)
        facts, sums = found.get("facts"), found.get("sha256")
        if not (isinstance(sums, list) and sums and isinstance(facts, dict)):
            raise errors.UserError(f"{path} is damaged. {advice}.")
        self.facts: Mapping[str, Any] = facts
        self._sums: list[str] = sums
        first = next(self._parts())
        self.names = sorted(first)
        # A number for each token can be cut; tags, whose last axis are the
        # classes, are cut by the objective.
        self.layout = tuple(
            layouts.Feature(
                f"{distillation.PREFIX}{name}",
                first[name].shape[1:],
                "float32",
                0 if name in distillation.OF_TOKENS else None,
            )
            for name in self.names
        )

    def _parts(self) -> Iterator[base.Outputs]:
        for number, sha256 in enumerate(self._sums):
            path = _part(self._folder, number)
            if not files.exists(path) or files.sha256(path) != sha256:
                raise errors.UserError(
                    f"{path} is missing or damaged. Remove the folder; the "
                    "same command asks the teacher again."
                )
            with np.load(io.BytesIO(files.read_bytes(path))) as arrays:
                yield {name: arrays[name] for name in arrays.files}

    def joined(
        self, framed: Iterable[Sequence[bytes]]
    ) -> Iterator[Sequence[bytes]]:
        layout = layouts.with_padding(self.layout)
        added = (
            message
            for part in self._parts()
            for message in tfrecord.encode_batch(
                layout,
                {f"{distillation.PREFIX}{k}": v for k, v in part.items()},
            )
        )
        for batch in framed:
            # Two messages, one behind the other, are one with the features of
            # both (protobuf: "Last One Wins", embedded messages are merged).
            yield tfrecord.frame_batch(
                [tfrecord.unframed(record) + next(added) for record in batch]
            )


def facts_of(
    asked: teacher.Teacher | teacher.SavedTexts,
    task: base.Task,
    examples: Sequence[base.Example],
) -> dict[str, Any]:
    """Return what a teacher's outputs for training examples follow from.

    A teacher that cuts texts otherwise is refused where that matters.
    """
    facts = _data_facts(task, examples)
    if facts["records"]:
        require_same_tokens(asked.task, task)
    return {**facts, "teacher": asked.facts}


def require_same_tokens(asked: base.Task, task: base.Task) -> None:
    if _records(asked) != _records(task):
        raise errors.UserError(
            f"`{teacher.OPTION}` has another vocabulary or cuts texts in "
            "another way than the student. Here the outputs belong to single "
            "tokens: use the same vocabulary, `max_seq_length` and windows."
        )


def store(
    asked: teacher.Teacher | teacher.SavedTexts,
    facts: Mapping[str, Any],
    examples: Sequence[base.Example],
    folder: str,
) -> StoredOutputs:
    """Ask a teacher for the outputs of all examples, if nobody has yet."""
    text = strict_json.dumps(facts, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    place = os.path.join(folder, f"teacher-{facts['task']}-{key}")
    if not files.exists(os.path.join(place, _MANIFEST)):
        _fill(place, asked, examples, facts)
    return StoredOutputs(place)


def _data_facts(
    task: base.Task, examples: Sequence[base.Example]
) -> dict[str, Any]:
    are_of_tokens = task.output_widths or task.outputs_are_positions
    # Of one file, options may choose other rows, columns or levels.
    digest = hashlib.sha256()
    for example in examples:
        if type(example).__repr__ is object.__repr__:
            example = example.__getstate__()  # Theirs is a memory address.
        digest.update(f"{example!a}\0".encode())
    return {
        "examples_sha256": digest.hexdigest(),
        "split": base.TRAIN,
        "task": task.name,
        "records": _records(task) if are_of_tokens else None,
    }


def _records(task: base.Task) -> dict[str, Any]:
    """Return what records follow from, beside the texts."""
    tokenizer = task.tokenizer
    return {
        "vocab_sha256": tokenizer.fingerprint,
        **task.settings,
        **tokenizer.settings,
    }


def _fill(
    folder: str,
    asked: teacher.Teacher | teacher.SavedTexts,
    examples: Sequence[base.Example],
    facts: Mapping[str, Any],
) -> None:
    files.make_folder(folder)
    asked.task.remarks = {}
    starts = range(0, len(examples), _PART)
    with progress.Progress("teacher", len(examples), "examples") as bar:
        for number, start in enumerate(starts):
            some = examples[start : start + _PART]
            path = _part(folder, number)
            if not files.exists(path):
                _write_part(path, asked.outputs(some))
            bar.update(start + len(some))
    base.log_remarks(asked.task.remarks)
    sums = [files.sha256(_part(folder, n)) for n in range(len(starts))]
    content = {"facts": facts, "num_examples": len(examples), "sha256": sums}
    text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(folder, _MANIFEST), text)
    logging.info("Wrote the teacher's outputs to %s", folder)


def _write_part(path: str, outputs: base.Outputs) -> None:
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            raise errors.UserError(
                f"`{teacher.OPTION}` has outputs {name!r} that are not finite. "
                "Its weights are damaged, or too large; name another one."
            )
    saved_outputs.write_arrays(path, {**outputs})


def _part(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:05d}.npz")


def is_stored(path: str) -> bool:
    return files.exists(os.path.join(path, _MANIFEST))


def open_stored(
    folder: str, task: base.Task, examples: Sequence[base.Example]
) -> StoredOutputs:
    """Open a folder that an earlier run left, for the same examples."""
    found, wanted = StoredOutputs(folder), _data_facts(task, examples)
    names = [n for n in wanted if found.facts.get(n) != wanted[n]]
    if names:
        raise errors.UserError(
            f"`{teacher.OPTION}={folder}` holds the outputs for other training "
            "data, or was made by an earlier version: it differs in "
            f"{', '.join(names)}. Name the teacher itself."
        )
    return found
