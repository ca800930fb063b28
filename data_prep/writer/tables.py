"""Read Parquet and Arrow files as JSON lines, a batch of rows at a time.

A row becomes `{"COLUMN": ...}`. So all further steps are those of JSON lines,
and the records have the same bytes.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf.common import errors, packages

# Formats, and how file names of them end.
ENDINGS = {"parquet": ".parquet", "arrow": ".arrow"}

# Rows that are turned into JSON at once, and bytes read from the disk at once.
# Batches of Arrow files have the size in memory with which they were written.
_ROWS_AT_ONCE = 64
_BUFFER_BYTES = 2**20

# pyarrow's types of text, and the corresponding types of bytes.
_BYTES = {
    "string": "binary",
    "large_string": "large_binary",
    "string_view": "binary_view",
}


class _WholeFile(io.RawIOBase):
    """A file with the methods pyarrow needs, which remote files lack."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        stream.seek(0, io.SEEK_END)
        self._size = int(stream.tell())
        stream.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._stream.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._stream.tell())

    def read(self, size: int = -1) -> bytes:
        # A damaged file may ask for any number of bytes.
        left = max(0, self._size - self.tell())
        return bytes(self._stream.read(min(size, left) if size >= 0 else left))


def check(stream: IO[bytes], path: str, kind: str, column: str) -> None:
    """Make sure that a file has a column of text; only its schema is read."""
    with _opened(stream, path, kind) as (pyarrow, schema, _):
        names = list(schema.names)
        times = names.count(column)
        if times != 1:
            raise errors.UserError(
                f"`text_column={column}` names {times} columns of {path}; one "
                f"is needed. The columns are: {', '.join(names[:20])}. Name "
                "the one that holds the text."
            )
        found = schema.field(column).type
        if pyarrow.types.is_dictionary(found):
            found = found.value_type
        if str(found) not in _BYTES:
            raise errors.UserError(
                f"`text_column={column}` of {path} holds {found}, not text. "
                f"The columns are: {', '.join(names[:20])}. Name the one that "
                "holds the text."
            )


def json_lines(
    stream: IO[bytes], path: str, kind: str, column: str
) -> Iterator[bytes]:
    r"""Yield the rows of a file as JSON lines, a batch at a time.

    Example:
        a column "body" with the rows "one" and None yields
        b'{"body": "one"}\n{"body": null}\n'
    """
    with _opened(stream, path, kind) as (pyarrow, _, batches):
        for batch in batches(column):
            texts = _as_bytes(pyarrow, batch.column(column))
            for first in range(0, len(texts), _ROWS_AT_ONCE):
                rows = texts.slice(first, _ROWS_AT_ONCE).to_pylist()
                yield b"".join(_json_line(column, row) for row in rows)


def _as_bytes(pyarrow: Any, texts: Any) -> Any:
    """Return an array of bytes, because text may not be UTF-8.

    It is validated, because pyarrow reads beyond the memory of a damaged array.
    """
    if pyarrow.types.is_dictionary(texts.type):
        texts.validate(full=True)
        texts = texts.dictionary_decode()
    found = texts.cast(getattr(pyarrow, _BYTES[str(texts.type)])())
    found.validate(full=True)
    return found


def _json_line(column: str, text: bytes | None) -> bytes:
    value = None if text is None else text.decode("utf-8", "surrogateescape")
    line = json.dumps({column: value}, ensure_ascii=False) + "\n"
    return line.encode("utf-8", "surrogateescape")


def _open(
    pyarrow: Any, kind: str, stream: io.RawIOBase
) -> tuple[Any, Callable[[str], Iterator[Any]]]:
    """Return the schema of a file, and what reads a column in batches."""
    if kind == "parquet":
        # Page by page: pre_buffer would read whole row groups.
        file = pyarrow.parquet.ParquetFile(
            stream, buffer_size=_BUFFER_BYTES, pre_buffer=False
        )
        return file.schema_arrow, lambda column: file.iter_batches(
            _ROWS_AT_ONCE, columns=[column], use_threads=False
        )
    start = stream.read(6)
    stream.seek(0)
    if start != b"ARROW1":  # `datasets` writes streams.
        reader = pyarrow.ipc.open_stream(stream)
        return reader.schema, lambda column: iter(reader)
    reader = pyarrow.ipc.open_file(stream)
    numbers = range(reader.num_record_batches)
    return reader.schema, lambda column: map(reader.get_batch, numbers)


@contextlib.contextmanager
def _opened(
    stream: IO[bytes], path: str, kind: str
) -> Iterator[tuple[Any, Any, Callable[[str], Iterator[Any]]]]:
    """Yield pyarrow and what `_open` returns.

    What pyarrow raises for a damaged file becomes a `UserError`.
    """
    pyarrow = packages.require(
        "pyarrow",
        "pyarrow.parquet",
        install="pip install pyarrow",
        argument=f"input_format={kind}",
    )
    try:
        yield pyarrow, *_open(pyarrow, kind, _WholeFile(stream))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None):  # An error of the disk.
            raise
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise errors.UserError(
            f"`input_file={path}` cannot be read with `input_format={kind}`: "
            f"{reason}. It must be a whole file of that format. Copy or write "
            "it again."
        ) from error
