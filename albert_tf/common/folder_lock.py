"""A lock against two processes that write to one folder.

The system holds it while the process lives (`flock`), so the lock file of a
killed process blocks nobody. Reading needs no lock. Remote folders (`gs://`)
are not locked, nor are file systems without locks, which cause a warning.
"""

import contextlib
import datetime
import errno
import fcntl
import os
import pathlib
import socket
import sys
import time
from collections.abc import Callable, Iterator

from absl import logging

from albert_tf.common import errors, files

# Name of the lock in a folder.
NAME = ".lock"
_MARK = "Held by "  # How the content of a lock file begins.
# Seconds to wait for the children of a killed process to end.
PATIENCE = 5.0
_SECONDS_BETWEEN_TRIES = 0.05
# Errors where a file cannot be created.
_NO_PLACE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
# Errors of file systems that have no locks.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


@contextlib.contextmanager
def hold(
    folder: str,
    option: str,
    patience: float | None = None,
    *,
    advice: str = "Choose a place that you may write to.",
    remedy: str = "Wait for it, end it, or choose another place.",
    lock: str | None = None,
) -> Iterator[None]:
    """Keep every other process from writing to a folder.

    A missing folder is created, and removed at the end if it is still empty.
    Processes that are forked meanwhile hold the lock, too.

    Args:
        patience: Seconds to wait for another process; None for `PATIENCE`.
        advice: For messages: what to do if the folder is not writable.
        remedy: For messages: what to do if another process holds it.
        lock: The lock file, by default `NAME` in the folder.
    """
    if files.is_remote(folder):
        yield
        return
    path = lock or os.path.join(folder, NAME)
    place = os.path.dirname(path)
    missing, above = [], os.path.abspath(place)  # The deepest first.
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)

    def refuse(holder: str) -> errors.UserError:
        return errors.UserError(
            f"`{option}={folder}` is in use by {holder}. A second program that "
            f"writes there would damage its work. {remedy}"
        )

    try:
        try:
            descriptor = acquire(
                path,
                refuse,
                prepare=lambda: files.make_folder(place, option),
                patience=patience,
            )
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            raise errors.UserError(
                f"`{option}={folder}` cannot be written: {error.strerror}. "
                f"{advice}"
            ) from error
        try:
            yield
        finally:
            if _is_in_place(descriptor, path):
                os.remove(path)
            os.close(descriptor)
    finally:
        for empty in missing:
            with contextlib.suppress(OSError):  # Something has come into it.
                os.rmdir(empty)


def acquire(
    path: str,
    refuse: Callable[[str], errors.UserError],
    *,
    prepare: Callable[[], None] = lambda: None,
    patience: float | None = None,
) -> int:
    """Return an open file that no other process has locked.

    Closing it releases the lock.

    Args:
        refuse: Returns the error, given a description of the holder.
        prepare: Called before each try; creates the folder.
        patience: See `hold`.
    """
    deadline = time.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        is_last = time.monotonic() >= deadline
        prepare()
        with contextlib.ExitStack() as stack:
            try:
                descriptor = _open(path)
                stack.callback(os.close, descriptor)
                if _lock(descriptor, path):
                    stack.pop_all()
                    return descriptor
            except FileNotFoundError:  # Its folder has just been removed.
                if is_last:
                    raise
            except BlockingIOError:
                if is_last:
                    raise refuse(_holder(descriptor)) from None
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _open(path: str) -> int:
    if os.path.islink(path):  # Not of this program: it makes no links.
        os.remove(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return os.open(path, flags, 0o666)


def _lock(descriptor: int, path: str) -> bool:
    """Lock a file and write the holder into it.

    Returns:
        Whether the file is still in its place.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: The disk is full; the file is removed.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logging.warning(
            "%s: the file system has no locks (%s). Make sure that no other "
            "process writes to the same place.",
            path,
            error.strerror,
        )
    if not _is_in_place(descriptor, path):
        return False
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
    return True


def _holder(descriptor: int) -> str:
    content = os.pread(descriptor, 1000, 0).decode(errors="replace")
    is_known = content.startswith(_MARK)  # Else it is just being written.
    return content.removeprefix(_MARK) if is_known else "another process"


def _is_in_place(descriptor: int, path: str) -> bool:
    """Tell whether an open lock file is still the one at its path."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:  # Its holder has removed it.
        return False
    return os.path.samestat(os.fstat(descriptor), found)
