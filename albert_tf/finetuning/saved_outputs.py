"""Outputs of models for the records of examples, kept in files.

`SPLIT_outputs.npz` in the folder of a run has those for a split, for ensembles.
A teacher's outputs for the training examples have a folder: parts of equally
many examples, and a manifest that is written when all parts are there. Each
part holds a hash of its numbers, its number and its key (the teacher and the
data); one without it, as after a power failure, is computed again.
"""

import abc
import dataclasses
import hashlib
import io
import itertools
import os
import struct
import tokenize
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
PART = 2048  # Examples of a part; no output depends on it.
# As many first numbers of a reduced vector are a vector of their own.
_PREFIXES = (32, 64, 128, 256)
# What numpy and zipfile raise for a file that is damaged, or another one.
DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclasses.dataclass(frozen=True)
class SavedOutputs:
    """Outputs for all records of a split; `key` of `features.describe`."""

    outputs: base.Outputs
    source: str
    key: Mapping[str, Any]


def path(folder: str, split: str) -> str:
    return os.path.join(folder, f"{split}_outputs.npz")


def save(folder: str, split: str, saved: SavedOutputs) -> None:
    names = sorted(saved.outputs)
    about = strict_json.dumps(
        {"source": saved.source, "facts": saved.key, "outputs": names}
    )
    _write_arrays(
        path(folder, split), {_FACTS: np.array(about), **saved.outputs}
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
        about = strict_json.loads(str(outputs.pop(_FACTS)))
        # A zip file whose number of entries is damaged just has fewer.
        if about.get("outputs", sorted(outputs)) != sorted(outputs):
            raise ValueError("An output is missing.")
        saved = SavedOutputs(outputs, about["source"], about["facts"])
        are_numbers = all((x < np.inf).all() for x in outputs.values())
    except DAMAGE:
        raise errors.UserError(
            f"{file} is damaged. Remove it, and run the folder's command "
            "again with `do_eval` or `do_predict`."
        ) from None
    if not are_numbers:
        raise errors.UserError(
            f"{file} holds numbers that are not finite, as the weights of that "
            "run are not. Leave it out, or train it again with a lower "
            "`learning_rate`."
        )
    return saved


def _write_arrays(target: str, arrays: Mapping[str, np.ndarray]) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    files.write_together({target: content.getvalue()})


def _read_arrays(file: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(files.read_bytes(file))) as arrays:
        return {name: arrays[name] for name in arrays.files}


class Targets(abc.ABC):
    """What a student learns: outputs for the records of training examples.

    Attributes:
        key: All that they depend on.
        names: Of the outputs.
        layout: The features that records get, in the order of the names.
    """

    def __init__(
        self, key: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
    ):
        self.key = key
        self.names = sorted(shapes)
        # With one number a token, padding is trimmed with the batch's; for
        # tags, whose last axis is the classes, the objective does it.
        self.layout = tuple(
            layouts.Feature(
                f"{layouts.TEACHER}{name}",
                shapes[name],
                "float32",
                0 if name in layouts.TOKEN_OUTPUTS else None,
            )
            for name in self.names
        )

    @abc.abstractmethod
    def parts(self) -> Iterator[base.Outputs]:
        """Yield the outputs for blocks of records, in the order of these."""

    def add_to_records(
        self, framed: Iterable[Sequence[bytes]]
    ) -> Iterator[Sequence[bytes]]:
        """Add the outputs, as features, to framed records of the examples."""
        layout = layouts.with_padding(self.layout)
        added = (
            message
            for part in self.parts()
            for message in tfrecord.encode_batch(
                layout, {f"{layouts.TEACHER}{k}": v for k, v in part.items()}
            )
        )
        for batch in framed:
            # Two messages, one behind the other, are one with the features of
            # both (protobuf: "Last One Wins", embedded messages are merged).
            yield tfrecord.frame_batch(
                [tfrecord.unframe(record) + next(added) for record in batch]
            )


class TeacherOutputs(Targets):
    """The outputs of a teacher that a folder holds."""

    def __init__(self, folder: str):
        self._folder = folder
        path = files.safe_join(folder, _MANIFEST)
        advice = "Remove the folder; the teacher can be asked again"
        content = strict_json.read_object(path, advice)
        key, count = content.get("facts"), content.get("parts")
        if not (type(count) is int and count > 0 and isinstance(key, dict)):
            raise errors.UserError(f"{path} is damaged. {advice}.")
        self.key, self._count = key, count
        first = next(self.parts())
        super().__init__(key, {k: v.shape[1:] for k, v in first.items()})

    def parts(self) -> Iterator[base.Outputs]:
        for number in range(self._count):
            part = _Part(self._folder, self.key, number, self._count)
            outputs = part.read()
            if outputs is None:
                raise errors.UserError(
                    f"{part.path} is missing or damaged. The command that "
                    "made the folder makes it anew; or name the teacher "
                    "itself."
                )
            yield outputs


class ReducedVectors(Targets):
    """Vectors projected on the directions in which they are longest.

    So the products of any two vectors change as little as they can: see
    `main_directions`. The result has the length 1 again.
    """

    def __init__(self, targets: Targets, size: int):
        (self._name,) = targets.names
        self._targets, self._size = targets, size
        key = {
            **targets.key,
            "teacher_dimensions": size,
            "prefixes": list(_PREFIXES),
        }
        super().__init__(key, {self._name: (size,)})

    def parts(self) -> Iterator[base.Outputs]:
        products: Any = 0.0
        for part in self._targets.parts():
            vectors = part[self._name]
            products += (vectors.T @ vectors).astype(np.float64)
        directions = main_directions(products, self._size)
        for part in self._targets.parts():
            yield {self._name: unit(part[self._name] @ directions)}


def main_directions(products: np.ndarray, size: int) -> np.ndarray:
    """Return directions in which vectors are longest, float32 [width, size].

    The first 32, 64, 128 and 256 columns span the directions of the first
    singular vectors, so as many numbers are vectors of their own. Between
    these places the directions are rotated at random, so that no number says
    much more than its neighbours, when each becomes a byte or a bit.

    Args:
        products: [width, width], the vectors' transpose times the vectors.
    """
    _, directions = np.linalg.eigh(products)
    rng = np.random.default_rng(0)
    chosen = directions[:, : -size - 1 : -1]
    chosen = chosen * np.sign(chosen.sum(0))  # LAPACK's sign is arbitrary.
    for start, end in itertools.pairwise((0, *_PREFIXES, size)):
        if width := chosen[:, start:end].shape[1]:
            rotation = np.linalg.qr(rng.standard_normal([width, width]))[0]
            chosen[:, start:end] @= rotation
    return chosen.astype(np.float32)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return rows [n, width] divided by their length, float32."""
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-300), np.float32)


def has_teacher_outputs(folder: str) -> bool:
    return files.exists(os.path.join(folder, _MANIFEST))


def store_outputs(
    folder: str,
    key: Mapping[str, Any],
    examples: Sequence[base.Example],
    compute: Callable[[Sequence[base.Example]], base.Outputs],
) -> None:
    """Compute and write the outputs of all parts that are not there and whole.

    Args:
        key: All that the outputs depend on.
        compute: From examples to the outputs for their records.
    """
    files.make_folder(folder)
    starts = range(0, len(examples), PART)
    with progress.Progress("teacher", len(examples), "examples") as bar:
        for number, start in enumerate(starts):
            block = examples[start : start + PART]
            part = _Part(folder, key, number, len(starts))
            if part.read() is None:
                part.write(_require_finite(compute(block)))
            bar.update(start + len(block))
    content = {"facts": key, "parts": len(starts)}
    text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
    path = os.path.join(folder, _MANIFEST)
    # A folder that is whole may be one for reading only.
    if not files.exists(path) or files.read_bytes(path) != text.encode():
        files.write_text(path, text)
        logging.info("Wrote the teacher's outputs to %s", folder)


@dataclasses.dataclass(frozen=True)
class _Part:
    """The `number`th of `count` parts of a teacher's outputs."""

    folder: str
    key: Mapping[str, Any]
    number: int
    count: int

    @property
    def path(self) -> str:
        return os.path.join(self.folder, f"{self.number:05d}.npz")

    def _digest(self, outputs: base.Outputs) -> str:
        identity = [self.key, self.number, self.count]
        digest = hashlib.sha256(
            strict_json.dumps(identity, sort_keys=True).encode()
        )
        for name, values in sorted(outputs.items()):
            digest.update(f"{name} {values.dtype} {values.shape} ".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()

    def write(self, outputs: base.Outputs) -> None:
        digest = np.array(self._digest(outputs))
        _write_arrays(self.path, {_FACTS: digest, **outputs})

    def read(self) -> base.Outputs | None:
        """Return the outputs; None if they are not what `write` wrote."""
        try:
            outputs = _read_arrays(self.path)
            digest = str(outputs.pop(_FACTS))
        except DAMAGE:  # Among them that the file is missing.
            return None
        return outputs if digest == self._digest(outputs) else None


def _require_finite(outputs: base.Outputs) -> base.Outputs:
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            raise errors.UserError(
                f"`teacher` has outputs {name!r} that are not finite. Its "
                "weights are damaged, or too large; name another one."
            )
    return outputs
