"""A lock against two processes that write to one folder.

The system holds it while the process lives (`flock`), so the lock file of a
killed process blocks nobody. Reading needs no lock. Remote folders (`gs://`)
are not locked, nor are file systems without locks, which cause a warning.
"""

import contextlib
import datetime
import errno
import os
import pathlib
import socket
import sys
import time
from collections.abc import Iterator

from absl import logging

from albert_tf.common import errors, files

# Name of the lock in a folder.
NAME = ".lock"
_MARK = "Held by "  # How the content of a lock file begins.
# Seconds to wait for the children of a killed process to end.
PATIENCE = 5.0
_SECONDS_BETWEEN_TRIES = 0.05
_NO_PLACE = {*files.NO_PLACE, errno.ENAMETOOLONG}


@contextlib.contextmanager
def hold(
    folder: str,
    option: str,
    patience: float | None = None,
    *,
    advice: str = "Choose a place that you may write to.",
    remedy: str = "Wait for it, end it, or choose another place.",
    lock: str | None = None,
) -> Iterator[int | None]:
    """Keep every other process from writing to a folder.

    A missing folder is created, and removed at the end if it is still empty.
    Processes that are forked meanwhile hold the lock, too.

    Args:
        patience: Seconds to wait for another process; None for `PATIENCE`.
        advice: For messages: what to do if the folder is not writable.
        remedy: For messages: what to do if another process holds it.
        lock: The lock file, by default `NAME` in the folder.

    Yields:
        The open lock file; None for a remote folder.
    """
    if files.is_remote(folder):
        yield None
        return
    path = lock or os.path.join(folder, NAME)
    with _removing_empty_folders(os.path.dirname(os.path.abspath(path))):
        try:
            descriptor = _wait_for_lock(path, option, patience)
        except BlockingIOError as error:
            raise errors.UserError(
                f"`{option}={folder}` is in use by {error.strerror}. A second "
                f"program that writes there would damage its work. {remedy}"
            ) from None
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            raise errors.UserError(
                f"`{option}={folder}` cannot be written: {error.strerror}. "
                f"{advice}"
            ) from error
        try:
            yield descriptor
        finally:
            if files.is_at(descriptor, path):
                os.remove(path)
            os.close(descriptor)


@contextlib.contextmanager
def _removing_empty_folders(folder: str) -> Iterator[None]:
    """Remove, at the end, folders that were missing and are empty."""
    missing = []  # The deepest first.
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    try:
        yield
    finally:
        for empty in missing:
            with contextlib.suppress(OSError):  # Something has come into it.
                os.rmdir(empty)


def _wait_for_lock(path: str, option: str, patience: float | None) -> int:
    """Return an open file that no other process has locked."""
    deadline = time.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        is_last = time.monotonic() >= deadline
        files.make_folder(os.path.dirname(path), option)
        try:
            descriptor = _try_lock(path)
            if descriptor is not None:
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            if is_last:  # Its folder may have been removed before.
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _try_lock(path: str) -> int | None:
    """Open and lock a file; None if its holder has just removed it.

    Raises:
        BlockingIOError: Another process holds it; `strerror` describes that.
        OSError: The disk is full; the file is removed.
    """
    with contextlib.ExitStack() as stack:
        descriptor = _open_lock_file(path)
        stack.callback(os.close, descriptor)
        try:
            error = files.try_lock(descriptor)
        except BlockingIOError as held:
            content = os.pread(descriptor, 1000, 0).decode(errors="replace")
            holder = "another process"  # Its name is just being written.
            if content.startswith(_MARK):
                holder = content.removeprefix(_MARK)
            raise BlockingIOError(held.errno, holder) from None
        if error:
            logging.warning(
                "%s: the file system has no locks (%s). Make sure that no "
                "other process writes to the same place.",
                path,
                error.strerror,
            )
        if not files.is_at(descriptor, path):
            return None
        _write_holder_name(descriptor, path)
        stack.pop_all()
    return descriptor


def _open_lock_file(path: str) -> int:
    if os.path.islink(path):  # Not of this program: it makes no links.
        os.remove(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return os.open(path, flags, 0o666)


def _write_holder_name(descriptor: int, path: str) -> None:
    """Write who holds the lock; refuse a file with other content."""
    raw = os.pread(descriptor, 1000, 0)
    content = raw.decode(errors="replace")
    # After a power failure a file may hold zeros.
    is_damaged = b"\0" in raw and len(raw) < 300
    if content and not (is_damaged or content.startswith(_MARK)):
        raise errors.UserError(
            f"{path} must be a lock file, but it has other content. Rename "
            "that file, or choose another place to write to."
        )
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    holder = (
        f"{_MARK}{pathlib.Path(sys.argv[0]).stem}, process {os.getpid()} or "
        f"its children on {socket.gethostname()}, since {now}"
    )
    try:
        with files.name_full_disk(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)
    except OSError:
        os.remove(path)
        raise
