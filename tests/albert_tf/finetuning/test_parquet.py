"""Tables of Parquet."""

import io

import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.common import errors
from albert_tf.finetuning import text_files


def table(**columns):
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def test_rows_and_columns():
    names, rows = text_files.read_parquet(
        table(text=["a", None], n=[1, 2]), "t.parquet"
    )
    assert names == ["text", "n"]
    assert list(rows) == [{"text": "a", "n": 1}, {"text": None, "n": 2}]


def test_a_damaged_file_is_named():
    content = table(text=["word " * 100] * 100)
    for damaged in (b"", b"PAR1", content[:-9], content[:200] + content[300:]):
        with pytest.raises(errors.UserError, match="t.parquet is no whole"):
            names, rows = text_files.read_parquet(damaged, "t.parquet")
            assert list(rows) == [{names[0]: "word " * 100}] * 100


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(table(text=["a"], n=[1]))
    entries = text_files.read_own(str(path), ["text", "label"], lambda *_: [])
    with pytest.raises(errors.UserError, match="no 'label'; .*'text', 'n'"):
        list(entries)
