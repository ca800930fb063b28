"""Rows and JSON objects of text files, each with file and line for messages.

Official files are read strictly. In a user's own file (`read_own`) a line that
cannot be used becomes a `BadLine`, so that the other lines get their answers;
`strictly` stops at the first one.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from albert_tf.common import errors, files, strict_json

T = TypeVar("T")
_ADVICE = "The file must hold one JSON object a line, or one list of objects."


@dataclasses.dataclass(frozen=True)
class BadLine:
    """A line that cannot be answered.

    Attributes:
        key: Its `line` (in a list its `object`), from 1, and its `id` if that
            can be read.
        message: What is wrong, with the file and the line.
    """

    key: dict[str, Any]
    message: str

    @property
    def answer(self) -> dict[str, Any]:
        """What is written instead of an answer."""
        return {**self.key, "error": self.message}


def bad_line(
    key: dict[str, Any], values: Any, error: errors.UserError
) -> BadLine:
    """Return what stands for a line; `values` is what was read of it."""
    if isinstance(values, dict) and "id" in values:
        key = {"id": values["id"], **key}
    return BadLine(key, str(error))


def strictly(items: Iterable[T | BadLine]) -> Iterator[T]:
    """Yield all items; a bad line is an error."""
    for item in items:
        if isinstance(item, BadLine):
            raise errors.UserError(item.message)
        yield item


# The parameters: file and line, number of the entry from 0, values by name.
Parse = Callable[[str, int, dict[str, Any]], Iterable[T]]
# File and line, the key of a bad line, values by name.
_Entry = tuple[str, dict[str, Any], dict[str, Any]]


def read_own(
    path: str, parse: Parse[T], tables: tuple[str, ...] = (".tsv",)
) -> Iterator[T | BadLine]:
    """Yield what `parse` makes of each row or JSON object of a user's file.

    A table's first row names the columns; JSON is one object a line, a list of
    objects, or one object. Where `parse` raises a `UserError`, the line is bad.
    """
    is_table = path.endswith(tables)
    entries = _own_rows(path) if is_table else _objects(path)
    for number, entry in enumerate(entries):
        if isinstance(entry, BadLine):
            yield entry
            continue
        where, key, values = entry
        try:
            made = list(parse(where, number, values))
        except errors.UserError as error:
            yield bad_line(key, values, error)
        else:
            yield from made


def read_objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield file and line, and content, of each JSON object, strictly.

    The file holds one object a line (empty lines are allowed), a list of
    objects, or one object over several lines.
    """
    for where, _, values in strictly(_objects(path)):
        yield where, values


def read_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield `PATH, line N` and fields of each line; quotes mean nothing.

    Only line feeds (after a carriage return or not) end a line: texts may hold
    other separators.
    """
    for where, _, line in _lines(path):
        yield where, decode(line, where).split("\t")


def _lines(path: str) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Yield `PATH, line N`, key and bytes of each line, no byte order mark."""
    content = _read(path).removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    lines = content.split(b"\n") if content else []
    for number, line in enumerate(lines, 1):
        yield f"{path}, line {number}", {"line": number}, line


def _entry(
    where: str, key: dict[str, Any], parse: Callable[[], dict[str, Any]]
) -> _Entry | BadLine:
    """Return what `parse` makes of a line, or a bad line."""
    try:
        return where, key, parse()
    except errors.UserError as error:
        return BadLine(key, str(error))


def _own_rows(path: str) -> Iterator[_Entry | BadLine]:
    names: list[str] = []
    for where, key, line in _lines(path):
        if not names:
            names = column_names(decode(line, where), where)
            continue
        yield _entry(where, key, functools.partial(row, line, names, where))


def _objects(path: str) -> Iterator[_Entry | BadLine]:
    try:
        whole = strict_json.loads(_read(path))
    except strict_json.JsonError as error:
        entries = [
            _entry(where, key, functools.partial(_object, where, line))
            for where, key, line in _lines(path)
            if line.strip()
        ]
        if entries and all(isinstance(entry, BadLine) for entry in entries):
            raise errors.UserError(
                f"{path}: this is not JSON ({error}). {_ADVICE}"
            ) from None
        yield from entries
        return
    several = isinstance(whole, list)
    for number, value in enumerate(whole if several else [whole], 1):
        where = f"{path}, object {number}" if several else path
        parse = functools.partial(_check_object, where, value)
        yield _entry(where, {"object": number}, parse)


def _object(where: str, line: bytes) -> dict[str, Any]:
    text = decode(line, where)
    try:
        value = strict_json.loads(text)
    except strict_json.JsonError as error:
        raise errors.UserError(
            f"{where}: this is not JSON ({error}). {_ADVICE}"
        ) from None
    return _check_object(where, value)


def _check_object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.UserError(
            f"{where}: {type(value).__name__} instead of a JSON object. "
            'Objects look like {"id": "1", "text": "It rains."}.'
        )
    return value


def decode(line: bytes, where: str) -> str:
    """Return a line, which must be UTF-8, as text, without its end."""
    try:
        return line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise errors.UserError(
            f"{where} is not UTF-8: {errors.bad_byte(line, 'the line')}. "
            "Convert the file first."
        ) from None


def column_names(text: str, where: str) -> list[str]:
    """Return the names in the first row of a table."""
    names = text.split("\t")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise errors.UserError(
            f"{where}: the column {twice[0]!r} is there {len(twice)} times. "
            "Each needs a name of its own: rename or remove the others."
        )
    return names


def row(line: bytes, names: Sequence[str], where: str) -> dict[str, str]:
    """Return the fields of a row by the names of their columns."""
    fields = decode(line, where).split("\t")
    if len(fields) != len(names):
        raise errors.UserError(
            f"{where}: {len(fields)} columns, but the first row names "
            f"{len(names)}. Columns are separated by one tab each."
        )
    return dict(zip(names, fields, strict=True))


def _read(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise errors.UserError(
            f"{path} cannot be read: {error.strerror}. Check the path (the "
            f"current folder is {os.getcwd()})."
        ) from None
