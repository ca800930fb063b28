"""Arrays in npz files: batches, and variables."""

import contextlib
import glob
import itertools
import os
import pathlib
import sys
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
from program import Arrays

# Between two looks for the next batch of another process.
FOLLOW_SECONDS = 1.0


def load_npz(path: str, option: str) -> Arrays:
    """Read an npz file.

    Args:
        path: The file.
        option: Name of the option that it comes from.

    Raises:
        SystemExit: It cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (
        *(OSError, EOFError, TypeError, ValueError, AttributeError),
        *(NotImplementedError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise SystemExit(
            f"--{option}: {path} cannot be read as an npz file: {error}. Write "
            "it again, or name another one."
        ) from None


def save_npz(path: str, arrays: Arrays) -> None:
    """Write an npz file; an old one stays until the new one is complete.

    Raises:
        SystemExit: There is no room, or nothing may be written.
    """
    with replace_file(path) as stream:
        np.savez(stream, **arrays)


@contextlib.contextmanager
def replace_file(path: str) -> Iterator[IO[bytes]]:
    """Open a file to write; an old one stays until the new one is complete.

    Raises:
        SystemExit: There is no room, or nothing may be written.
    """
    partial = f"{path}.tmp"
    with naming_errors(path):
        try:
            with open(partial, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, path)
        finally:
            with contextlib.suppress(OSError):
                os.remove(partial)


@contextlib.contextmanager
def naming_errors(path: str) -> Iterator[None]:
    """End the process with a message if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise SystemExit(
            f"{path} cannot be written: {error.strerror}. What was saved "
            "before is kept: make room, and run the same command again."
        ) from None


def entries_of(
    description: Mapping[str, Any], role: str
) -> list[dict[str, Any]]:
    """Return what the description says about each argument of a role."""
    return [e for e in description["arguments"] if e["role"] == role]


def check(
    description: Mapping[str, Any], role: str, arrays: Arrays, path: str
) -> None:
    """Refuse arrays that do not match the program.

    Args:
        description: What the JSON file says about the program.
        role: `batch` or `variable`.
        arrays: By name.
        path: Where they come from.

    Raises:
        SystemExit: One is missing, or has another shape, type or range.
    """
    entries = entries_of(description, role)
    missing = {entry["name"] for entry in entries} - arrays.keys()
    if missing:
        raise SystemExit(
            f"{path} does not belong to the program, which takes "
            f"{min(missing)} too."
        )
    for entry in entries:
        array, name = arrays[entry["name"]], entry["name"]
        if list(array.shape) != entry["shape"] or array.dtype != entry["dtype"]:
            raise SystemExit(
                f"{path}: {name} is {array.dtype} {list(array.shape)}; the "
                f"program takes {entry['dtype']} {entry['shape']}."
            )
        low, high = entry.get("low"), entry.get("high")
        if low is not None and not ((array >= low) & (array <= high)).all():
            raise SystemExit(
                f"{path}: {name} holds numbers outside {low} to {high}."
            )


def load_batch(
    description: Mapping[str, Any], path: str, option: str = "batches"
) -> Arrays:
    """Read a batch.

    Args:
        description: What the JSON file says about the program.
        path: The file.
        option: Name of the option that it comes from.

    Raises:
        SystemExit: It does not belong to the program.
    """
    arrays = load_npz(path, option)
    check(description, "batch", arrays, path)
    names = [entry["name"] for entry in entries_of(description, "batch")]
    return {name: arrays[name] for name in names}


def make_batch(description: Mapping[str, Any]) -> Arrays:
    """Return a random batch without padding."""
    random = np.random.default_rng(0)
    batch = {}
    for entry in entries_of(description, "batch"):
        # Masks and weights are 0 or 1, and so are the labels of sentences.
        is_mask = entry["high"] == 1 and "labels" not in entry["name"]
        low = 1 if is_mask else entry["low"]
        values = random.integers(low, entry["high"] + 1, entry["shape"])
        batch[entry["name"]] = values.astype(entry["dtype"])
    return batch


def find_batches(patterns: str, option: str = "batches") -> list[str]:
    """Return the npz files of a folder, or of patterns with commas.

    Raises:
        SystemExit: There are none.
    """
    found: list[str] = []
    for pattern in patterns.split(","):
        inside = os.path.join(glob.escape(pattern), "*.npz")
        wanted = inside if os.path.isdir(pattern) else pattern
        matches = sorted(glob.glob(wanted))
        if not matches:
            raise SystemExit(
                f"--{option}={pattern}: there is no npz file. Name a folder "
                "of npz files, or patterns in quotes; export_train_step "
                f"writes such a folder with --{option}_from."
            )
        found += matches
    return found


def repeat(
    description: Mapping[str, Any], patterns: str, first: int
) -> Iterator[Arrays]:
    """Yield the batches of files, in the order of their names, again and again.

    Args:
        description: What the JSON file says about the program.
        patterns: Folder or patterns of the files.
        first: Batches to leave out at the start.
    """
    paths = itertools.cycle(find_batches(patterns))
    for path in itertools.islice(paths, first, None):
        yield load_batch(description, path)


def follow(
    description: Mapping[str, Any],
    folder: str,
    first: int,
    stopping: threading.Event,
) -> Iterator[Arrays]:
    """Yield batches that another process writes, waiting for each.

    Args:
        description: What the JSON file says about the program.
        folder: Where they appear under the numbers of the updates, from
            `00000000.npz`, each when it is complete.
        first: Number of the first one.
        stopping: If it is set, nothing is waited for any more.
    """
    for number in itertools.count(first):
        path = pathlib.Path(folder) / f"{number:08d}.npz"
        if not path.exists():
            print(f"Waiting for {path}.", file=sys.stderr, flush=True)
        while not path.exists():
            if stopping.wait(FOLLOW_SECONDS):
                return
        yield load_batch(description, str(path))
