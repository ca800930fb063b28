"""A lock that keeps a second process out of a folder that one writes to.

It is held by the system for as long as the process lives (`flock`), so a file
that a killed process left behind keeps nobody out. Who only reads a folder
needs no lock. Remote folders (`gs://`) have none, nor have file systems that
cannot lock, of which a warning tells.
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

from albert_tf.common import errors, files, strict_json

# Name of the lock in a folder.
NAME = ".lock"
# Seconds to wait for a killed process whose children are about to end.
PATIENCE = 5.0
_SECONDS_BETWEEN_TRIES = 0.05
# What they say where nothing can be written under a name.
_NO_PLACE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
)
# What file systems say that have no locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_ADVICE = "Choose a place that you may write to."


@contextlib.contextmanager
def hold(
    folder: str,
    option: str,
    patience: float | None = None,
    advice: str = _ADVICE,
) -> Iterator[None]:
    """Keep every other process from writing to a folder.

    The folder is made if it is not there, and removed in the end if it was, and
    nothing has come into it. Processes forked meanwhile hold the lock, too.

    Args:
        folder: Where this process writes.
        option: Name of the option that names it, for messages.
        patience: Seconds to wait for another process; None for `PATIENCE`.
        advice: What to do where nothing may be written.

    Raises:
        errors.UserError: Another process holds it, it cannot be made, or
            nothing may be written there.
    """
    if files.is_remote(folder):
        yield
        return
    path = os.path.join(folder, NAME)
    with hold_file(path, option, folder, patience, advice):
        yield


@contextlib.contextmanager
def hold_file(
    path: str,
    option: str,
    value: str,
    patience: float | None = None,
    advice: str = _ADVICE,
) -> Iterator[None]:
    """Hold a lock of any name.

    Args:
        path: The file; made here with its folder, and removed in the end.
        option: Name of the option that the lock is for, for messages.
        value: What was given as the option.
        patience: See `hold`.
        advice: See `hold`.

    Raises:
        errors.UserError: Another process holds it, its folder cannot be made,
            or nothing may be written there.
    """
    folder = os.path.dirname(path)
    made = _missing(folder)

    def prepare() -> None:
        files.make_folder(folder, option)

    def refuse(holder: str) -> errors.UserError:
        return errors.UserError(
            f"is in use by {holder}. A second program that writes there would "
            "damage its work. Wait for it, end it, or choose another place.",
            option,
            value,
        )

    try:
        with _naming(option, value, advice):
            descriptor = acquire(
                path, refuse, prepare=prepare, patience=patience
            )
        try:
            yield
        finally:
            if _is_in_place(descriptor, path):
                os.remove(path)
            os.close(descriptor)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # Something has come into it.
                os.rmdir(folder)


@contextlib.contextmanager
def _naming(option: str, value: str, advice: str) -> Iterator[None]:
    """Have errors about a place that cannot be written name the option."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise errors.UserError(
            f"cannot be written: {error.strerror}. {advice}", option, value
        ) from error


def acquire(
    path: str,
    refuse: Callable[[str], errors.UserError],
    *,
    prepare: Callable[[], None] = lambda: None,
    patience: float | None = None,
) -> int:
    """Return an open file that no other process has locked.

    Closing it gives the lock back.

    Args:
        path: The file.
        refuse: Makes the error from who holds it, in words.
        prepare: Called before each try; makes the folder.
        patience: See `hold`.

    Raises:
        errors.UserError: That of `refuse`.
    """
    deadline = time.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        prepare()
        try:
            descriptor = _open(path)
        except FileNotFoundError:  # Its folder has just been removed.
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
            continue
        try:
            if _lock(descriptor, path):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise refuse(holder) from None
        os.close(descriptor)
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _open(path: str) -> int:
    if os.path.islink(path):  # Nothing here makes one; it may lead anywhere.
        os.remove(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return os.open(path, flags, 0o666)


def _lock(descriptor: int, path: str) -> bool:
    """Lock a file and say who holds it; tell whether it is still in place.

    Raises:
        BlockingIOError: Another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logging.warning(
            "%s: the file system has no locks (%s). See that no other process "
            "writes to the same place.",
            path,
            error.strerror,
        )
    if not _is_in_place(descriptor, path):
        return False
    if not _is_lock(os.pread(descriptor, 1000, 0)):
        os.close(descriptor)
        raise errors.UserError(
            f"{path} is the name of a lock, but a file that is none has it. "
            "Rename that file, or choose another place to write to."
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, strict_json.dumps(_self()).encode(), 0)
    return True


def _is_lock(content: bytes) -> bool:
    """Tell whether a file is empty, or one that a killed process has left."""
    try:
        return not content or "process" in strict_json.loads(content)
    except (strict_json.JsonError, TypeError):
        return False


def _is_in_place(descriptor: int, path: str) -> bool:
    """Tell whether an open lock is still the one that others will find."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:  # Its holder has cleared up.
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def _self() -> dict[str, str | int]:
    now = datetime.datetime.now().astimezone()
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "program": pathlib.Path(sys.argv[0]).stem,
        "since": now.isoformat(" ", "seconds"),
    }


def _holder(descriptor: int) -> str:
    """Say who holds a lock, as far as its file tells."""
    try:
        said = strict_json.loads(os.pread(descriptor, 1000, 0))
        place = ""
        if said["host"] != socket.gethostname():
            place = f" on {said['host']}"
        return (
            f"{said['program']}, process {said['process']}{place} or its "
            f"children, since {said['since']}"
        )
    except (ValueError, KeyError, TypeError):  # It is just being written.
        return "another process"


def _missing(folder: str) -> list[str]:
    """Return the folders that `make_folder` will make, the deepest first."""
    found = []
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found
