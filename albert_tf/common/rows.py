"""Rows and JSON objects of text files, each with file and line for messages.

In an official file, a line that cannot be used is an error. In a user's own
file (`read_user_file`) it becomes a `BadLine`, so that the other lines get
their answers; `raise_bad_lines` makes it an error there, too.
"""

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import math
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from absl import logging

from albert_tf.common import arrow_tables, errors, files, strict_json

T = TypeVar("T")
PARQUET = arrow_tables.ENDINGS["parquet"]
# Of a field of CSV; Python's own limit is 131,072.
csv.field_size_limit(2**27)
# What may divide the columns of a table, and its name.
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_ADVICE = (
    "The file must hold one JSON object a line, or one list of objects; so is "
    'a text written that begins with "{".'
)
_SHOWN = 5  # Bad lines in a message.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# How files of gzip, zip (.xlsx is one), xz and zstd begin.
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ\0", b"(\xb5/\xfd")
# The first row of a table whose columns are not separated by tabs.
_OTHER_HEADER = re.compile(r'"?\w+"?(\s*[,;|]\s*"?\w+"?)+')
# The line before a table of Excel's that says what divides its columns.
_EXCEL = re.compile(r'"?sep=([^"\r\n\0])"?\s*', re.IGNORECASE)
# Unicode categories of characters that nobody sees.
_INVISIBLE = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
# A line that begins so is meant as JSON, even if it is none.
_LIKE_JSON = re.compile(r"\s*(\{|\[\s*(\{|$))")


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
        return {**self.key, "error": self.message}


def raise_bad_lines(items: Iterable[T | BadLine]) -> Iterator[T]:
    """Yield items; the first bad line is raised, with a count of the others."""
    items = iter(items)
    for item in items:
        if isinstance(item, BadLine):
            bad = [str(LineKey(x.key)) for x in items if isinstance(x, BadLine)]
            raise errors.UserError(item.message + and_others(bad))
        yield item


def and_others(places: Sequence[str]) -> str:
    if not places:
        return ""
    more = ", ..." * (len(places) > _SHOWN)
    shown = ", ".join(places[:_SHOWN])
    return f" The same holds for {len(places)} more: {shown}{more}."


def answer_items(
    items: Sequence[T | BadLine],
    answer: Callable[[list[T]], Iterable[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return the answer to each item, in order, or the error of a bad line."""
    good = [item for item in items if not isinstance(item, BadLine)]
    answers = iter(answer(good) if good else ())
    return [
        i.answer if isinstance(i, BadLine) else next(answers) for i in items
    ]


def require_examples(examples: Sequence[Any], path: str) -> None:
    if not examples:
        raise errors.UserError(
            f"{path} has no examples. Give a file that has some."
        )


@dataclasses.dataclass(frozen=True)
class LineKey:
    """The number of a line or object of a user's file, in place of an `id`."""

    key: dict[str, Any]  # Such as its `line`.

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.key.items())


def key_of(id_: Any) -> dict[str, Any]:
    """Return the first keys of an answer: the `id` as given, or the line."""
    return id_.key if isinstance(id_, LineKey) else {"id": id_}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row or a JSON object of a user's file.

    Attributes:
        where: File and line, for messages.
        key: Its `line` or the like, see `BadLine`.
        values: By names of columns, or keys.
    """

    where: str
    key: dict[str, Any]
    values: dict[str, Any]

    @property
    def guid(self) -> Any:
        """Its `id`, else its `LineKey`; see `key_of`."""
        return self.id_of("id")

    def id_of(self, column: str) -> Any:
        """Return the value of a column, else the `id`, as JSON can hold it."""
        value = self.values.get("id", LineKey(self.key))
        value = self.values.get(column, value)
        if isinstance(value, bytes):
            return value.decode(errors="backslashreplace")
        with contextlib.suppress(TypeError):  # Of Parquet, such as a date.
            if not isinstance(value, (str, int, LineKey)):
                strict_json.dumps(value)
            return value
        return str(value)

    def require(self, names: Iterable[str], demand: str = "It needs") -> None:
        require_names(self.values, names, self.where, demand)

    def texts(
        self, names: Sequence[str], remedy: str = "Put it into quotation marks."
    ) -> tuple[str, ...]:
        """Return the values of these names, which must be there, and texts."""
        self.require(names)
        for name in names:
            if not isinstance(self.values[name], str):
                raise errors.UserError(
                    f"{self.where}: {name!r} is {self.values[name]!r}, which "
                    f"is no text. {remedy}"
                )
        return tuple(self.values[name] for name in names)


# What a row gives.
Parse = Callable[[Row], Iterable[T]]
# File and line for messages, key, and bytes.
_Line = tuple[str, dict[str, Any], bytes]
# The same of a row; its fields or values are made, or refused, by a call.
_Fields = tuple[str, dict[str, Any], Callable[[], list[str]]]
_Values = tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]


def read_user_file(
    path: str,
    inputs: Sequence[str],
    parse: Parse[T],
    *,
    header: bool | None = None,
) -> Iterator[T | BadLine]:
    """Yield the items that `parse` returns for the rows of a file; see `read`.

    A file whose name ends in .parquet is a table of Parquet.
    """
    if path.lower().endswith(PARQUET):
        yield from _parse_rows(_read_parquet(path, inputs), parse)
    else:
        yield from read(_read_lines(path), path, inputs, parse, header=header)


def read(
    lines: Iterable[bytes],
    name: str,
    inputs: Sequence[str],
    parse: Parse[T],
    *,
    header: bool | None = None,
) -> Iterator[T | BadLine]:
    """Yield the items of `parse` for each row, or its `UserError` as bad line.

    The name of the file and its first line say its kind. It is a table if the
    name ends in .tsv or .csv, in any case, or if tabs divide the first line
    into fields that name all inputs; this line names the columns. Tables of
    other kinds are refused. Other files are JSON: one object a line, a list of
    objects, or one object. Where `text` is the only input, lines that do not
    begin as an object are texts. Empty lines are counted and left out.

    Args:
        lines: As many are read as are needed.
        name: For messages.
        inputs: Names that each row must have.
        header: Whether the first row of a table names its columns. If not, the
            names are their numbers, from 1. None: it does, and the command has
            no option for this.
    """
    is_csv = name.lower().endswith(".csv")
    hint = "Without a header, give `header=False`. " if header else ""
    demand = f"{hint}The first row must name"
    if is_csv or is_table(name):
        lines = _warn_if_truncated(lines, name)
    if is_csv:
        demand += ", separated by commas,"
        separator, fields = _split_csv(lines, name, inputs, header=header)
        values = _to_dicts(fields, inputs, separator, demand, header=header)
    else:
        filled = _skip_empty(lines, name)
        first = list(itertools.islice(filled, 1))
        filled = itertools.chain(first, filled)
        has_texts = list(inputs) == ["text"]
        if first and (header is False or _is_tsv(name, first[0], inputs)):
            fields = (
                (where, key, functools.partial(_split_tsv, line, where))
                for where, key, line in filled
            )
            values = _to_dicts(fields, inputs, "\t", demand, header=header)
        elif first and _is_json_over_lines(first[0][2], has_texts):
            values = _whole_objects([*filled], name, has_texts=has_texts)
        else:
            values = _line_objects(filled, has_texts=has_texts)
    yield from _parse_rows(values, parse)


def read_objects(path: str) -> Iterator[Row]:
    """Yield each JSON object; another value is an error.

    The file holds one object a line (empty lines are allowed), a list of
    objects, or one object over several lines.
    """
    lines = [x for x in _number_lines(_read_lines(path), path) if x[2].strip()]
    objects = _whole_objects(lines, path, has_texts=False)
    yield from raise_bad_lines(_parse_rows(objects, lambda row: [row]))


def read_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield `PATH, line N` and fields of each line; quotes mean nothing.

    Only line feeds (after a carriage return or not) end a line: texts may hold
    other separators.
    """
    lines = _warn_if_truncated(_read_lines(path), path)
    for where, _, line in _number_lines(lines, path):
        yield where, _split_tsv(line, where)


def holds_objects(path: str) -> bool:
    """Tell whether a file is JSON, by its name or its first filled line."""
    if path.lower().endswith((".json", ".jsonl")):
        return True
    for *_, line in _number_lines(_read_lines(path), path):
        if text := line.decode(errors="replace").strip():
            try:
                return isinstance(strict_json.loads(text), dict)
            except strict_json.JsonError:
                return False
    return False


def is_table(name: str) -> bool:
    return name.lower().endswith(".tsv")


def _parse_rows(
    values: Iterable[_Values], parse: Parse[T]
) -> Iterator[T | BadLine]:
    for where, key, make in values:
        try:
            row = Row(where, key, make())
            key = {**key_of(row.guid), **key}
            parsed = list(parse(row))
        except errors.UserError as error:
            yield BadLine(key, str(error))
        else:
            yield from parsed


# Lines.


def _read(path: str) -> bytes:
    try:
        content = files.read_bytes(path)
    except OSError as error:
        raise errors.UserError(
            f"{path} cannot be read: {error.strerror}. Check the path (the "
            f"current folder is {os.getcwd()})."
        ) from None
    if content.startswith(_PACKED):
        raise errors.UserError(
            f"{path} is packed, or a workbook. Unpack it, or save the table as "
            "CSV."
        )
    return content


def _read_lines(path: str) -> list[bytes]:
    return io.BytesIO(_read(path)).readlines()


def _warn_if_truncated(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield lines of a table; warn if the last one may be cut short."""
    line = b"\n"
    for line in lines:
        yield line
    if not line.endswith(b"\n"):
        logging.warning(
            "%s: the last line has no end. If the file was cut short, rows "
            "are missing, and the last one may be incomplete.",
            name,
        )


def _number_lines(lines: Iterable[bytes], name: str) -> Iterator[_Line]:
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        yield f"{name}, line {number}", {"line": number}, line


def _skip_empty(lines: Iterable[bytes], name: str) -> Iterator[_Line]:
    empty = []
    for where, key, line in _number_lines(lines, name):
        if line.decode(errors="replace").strip():
            yield where, key, line
        else:
            empty.append(key["line"])
    _warn_of_empty(name, empty, '{"text": ""}')


def _warn_of_empty(name: str, lines: Sequence[int], empty_text: str) -> None:
    if lines:
        logging.warning(
            "%s: left out %d empty lines; the first is line %d. Write an empty "
            "text as %s.",
            name,
            len(lines),
            lines[0],
            empty_text,
        )


# Tables.


def _read_parquet(path: str, inputs: Sequence[str]) -> Iterator[_Values]:
    with arrow_tables.open_table(
        io.BytesIO(_read(path)),
        "parquet",
        path,
        lambda reason: (
            f"{path} is no whole Parquet file: {reason}. Copy or "
            "write it again."
        ),
    ) as (_, schema, batches):
        require_names(schema.names, inputs, path, "It must have the columns")
        _refuse_duplicates(schema.names, path)
        numbers = itertools.count(1)
        for batch in batches(None):
            batch.validate(full=True)
            columns = _python_columns(batch, path, inputs)
            for row in range(len(batch)):
                number = next(numbers)
                values = {name: cells[row] for name, cells in columns.items()}
                where = f"{path}, row {number}"
                yield where, {"row": number}, functools.partial(dict, values)


def _python_columns(
    batch: Any, path: str, inputs: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the columns that Python can hold; inputs must be among them."""
    columns = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            columns[field.name] = column.to_pylist()
        except (NotImplementedError, OverflowError, ValueError) as error:
            if field.name in inputs:
                raise errors.UserError(
                    f"{path}: the column {field.name!r} ({field.type}) cannot "
                    f"be read: {error}. Write it as texts or numbers."
                ) from None
    return columns


def _is_tsv(name: str, first: _Line, inputs: Sequence[str]) -> bool:
    """Tell whether the first line begins a table; refuse one of other kinds."""
    where, _, line = first
    text = line.decode(errors="replace").rstrip("\r\n")
    fields = text.split("\t")
    if not is_table(name) and fields == ["text"]:
        logging.warning(
            "%s: 'text' is taken for the name of the only column. Write such a "
            'text as {"text": "text"}.',
            where,
        )
    if is_table(name) or {*inputs} <= {*fields}:
        return True
    # Such as `id,text` or `"id";"text"`.
    is_other = _OTHER_HEADER.fullmatch(text) and {*inputs} <= {
        *re.findall(r"\w+", text)
    }
    has_tabs = len(fields) > 1 and not _LIKE_JSON.match(text)
    if is_other or has_tabs:
        raise errors.UserError(
            f"{where}: this looks like a table that cannot be read. Separate "
            "its columns by tabs (by commas where the file's name ends in "
            ".csv), and name them in the first row, among them "
            f"{', '.join(inputs)}; or write one JSON object a line."
        )
    return False


def _split_tsv(line: bytes, where: str) -> list[str]:
    return decode(line, where).split("\t")


def _split_csv(
    lines: Iterable[bytes],
    name: str,
    inputs: Sequence[str],
    *,
    header: bool | None,
) -> tuple[str, Iterator[_Fields]]:
    """Return the separator of the columns, and the rows that are not empty.

    A field in quotation marks may hold line breaks; `line` is then the first of
    its row.
    """
    texts: Iterator[str] = (
        # A byte that is not UTF-8 spoils its row only.
        line.decode(errors="surrogateescape").removesuffix("\n") + "\n"
        for *_, line in _number_lines(lines, name)
    )
    first = next(texts, "")
    decode(first.encode(errors="surrogateescape"), f"{name}, line 1")
    excel = _EXCEL.fullmatch(first)
    if excel:
        separator = excel[1]
    else:
        separator = _detect_separator(first, inputs, header=header)
        texts = itertools.chain([first] if first else [], texts)
    reader = csv.reader(texts, strict=True, delimiter=separator)
    return separator, _csv_rows(reader, name, bool(excel))


def _csv_rows(reader: Any, name: str, num_left_out: int) -> Iterator[_Fields]:
    empty = []
    fields: list[str] | csv.Error | None = []
    while fields is not None:
        line = reader.line_num + 1 + num_left_out
        where = f"{name}, line {line}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fields = error
        if fields:
            make = functools.partial(_check_fields, fields, where)
            yield where, {"line": line}, make
        elif fields is not None:
            empty.append(line)
    _warn_of_empty(name, empty, '""')


def _check_fields(fields: list[str] | csv.Error, where: str) -> list[str]:
    if isinstance(fields, csv.Error):
        raise errors.UserError(
            f"{where}: this row is not CSV ({fields}). Put a field that holds "
            'commas, line breaks or " into quotation marks, and write " in it '
            "twice."
        )
    decode("".join(fields).encode(errors="surrogateescape"), where)
    return fields


def _detect_separator(
    first: str, inputs: Sequence[str], *, header: bool | None
) -> str:
    """Return the separator with most inputs, then most columns, then ","."""

    def count(separator: str) -> tuple[int, int]:
        try:
            fields = next(csv.reader([first], delimiter=separator), [])
        except csv.Error:  # The reader of the table says what is wrong.
            fields = []
        named = {*inputs} & {*fields} if header is not False else ()
        return len(named), len(fields)

    return max(_SEPARATORS, key=count)


def _to_dicts(
    rows: Iterable[_Fields],
    inputs: Sequence[str],
    separator: str,
    demand: str,
    *,
    header: bool | None,
) -> Iterator[_Values]:
    """Yield each row as a dict by column; `demand` begins a remedy."""
    names: list[str] = []
    for where, key, fields in rows:
        if names:
            pass
        elif header is False:
            names = [str(number) for number in range(1, len(fields()) + 1)]
            numbers = "Without a header, columns are their numbers from 1."
            require_names(names, inputs, where, f"{numbers} It needs")
        else:
            names = fields()
            require_names(names, inputs, where, demand)
            _refuse_duplicates(names, where)
            continue
        make = functools.partial(_zip_names, fields, names, where, separator)
        yield where, key, make


def _zip_names(
    make: Callable[[], list[str]],
    names: Sequence[str],
    where: str,
    separator: str,
) -> dict[str, str]:
    fields = make()
    if len(fields) != len(names):
        raise errors.UserError(
            f"{where}: {len(fields)} columns, but the first row names "
            f"{len(names)}. Columns are separated by one "
            f"{_SEPARATORS.get(separator, repr(separator))} each."
        )
    return dict(zip(names, fields, strict=True))


def require_names(
    names: Collection[str], inputs: Iterable[str], where: str, demand: str
) -> None:
    """Refuse columns or keys that lack an input; `demand` begins the remedy."""
    missing = [input_ for input_ in inputs if input_ not in names]
    if missing:
        raise errors.UserError(
            f"{where} has no {missing[0]!r}; there are "
            f"{', '.join(map(repr, names)) or 'none'}. {demand} "
            f"{', '.join(inputs)}."
        )


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise errors.UserError(
            f"{where}: the column {twice[0]!r} is there {len(twice)} times. "
            "Each needs a name of its own: rename or remove the others."
        )


# JSON.


def _whole_objects(
    lines: Sequence[_Line], name: str, *, has_texts: bool
) -> Iterator[_Values]:
    """Yield the object or list that all lines are together, else each line."""
    try:
        whole = strict_json.loads(b"\n".join(line for *_, line in lines))
    except strict_json.JsonError:
        yield from _line_objects(lines, has_texts=has_texts)
        return
    is_list = isinstance(whole, list)
    for number, value in enumerate(whole if is_list else [whole], 1):
        where = f"{name}, object {number}" if is_list else name
        make = functools.partial(_require_object, where, value)
        yield where, {"object": number}, make


def _line_objects(
    lines: Iterable[_Line], *, has_texts: bool
) -> Iterator[_Values]:
    """Yield the object of each line; with `has_texts` it may be a text."""
    for where, key, line in lines:
        make = functools.partial(_parse, where, line, has_texts=has_texts)
        yield where, key, make


def _is_json_over_lines(line: bytes, has_texts: bool) -> bool:
    """Tell whether the first line is a list, or an unfinished JSON value."""
    if has_texts and not _LIKE_JSON.match(line.decode(errors="replace")):
        return False
    try:
        return isinstance(strict_json.loads(line), list)
    except strict_json.JsonError as error:
        return "unexpected end" in str(error)


def _parse(where: str, line: bytes, *, has_texts: bool) -> dict[str, Any]:
    text = decode(line, where)
    if has_texts and not _LIKE_JSON.match(text):
        return {"text": text}
    try:
        value = strict_json.loads(text)
    except strict_json.JsonError as error:
        raise errors.UserError(
            f"{where}: this is not JSON ({error}). {_ADVICE}"
        ) from None
    return _require_object(where, value)


def _require_object(where: str, value: Any) -> dict[str, Any]:
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


@functools.lru_cache(maxsize=1000)
def strip_invisible(text: str) -> str:
    """Return a text without blanks and marks such as U+200B at its ends."""
    kinds = map(unicodedata.category, text)
    seen = [n for n, kind in enumerate(kinds) if kind not in _INVISIBLE]
    return text[seen[0] : seen[-1] + 1] if seen else ""


def text_list(value: Any, name: str, where: str) -> list[str]:
    if not isinstance(value, list) or not all(
        isinstance(text, str) and text for text in value
    ):
        raise errors.UserError(
            f"{where}: {name!r} is {strict_json.brief(value)}; it must be a "
            "list of texts, none of them empty. Correct the line."
        )
    return value


# What a value of JSON must be.
_KINDS: dict[type | tuple[type, ...], str] = {
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    (str, int): "a text or a whole number",
}


def get(entry: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a value of a JSON object, which must be there and of its kind."""
    remedy = "Correct the file, or give one in the official layout."
    if not isinstance(entry, dict):
        raise errors.UserError(
            f"{where}: {strict_json.brief(entry)} stands where an object with "
            f"the key {key!r} must be. {remedy}"
        )
    if key not in entry:
        raise errors.UserError(
            f"{where}: the key {key!r} is missing; there are "
            f"{', '.join(map(repr, entry)) or 'none'}. {remedy}"
        )
    value = entry[key]
    is_no_number = kind is not bool and isinstance(value, bool)
    if not isinstance(value, kind) or is_no_number:
        raise errors.UserError(
            f"{where}: {key!r} is {strict_json.brief(value)}; it must be "
            f"{_KINDS[kind]}. {remedy}"
        )
    return value


def to_number(written: Any) -> float:
    """Return a number, which may be written as text; NaN if it is none."""
    # `float` also takes 1_0, for 10, and the digits of any script.
    is_odd = isinstance(written, str) and (
        "_" in written or not written.isascii()
    )
    try:
        return math.nan if is_odd else float(written)
    except (TypeError, ValueError, OverflowError):
        return math.nan
