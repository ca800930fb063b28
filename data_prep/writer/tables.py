"""Read Parquet and Arrow files as JSON lines, a batch of rows at a time.

A row becomes `{"COLUMN": ...}`. So all further steps are those of JSON lines,
and the records have the same bytes.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import IO, Any

from albert_tf.common import arrow_tables, errors

# pyarrow's types of text, and the corresponding types of bytes.
_BYTES = {
    "string": "binary",
    "large_string": "large_binary",
    "string_view": "binary_view",
}


def check(stream: IO[bytes], path: str, kind: str, column: str) -> None:
    """Make sure that a file has a column of text; only its schema is read."""
    with _open_table(stream, path, kind) as (pyarrow, schema, _):
        problem = ""
        num_columns = schema.names.count(column)
        if num_columns != 1:
            problem = f"names {num_columns} columns of {path}; one is needed"
        else:
            type_ = schema.field(column).type
            if pyarrow.types.is_dictionary(type_):
                type_ = type_.value_type
            if str(type_) not in _BYTES:
                problem = f"of {path} holds {type_}, not text"
        if problem:
            raise errors.UserError(
                f"`text_column={column}` {problem}. The columns are: "
                f"{', '.join(schema.names[:20])}. Name the one that holds the "
                "text."
            )


def json_lines(
    stream: IO[bytes], path: str, kind: str, column: str
) -> Iterator[bytes]:
    r"""Yield the rows of a file as JSON lines, a batch at a time.

    Example:
        a column "body" with the rows "one" and None yields
        b'{"body": "one"}\n{"body": null}\n'
    """
    with _open_table(stream, path, kind) as (pyarrow, _, batches):
        for batch in batches([column]):
            texts = _as_bytes(pyarrow, batch.column(column))
            for first in range(0, len(texts), arrow_tables.ROWS_AT_ONCE):
                rows = texts.slice(first, arrow_tables.ROWS_AT_ONCE).to_pylist()
                yield b"".join(_json_line(column, row) for row in rows)


def _as_bytes(pyarrow: Any, texts: Any) -> Any:
    """Return a valid array of bytes, because text may not be UTF-8."""
    if pyarrow.types.is_dictionary(texts.type):
        texts.validate(full=True)
        texts = texts.dictionary_decode()
    stored = texts.cast(getattr(pyarrow, _BYTES[str(texts.type)])())
    stored.validate(full=True)
    return stored


def _json_line(column: str, text: bytes | None) -> bytes:
    value = None if text is None else text.decode("utf-8", "surrogateescape")
    line = json.dumps({column: value}, ensure_ascii=False) + "\n"
    return line.encode("utf-8", "surrogateescape")


def _open_table(
    stream: IO[bytes], path: str, kind: str
) -> contextlib.AbstractContextManager[tuple[Any, Any, arrow_tables.Batches]]:
    return arrow_tables.open_table(
        stream,
        kind,
        f"input_format={kind}",
        lambda reason: (
            f"`input_file={path}` cannot be read with "
            f"`input_format={kind}`: {reason}. It must be a whole file of that "
            "format. Copy or write it again."
        ),
    )
