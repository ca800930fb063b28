"""Tables of Parquet, for users' files."""

import io
from collections.abc import Iterator
from typing import Any

from albert_tf.common import errors, packages

ENDING = ".parquet"
_ROWS_AT_ONCE = 1024


def read(
    content: bytes, path: str
) -> tuple[list[str], Iterator[dict[str, Any]]]:
    pyarrow = packages.require(
        "pyarrow",
        "pyarrow.parquet",
        install="pip install pyarrow",
        argument=path,
    )
    failures = pyarrow.ArrowException, OSError, UnicodeDecodeError

    def failed(error: Exception) -> errors.UserError:
        reason = (str(error).splitlines() or [repr(error)])[0]
        return errors.UserError(
            f"{path} is no whole Parquet file: {reason}. Copy or write it "
            "again."
        )

    def rows() -> Iterator[dict[str, Any]]:
        try:
            for batch in table.iter_batches(_ROWS_AT_ONCE):
                # pyarrow reads beyond the memory of a damaged array.
                batch.validate(full=True)
                yield from batch.to_pylist()
        except failures as error:
            raise failed(error) from None

    try:
        table = pyarrow.parquet.ParquetFile(io.BytesIO(content))
        names = list(table.schema_arrow.names)
    except failures as error:
        raise failed(error) from None
    return names, rows()
