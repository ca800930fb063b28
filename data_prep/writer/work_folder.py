"""The folder in which the writer keeps finished work.

Only one process at a time may use it. Work is finished once a record with its
checksums is written after it. Files that do not match their checksums, for
example after a power failure, are named in a warning and written again. So only
the description of the job is synced to the disk.
"""

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.common import errors, files, folder_lock, strict_json
from data_prep.writer import checksums

_LOCK, _JOB = "lock", "job"
# The job is stored twice, because without it all work would be lost.
_JOB_COPIES = _JOB, "job-copy"
# What a run has written before its job.
_STARTED = re.compile(rf"{_LOCK}|{_JOB}\.json(.*{re.escape(files.PARTIAL)})?")
# Program and format of the folder.
_OWNER = "albert_tf create_pretraining_data, 3"


class WorkFolder:
    """Finished work of one job, which a later start of the same job uses."""

    def __init__(self, path: str) -> None:
        self.path = path

    def block_path(self, index: int) -> str:
        return os.path.join(self.path, f"block-{index:06d}.npy")

    def unit_path(self, number: int) -> str:
        return os.path.join(self.path, f"unit-{number:06d}")

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the values that `write` stored under a name, or None.

        A damaged record is removed, with a warning.
        """
        path = self._record(name)
        values = _read_record(path)
        if values is None and os.path.exists(path):
            _warn(path, "is damaged")
            os.remove(path)
        return values

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Store values: the work that they describe is finished.

        `files` in the values has the checksums of the files of this work.
        """
        files.write_text(
            self._record(name),
            _record_text(values),
            unfinished_work=name not in _JOB_COPIES,
        )

    def _record(self, name: str) -> str:
        return os.path.join(self.path, f"{name}.json")

    def read_finished(
        self, name: str, paths: Sequence[str]
    ) -> dict[str, Any] | None:
        """Return the values of finished work, or None.

        All its files are read and compared with their checksums. If one is
        damaged, the record of the work is removed, with a warning.
        """
        values = self.read(name)
        if values is None:
            return None
        for path, checksum in zip(paths, values["files"], strict=True):
            gone = not os.path.exists(path)
            if gone or checksums.of_file(path) != tuple(checksum):
                _warn(path, "is missing" if gone else "is damaged")
                os.remove(self._record(name))
                return None
        return values

    def has_finished_work(self) -> bool:
        """Tell whether a block is finished; everything else comes later."""
        names = os.listdir(self.path)
        return any(re.fullmatch(r"block-\d+\.json", name) for name in names)

    def remove_files(self, prefix: str) -> None:
        """Remove all files whose names begin with `prefix`.

        The descriptions of the job go last, `job.json` at the end: if this is
        killed, the same command must know the folder again.
        """
        job_files = {f"{name}.json" for name in _JOB_COPIES}
        names = set(os.listdir(self.path)) - {_LOCK}
        for name in sorted(names, key=lambda name: (name in job_files, name)):
            if name.startswith(prefix):
                os.remove(os.path.join(self.path, name))

    def job(self) -> dict[str, Any] | None:
        """Return the job of `same_job.describe`; None for a new folder."""
        copies = (_read_record(self._record(name)) for name in _JOB_COPIES)
        return next((job for job in copies if job is not None), None)

    def begin(self, job: Mapping[str, Any]) -> None:
        for name in _JOB_COPIES:
            self.read(name)  # For its warning.
            self.write(name, {**job, "owner": _OWNER})

    def remove(self) -> None:
        self.remove_files("")
        with contextlib.suppress(OSError):  # Another run may hold it.
            os.remove(os.path.join(self.path, _LOCK))
            os.rmdir(self.path)


def whole(values: dict[str, Any] | None) -> dict[str, Any]:
    """Return the values of work that is finished; None is a damage on disk."""
    if values is None:
        raise OSError(errno.EIO, "Finished work was damaged during this run")
    return values


def _record_text(values: Mapping[str, Any]) -> str:
    content = strict_json.dumps(values, sort_keys=True).encode()
    values = {**values, "crc32c": checksums.of_bytes(content).crc32c}
    return strict_json.dumps(values, sort_keys=True) + "\n"


def _read_record(path: str) -> dict[str, Any] | None:
    """Return the values of a record; None if it is missing or damaged."""
    try:
        content = files.read_bytes(path)
        values: dict[str, Any] = strict_json.loads(content)
        del values["crc32c"]
        is_whole = _record_text(values).encode() == content
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return values if is_whole else None


def _warn(path: str, how: str) -> None:
    logging.warning("%s %s: this work is repeated.", path, how)


@contextlib.contextmanager
def hold(path: str) -> Iterator[WorkFolder]:
    """Make a work folder, or open one, and lock it against other runs.

    Processes that are forked meanwhile hold the lock, too, so that a run after
    a killed one cannot begin while these still write. A folder without finished
    work is removed at the end.
    """
    _refuse_other_folder(path)
    lock = os.path.join(path, _LOCK)
    with folder_lock.hold(path, "output_file", lock=lock):
        work = WorkFolder(path)
        try:
            yield work
        finally:
            if os.path.isdir(path) and not work.has_finished_work():
                work.remove()


def _refuse_other_folder(path: str) -> None:
    """Refuse to use anything but a work folder of this program."""
    if not os.path.lexists(path):
        return
    names: set[str] = set()
    if os.path.isdir(path):
        names = set(os.listdir(path))
        job = WorkFolder(path).job() or {}
        # A run that has just started has no job yet.
        if job.get("owner") == _OWNER or all(map(_STARTED.fullmatch, names)):
            return
    shown = ", ".join(sorted(names)[:3])
    raise errors.UserError(
        f"--output_file: unfinished work is kept in {path}, but this is not a "
        f"work folder of this version of the program; it holds: {shown}. "
        "Nothing in it was changed. Move it away, or choose another "
        "--output_file."
    )
