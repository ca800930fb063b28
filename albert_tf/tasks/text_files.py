"""Rows and JSON objects of text files, each with its place for messages."""

import os
from collections.abc import Iterator
from typing import Any

from albert_tf import errors, files, strict_json


def read_text(path: str) -> str:
    """Read a UTF-8 file; a byte order mark is no part of it.

    Raises:
        errors.UserError: It is missing, a folder, or not UTF-8.
    """
    try:
        return files.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{path} is not UTF-8 (byte {error.start}). Convert it first."
        ) from None
    except OSError as error:
        raise errors.UserError(
            f"{path} cannot be read: {error.strerror}. Check the path (the "
            f"current folder is {os.getcwd()})."
        ) from None


def read_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield `PATH, line N` and each line.

    Only line feeds (after a carriage return or not) end a line: texts may hold
    other separators.
    """
    text = read_text(path).replace("\r\n", "\n").removesuffix("\n")
    for number, line in enumerate(text.split("\n") if text else (), 1):
        yield f"{path}, line {number}", line


def read_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield place and fields of each line; quotes are ordinary characters."""
    for where, line in read_lines(path):
        yield where, line.split("\t")


def read_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and content of each JSON object.

    The file holds one object a line (empty lines are allowed), a list of
    objects, or one object over several lines.

    Raises:
        errors.UserError: It holds something else.
    """
    text = read_text(path)
    try:
        whole = strict_json.loads(text)
    except strict_json.JsonError:
        whole = None
    if whole is not None:
        several = isinstance(whole, list)
        for number, value in enumerate(whole if several else [whole], 1):
            where = f"{path}, object {number}" if several else path
            yield where, _check_object(where, value)
        return
    for where, line in read_lines(path):
        if line.strip():
            yield where, _check_object(where, _parse(where, line))


def _parse(where: str, line: str) -> Any:
    try:
        return strict_json.loads(line)
    except strict_json.JsonError as error:
        raise errors.UserError(
            f"{where}: this is not JSON ({error}). The file must hold one JSON "
            "object a line, or one list of objects."
        ) from None


def _check_object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.UserError(
            f"{where}: {type(value).__name__} instead of a JSON object. "
            'Objects look like {"id": "1", "text": "It rains."}.'
        )
    return value


def list_folder(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist."""
    if files.is_remote(folder):
        from tensorflow.io import gfile  # Slow to import: remote paths only.

        found = gfile.listdir(folder) if gfile.isdir(folder) else []
        return sorted(name.rstrip("/") for name in found)
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
