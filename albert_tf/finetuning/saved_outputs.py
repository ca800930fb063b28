"""Outputs of models for the records of examples, kept in files.

`SPLIT_outputs.npz` in the folder of a run has those for a split, for ensembles.
A teacher's outputs for the training examples have a folder: parts of as many
examples each, and a manifest that is written when all parts are there.
"""

import dataclasses
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, progress, strict_json
from albert_tf.data import layouts, tfrecord
from albert_tf.finetuning import base

# Name of the entry that is no output.
_FACTS = "facts_json"
_MANIFEST = "teacher_outputs.json"
_PART = 2048  # Examples of a part. The number decides about no output.
# What numpy and zipfile raise for a file that is damaged, or another one.
_DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclasses.dataclass(frozen=True)
class SavedOutputs:
    """Outputs for all records of a split; `facts` of `features.describe`."""

    outputs: base.Outputs
    source: str
    facts: Mapping[str, Any]


def path(folder: str, split: str) -> str:
    return os.path.join(folder, f"{split}_outputs.npz")


def save(folder: str, split: str, saved: SavedOutputs) -> None:
    names = sorted(saved.outputs)
    facts = strict_json.dumps(
        {"source": saved.source, "facts": saved.facts, "outputs": names}
    )
    _write_arrays(
        path(folder, split), {_FACTS: np.array(facts), **saved.outputs}
    )


def load(folder: str, split: str) -> SavedOutputs:
    file = files.safe_join(folder, os.path.basename(path(folder, split)))
    if not files.exists(file):
        raise errors.UserError(
            f"{file} is not there. Run the folder's command again with "
            "`do_eval` (for a dev split) or `do_predict` (for a test split), "
            "without `do_train` if it is trained."
        )
    try:
        outputs = _read_arrays(file)
        facts = strict_json.loads(str(outputs.pop(_FACTS)))
        # A zip file whose number of entries is damaged just has fewer.
        if facts.get("outputs", sorted(outputs)) != sorted(outputs):
            raise ValueError("An output is missing.")
        if not all((values < np.inf).all() for values in outputs.values()):
            raise ValueError("A number is not finite.")
        return SavedOutputs(outputs, facts["source"], facts["facts"])
    except _DAMAGE:
        raise errors.UserError(
            f"{file} is damaged. Remove it, and run the folder's command "
            "again with `do_eval` or `do_predict`."
        ) from None


def _write_arrays(target: str, arrays: Mapping[str, np.ndarray]) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    files.write_together({target: content.getvalue()})


def _read_arrays(file: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(files.read_bytes(file))) as arrays:
        return {name: arrays[name] for name in arrays.files}


class StoredOutputs:
    """The outputs of a teacher for the records of training examples."""

    def __init__(self, folder: str):
        self._folder = folder
        path = files.safe_join(folder, _MANIFEST)
        advice = "Remove the folder; the teacher can be asked again"
        content = strict_json.read_object(path, advice)
        facts, sums = content.get("facts"), content.get("sha256")
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
                f"{layouts.TEACHER}{name}",
                first[name].shape[1:],
                "float32",
                0 if name in layouts.TOKEN_OUTPUTS else None,
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
            yield _read_arrays(path)

    def joined(
        self, framed: Iterable[Sequence[bytes]]
    ) -> Iterator[Sequence[bytes]]:
        """Add the outputs to framed records of the same examples."""
        layout = layouts.with_padding(self.layout)
        added = (
            message
            for part in self._parts()
            for message in tfrecord.encode_batch(
                layout,
                {f"{layouts.TEACHER}{k}": v for k, v in part.items()},
            )
        )
        for batch in framed:
            # Two messages, one behind the other, are one with the features of
            # both (protobuf: "Last One Wins", embedded messages are merged).
            yield tfrecord.frame_batch(
                [tfrecord.unframe(record) + next(added) for record in batch]
            )


def is_stored(folder: str) -> bool:
    return files.exists(os.path.join(folder, _MANIFEST))


def store(
    folder: str,
    facts: Mapping[str, Any],
    examples: Sequence[base.Example],
    ask: Callable[[Sequence[base.Example]], base.Outputs],
) -> None:
    """Ask for the outputs of all examples, behind the last part that is there.

    Args:
        facts: What the outputs follow from.
        ask: From examples to the outputs for their records.
    """
    files.make_folder(folder)
    starts = range(0, len(examples), _PART)
    with progress.Progress("teacher", len(examples), "examples") as bar:
        for number, start in enumerate(starts):
            part = examples[start : start + _PART]
            path = _part(folder, number)
            if not files.exists(path):
                _write_arrays(path, _finite(ask(part)))
            bar.update(start + len(part))
    sums = [files.sha256(_part(folder, n)) for n in range(len(starts))]
    content = {"facts": facts, "num_examples": len(examples), "sha256": sums}
    text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(folder, _MANIFEST), text)
    logging.info("Wrote the teacher's outputs to %s", folder)


def _finite(outputs: base.Outputs) -> base.Outputs:
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            raise errors.UserError(
                f"`teacher` has outputs {name!r} that are not finite. Its "
                "weights are damaged, or too large; name another one."
            )
    return outputs


def _part(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:05d}.npz")
