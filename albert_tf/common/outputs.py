"""Which paths a command may write: no input, and no file of the user's.

Every command calls `check` before its work, with every path that it
writes. A file that exists is replaced with `--overwrite` only, unless the
command knows it as its own earlier result.
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
    r"(_file|_dirs?|checkpoint|saved_model|compare_with|from|pieces_of)$"
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
_VOCABULARIES = ("spm_model_file", "vocab_file", "new_vocab_file")


def check(
    settings: Any, option: str, paths: Iterable[str], *, is_own: bool = False
) -> None:
    """Refuse to write over an input or a file of the user's.

    A partial file of one of the paths, see `files.find_leftovers`, shows that
    an earlier start of the command was killed after this check; then the other
    paths are results of that start.

    Args:
        settings: All options. With `overwrite`, files may be replaced.
        option: The one that names the output, for messages.
        paths: All files that are written, side files included.
        is_own: Whether files that exist are this command's earlier result.
    """
    values, paths = options.to_dict(settings), list(paths)
    value = values.get(option)
    if value == "":
        raise errors.UserError(f"`{option}` is empty. Name a file.")
    unfinished = {
        path
        for path in paths
        if not files.is_remote(path)
        and files.find_leftovers(os.path.realpath(path))
    }
    refuse_inputs(settings, option, paths)
    folders = {files.identity(p) for p in _input_paths(values) if _is_folder(p)}
    real_paths: set[str] = set()
    for path in paths:
        prefix = f"`{option}={value}`" + (f": {path}" if path != value else "")
        _require_file_path(path, prefix)
        if os.path.realpath(path) in real_paths:
            raise errors.UserError(f"{prefix} is written twice. Change a name.")
        real_paths.add(os.path.realpath(path))
        if is_own or unfinished - {path} or not files.exists(path):
            continue
        if not folders.isdisjoint(map(files.identity, _parents(path))):
            raise errors.UserError(
                f"{prefix} exists, in a folder that is read, where nothing is "
                "replaced. Give another name."
            )
        if not values.get("overwrite"):
            remedy = "replace it with `overwrite`"
            if "overwrite" not in values:
                remedy = "move it away"
            raise errors.UserError(
                f"{prefix} exists. Give another name, or {remedy}."
            )


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each value of `now` that differs from `before`."""
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
    """Refuse outputs that are inputs, or folders that hold an input."""
    values = options.to_dict(settings)
    inputs = {files.identity(path): path for path in _input_paths(values)}
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


def _input_paths(values: dict[str, Any]) -> Iterator[str]:
    """Yield all files and folders that the options name as inputs."""
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


def _require_file_path(path: str, prefix: str) -> None:
    """Refuse a path that cannot be that of a new or replaced regular file."""
    if _is_folder(path) or path.endswith("/"):
        raise errors.UserError(f"{prefix} is a folder. Name a file in it.")
    if files.is_remote(path):
        return
    if files.is_special(path):
        raise errors.UserError(
            f"{prefix} is a pipe or a device. Only regular files are replaced. "
            "Choose another name."
        )
    try:
        os.lstat(f"{os.path.realpath(path)}.{'0' * 8}{files.PARTIAL}")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise errors.UserError(
                f"{prefix} is too long for a name: while it is written it ends "
                f"in {files.PARTIAL}. Give a shorter one."
            ) from None
