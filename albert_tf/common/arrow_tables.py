"""Tables of Parquet and Arrow files, read a batch of rows at a time."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf.common import errors, packages

# Formats, and how file names of them end.
ENDINGS = {"parquet": ".parquet", "arrow": ".arrow"}
ROWS_AT_ONCE = 64
_BUFFER_BYTES = 2**20  # Read from the disk at once.


class _WholeFile(io.RawIOBase):
    """A file with the methods pyarrow needs, which remote files lack."""

    def __init__(self, stream: IO[bytes]) -> None:
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


# Yields batches of some columns, all if None.
Batches = Callable[[list[str] | None], Iterator[Any]]


@contextlib.contextmanager
def open_table(
    stream: IO[bytes], kind: str, argument: str, refusal: Callable[[str], str]
) -> Iterator[tuple[Any, Any, Batches]]:
    """Yield pyarrow, the schema of a file, and a function that reads batches.

    Batches must be validated: pyarrow reads beyond the memory of a damaged
    array. Those of Arrow files have all columns, and the size in memory with
    which they were written.

    Args:
        kind: A key of `ENDINGS`.
        argument: The option that needs pyarrow, for messages.
        refusal: Turns pyarrow's reason into the message about a damaged file.
    """
    pyarrow = packages.require(
        "pyarrow",
        "pyarrow.parquet",
        install="pip install pyarrow",
        argument=argument,
    )
    try:
        yield pyarrow, *_open(pyarrow, kind, _WholeFile(stream))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None):  # An error of the disk.
            raise
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise errors.UserError(refusal(reason)) from error


def _open(pyarrow: Any, kind: str, stream: _WholeFile) -> tuple[Any, Batches]:
    """Return the schema, and a function that yields batches of columns."""
    if kind == "parquet":
        # Page by page: pre_buffer would read whole row groups.
        file = pyarrow.parquet.ParquetFile(
            stream, buffer_size=_BUFFER_BYTES, pre_buffer=False
        )
        return file.schema_arrow, lambda columns: file.iter_batches(
            ROWS_AT_ONCE, columns=columns, use_threads=False
        )
    start = stream.read(6)
    stream.seek(0)
    if start != b"ARROW1":  # `datasets` writes streams.
        reader = pyarrow.ipc.open_stream(stream)
        return reader.schema, lambda columns: iter(reader)
    reader = pyarrow.ipc.open_file(stream)
    numbers = range(reader.num_record_batches)
    return reader.schema, lambda columns: map(reader.get_batch, numbers)
