"""Files on disk or in a bucket: find them by pattern, replace them whole.

Paths with a scheme (`gs://`, `ram://`) go through `tf.io.gfile`; plain paths
use the standard library, so that preparing data never loads TensorFlow for
them.
"""

import contextlib
import glob
import hashlib
import os
import pathlib
from collections.abc import Iterator
from typing import IO

from albert_tf import errors


def is_remote(path: str) -> bool:
    """Tell whether `path` names a place that only TensorFlow can open."""
    return "://" in path


def _gfile():  # type: ignore[no-untyped-def]
    from tensorflow.io import gfile  # Slow to import: only for remote paths.

    return gfile


def exists(path: str) -> bool:
    """Tell whether a file or folder of this name exists."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def make_folder(path: str) -> None:
    """Create a folder and its parents; fine if it exists.

    Raises:
        errors.UserError: A file of that name is in the way, or the place may
            not be written.
    """
    if is_remote(path):
        _gfile().makedirs(path)
        return
    try:
        os.makedirs(path or ".", exist_ok=True)
    except OSError as error:
        raise errors.UserError(
            f"Cannot create the folder {path!r}: {error.strerror}. "
            "Choose a place that you may write to."
        ) from error


def expand_patterns(patterns: str, option: str) -> list[str]:
    """Expand comma-separated glob patterns into a sorted list of files.

    Args:
        patterns: For example `"corpus/a.txt,corpus/b/*.txt"`.
        option: Name of the option the patterns came from, for the message.

    Returns:
        Paths, sorted within each pattern, each named once.

    Raises:
        errors.UserError: Nothing was given, or a pattern matches no file.
    """
    found: dict[str, None] = {}
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    wanted = [pattern for pattern in wanted if pattern]
    if not wanted:
        raise errors.UserError(
            f"--{option} is empty. Give one or more files or glob patterns, "
            "separated by commas."
        )
    for pattern in wanted:
        if is_remote(pattern):
            matches = sorted(_gfile().glob(pattern))
        else:
            matches = sorted(p for p in glob.glob(pattern) if os.path.isfile(p))
        if not matches:
            raise errors.UserError(
                f"--{option}={pattern} matches no file. Check the spelling "
                f"(the current folder is {os.getcwd()}), and quote patterns so "
                "that the shell leaves them alone."
            )
        found.update(dict.fromkeys(matches))
    return list(found)


def require_file(path: str, option: str) -> str:
    """Return `path` if it is a file.

    Raises:
        errors.UserError: It is missing or a folder.
    """
    present = exists(path) if is_remote(path) else os.path.isfile(path)
    if not present:
        raise errors.UserError(
            f"--{option}={path} is not a file. Check the path (the current "
            f"folder is {os.getcwd()})."
        )
    return path


def read_bytes(path: str) -> bytes:
    """Read a whole file."""
    if is_remote(path):
        with _gfile().GFile(path, "rb") as stream:
            return bytes(stream.read())
    return pathlib.Path(path).read_bytes()


def sha256(path: str) -> str:
    """Return the hexadecimal SHA-256 of a file's content."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


@contextlib.contextmanager
def replace_atomically(path: str, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when complete.

    The bytes go to `PATH.partial`, are synced to the disk and renamed. After an
    error inside the `with` block the partial file is removed and whatever stood
    under `path` before is untouched.

    Args:
        path: The file.
        sync: Whether to wait for the disk; without it, files survive a killed
            process but perhaps not a power cut.
    """
    if is_remote(path):  # Object stores show an object only when it is closed.
        with _gfile().GFile(path, "wb") as stream:
            yield stream
        return
    partial = f"{path}.partial"
    try:
        with open(partial, "wb") as stream:
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        raise


def sync(path: str) -> None:
    """Have the disk hold what was written to a local file."""
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())


def write_text(path: str, text: str) -> None:
    """Write a small text file atomically, as UTF-8."""
    with replace_atomically(path) as stream:
        stream.write(text.encode("utf-8"))
