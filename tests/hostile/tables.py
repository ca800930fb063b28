"""Tables as the bytes of Parquet and Arrow files."""

import io
from collections.abc import Callable

import pyarrow
import pyarrow.parquet


def parquet(table: pyarrow.Table) -> bytes:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue()


def arrow(
    table: pyarrow.Table, new: Callable = pyarrow.ipc.new_stream
) -> bytes:
    """Return an Arrow file: a stream, as `datasets` writes, or a file."""
    stream = io.BytesIO()
    with new(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()
