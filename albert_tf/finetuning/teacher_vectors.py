"""Vectors of a teacher in NumPy files: a row for each training text."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.common import errors, files
from albert_tf.finetuning import base, saved_outputs
from albert_tf.model.losses import distillation

OPTION = "teacher_vectors"
_ADVICE = "Write it again, with a row for each text of `train_file`, in order."


class FileVectors(saved_outputs.Targets):
    """The rows of files side by side, which stay on the disk.

    The vectors, float32 [texts, sum of the widths], have the length 1. Each
    file has the same share: a cosine is the mean of the files' cosines.
    """

    def __init__(self, written: str):
        """Open and check files: `PATH` or `PATH,PATH`."""
        self._written, paths = written, files.split_list(written)
        if not paths:
            raise errors.UserError(f"`{OPTION}={written}` names no file.")
        self._tables = [_open(path) for path in paths]
        self._count = len(self._tables[0])
        for path, table in zip(paths, self._tables, strict=True):
            if len(table) != self._count:
                raise errors.UserError(
                    f"`{OPTION}`: {path} has {len(table):,} rows, but "
                    f"{paths[0]} has {self._count:,}. {_ADVICE}"
                )
            _check(path, table)
        self.width = sum(table.shape[1] for table in self._tables)
        facts = {"vectors_sha256": [files.sha256(path) for path in paths]}
        super().__init__(facts, {distillation.VECTOR: (self.width,)})

    def require_rows(self, count: int) -> None:
        if count != self._count:
            raise errors.UserError(
                f"`{OPTION}={self._written}` has {self._count:,} rows, where "
                f"{count:,} are needed: one for each text of `train_file`. "
                "Lines without text have none. Write the vectors again."
            )

    def parts(self) -> Iterator[base.Outputs]:
        blocks = (_blocks(table) for table in self._tables)
        for block in zip(*blocks, strict=True):
            vectors = np.concatenate([*map(saved_outputs.unit, block)], 1)
            yield {distillation.VECTOR: saved_outputs.unit(vectors)}


def _open(path: str) -> np.ndarray:
    files.require_regular(files.require_file(path, OPTION))
    if files.is_remote(path):
        raise errors.UserError(
            f"`{OPTION}={path}` is remote, but is read from the disk. Copy it."
        )
    try:
        table: Any = np.lib.format.open_memmap(path, mode="r")
    except saved_outputs.DAMAGE as error:
        raise errors.UserError(
            f"`{OPTION}={path}` is not a whole NumPy file. {_ADVICE}"
        ) from error
    shape = table.shape
    if table.dtype.kind != "f" or len(shape) != 2 or 0 in shape:
        raise errors.UserError(
            f"`{OPTION}={path}` holds {table.dtype} {list(shape)}, not "
            f"floating-point numbers [texts, width]. {_ADVICE}"
        )
    return np.asarray(table)


def _blocks(table: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(table), saved_outputs.PART):
        yield table[start : start + saved_outputs.PART]


def _check(path: str, table: np.ndarray) -> None:
    """Refuse numbers that are no vectors of texts."""
    varies, start = len(table) == 1, 1
    for block in _blocks(table):
        varies = varies or bool((block != table[0]).any())
        for fault, is_bad in (
            ("is not finite", ~np.isfinite(block).all(1)),
            ("is 0 only", ~block.any(1)),
        ):
            if is_bad.any():
                row = start + int(is_bad.argmax())
                raise errors.UserError(
                    f"`{OPTION}={path}`: row {row:,} {fault}. {_ADVICE}"
                )
        start += len(block)
    if not varies:
        raise errors.UserError(
            f"`{OPTION}={path}`: all rows are equal. {_ADVICE}"
        )
