"""What a command may write: no file that it reads, and nothing of the user's.

Every command calls `claim` before its work, with every path that it writes.
What exists is replaced with `--overwrite` only, unless the command knows it as
its own earlier result.
"""

import contextlib
import errno
import glob
import importlib.util
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.common import errors, files, options

# Options that name something to read: files, patterns, folders, checkpoints.
_INPUTS = re.compile(
    r"(_file|_dirs?|checkpoint|saved_model|compare_with|from)$"
)
_OUTPUTS = frozenset(
    {
        "cached_dir",
        "export_dir",
        "output_dir",
        "output_file",
        "output_prefix",
        "submission_file",
        "to",
    }
)
# What stands beside a checkpoint, records or a vocabulary that an option names.
_BESIDE = (".index", ".data-*", ".manifest.json")
_VOCABULARIES = ("spm_model_file", "vocab_file")


def claim(
    settings: Any, option: str, paths: Iterable[str], *, is_own: bool = False
) -> None:
    """Refuse to write where something of the user's would be lost.

    A partial file of one of the paths, see `files.leftovers`, shows that an
    earlier start of the command was killed after this check; then the others
    are its own.

    Args:
        settings: The options. What they name is an input or an output. With
            `overwrite`, what exists may be replaced.
        paths: All files that are written, side files included.
        is_own: Whether what exists is known as this command's earlier result.
    """
    values, paths = options.to_dict(settings), list(paths)
    value = values.get(option)
    if value == "":
        raise errors.UserError(f"`{option}` is empty. Name a file.")
    unfinished = {
        path
        for path in paths
        if not files.is_remote(path) and files.leftovers(os.path.realpath(path))
    }
    refuse_inputs(settings, option, paths)
    folders = {
        files.identity(path) for path in _inputs(values) if _is_folder(path)
    }
    seen: set[str] = set()
    for path in paths:
        named = f"`{option}={value}`" + (f": {path}" if path != value else "")
        _require_name(path, named)
        if os.path.realpath(path) in seen:
            raise errors.UserError(f"{named} is written twice. Change a name.")
        seen.add(os.path.realpath(path))
        if is_own or unfinished - {path} or not files.exists(path):
            continue
        if not folders.isdisjoint(map(files.identity, _parents(path))):
            raise errors.UserError(
                f"{named} exists, in a folder that is read, where nothing is "
                "replaced. Give another name."
            )
        if not values.get("overwrite"):
            way = "replace it with `overwrite`"
            if "overwrite" not in values:
                way = "move it away"
            raise errors.UserError(
                f"{named} exists. Give another name, or {way}."
            )


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each value of `now` that was another one before."""
    return [
        f"{name} was {before.get(name)!r}, is now {value!r}"
        for name, value in sorted(now.items())
        if before.get(name) != value
    ]


def require_same(problem: str, lines: Sequence[str], advice: str) -> None:
    """Refuse to go on with earlier work if there are `changes`."""
    if lines:
        listed = "\n  ".join([f"{problem}:", *lines])
        raise errors.UserError(f"{listed}\n{advice}")


def refuse_inputs(settings: Any, option: str, paths: Iterable[str]) -> None:
    """Refuse outputs, files or whole folders, that are inputs or hold some."""
    values = options.to_dict(settings)
    inputs = {files.identity(path): path for path in _inputs(values)}
    inputs.pop(None, None)  # Those that do not exist.
    for path in paths:
        identity = files.identity(path)
        problem = "is one of the input files" if identity in inputs else ""
        for inner in inputs.values() if _is_folder(path) else ():
            if identity in map(files.identity, _parents(inner)):
                problem = f"holds the input {inner}"
        if problem:
            raise errors.UserError(
                f"`{option}={values.get(option)}`: {path} {problem}. Give "
                "another name."
            )


def _inputs(values: dict[str, Any]) -> Iterator[str]:
    """Yield the files and folders that the options name to be read."""
    yield from options.flag_files
    if values.get("task_module"):
        with contextlib.suppress(ImportError, ValueError):
            module = importlib.util.find_spec(values["task_module"])
            yield module and module.origin or ""
    for name, value in values.items():
        is_input = _INPUTS.search(name) and name not in _OUTPUTS
        if not is_input or not isinstance(value, str):
            continue
        for part in {value, *map(str.strip, value.split(","))}:
            yield part
            if not files.is_remote(part):
                yield from glob.iglob(part)
                for ending in _BESIDE:
                    yield from glob.iglob(glob.escape(part) + ending)
            if name in _VOCABULARIES:
                yield f"{os.path.splitext(part)[0]}.normalization.json"


def _is_folder(path: str) -> bool:
    return not files.is_remote(path) and os.path.isdir(path)


def _parents(path: str) -> Iterator[str]:
    """Yield the folders around a local path, the nearest first."""
    if not files.is_remote(path):
        yield from map(str, pathlib.Path(os.path.realpath(path)).parents)


def _require_name(path: str, named: str) -> None:
    """Refuse what cannot be the path of a new file, or of one to replace."""
    if _is_folder(path) or path.endswith("/"):
        raise errors.UserError(f"{named} is a folder. Name a file in it.")
    if files.is_remote(path):
        return
    if files.is_special(path):
        raise errors.UserError(
            f"{named} is a pipe or a device. Only regular files are replaced. "
            "Choose another name."
        )
    try:
        os.lstat(f"{os.path.realpath(path)}.{'0' * 8}{files.PARTIAL}")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise errors.UserError(
                f"{named} is too long for a name: while it is written it ends "
                f"in {files.PARTIAL}. Give a shorter one."
            ) from None
