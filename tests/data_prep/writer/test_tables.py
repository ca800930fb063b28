"""Parquet and Arrow files as JSON lines."""

import io
import json
import random

import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.common import arrow_tables, errors
from data_prep.writer import corpus, decoding, tables
from tests.conftest import changed, refused
from tests.data_prep import writing

TEXTS = ["It rains.\nWe stay.", 'a "b" é 😀', "", "…\u2028x"]
TABLE = pyarrow.table({"id": [1, 2, 3, 4], "body": TEXTS})


def write_parquet(table, path, **options):
    pyarrow.parquet.write_table(table, path, **options)


def write_arrow_file(table, path):
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_arrow_stream(table, path):
    """As `datasets` does."""
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


WRITERS = {
    "parquet": ("parquet", write_parquet),
    "arrow file": ("arrow", write_arrow_file),
    "arrow stream": ("arrow", write_arrow_stream),
}


@pytest.fixture(params=WRITERS)
def kind_and_writer(request):
    return WRITERS[request.param]


def lines_of(path, kind, column="body"):
    with open(path, "rb", buffering=0) as stream:
        tables.check(stream, str(path), kind, column)
    with open(path, "rb", buffering=0) as stream:
        return [*tables.json_lines(stream, str(path), kind, column)]


def stored(kind_and_writer, folder, table=TABLE):
    kind, write = kind_and_writer
    path = str(folder / f"a.{kind}")
    write(table, path)
    return path, kind


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_rows_become_json_lines(
    kind_and_writer, tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr(arrow_tables, "ROWS_AT_ONCE", at_once)
    path, kind = stored(kind_and_writer, tmp_path)
    parts = lines_of(path, kind)
    found = b"".join(parts).decode().split("\n")
    assert [json.loads(line) for line in found[:-1]] == [
        {"body": text} for text in TEXTS
    ]
    assert max(part.count(b"\n") for part in parts) <= at_once


@pytest.mark.parametrize("kind", ["string_view", "large_string", "dictionary"])
def test_every_kind_of_text_is_read(tmp_path, kind):
    texts = pyarrow.array([*TEXTS, None])
    if kind == "dictionary":
        texts = texts.dictionary_encode()
    else:
        texts = texts.cast(getattr(pyarrow, kind)())
    path = str(tmp_path / "a.arrow")
    write_arrow_stream(pyarrow.table({"body": texts}), path)
    found = b"".join(lines_of(path, "arrow")).splitlines()
    assert json.loads(found[-1]) == {"body": None}
    assert json.loads(found[0]) == {"body": TEXTS[0]}


@pytest.mark.usefixtures("many_pieces")
def test_bytes_are_those_of_json_lines(base, tmp_path):
    """Whatever the number of workers."""
    texts = (tmp_path / "a.txt").read_text().split("\n\n")
    path = str(tmp_path / "a.parquet")
    write_parquet(pyarrow.table({"body": texts}), path)
    records = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "a.jsonl").write_text(records)
    wanted = writing.in_folder(
        base,
        tmp_path / "jsonl",
        input_format="jsonl",
        input_file=str(tmp_path / "a.jsonl"),
    )
    table = dict(input_format="parquet", input_file=path, text_column="body")
    own = changed(base, **table)
    assert writing.in_folder(own, tmp_path / "table", num_workers=2) == wanted


def read_all(path, kind, **values):
    options = corpus.CorpusOptions(
        path, input_format=kind, text_column="body", **values
    )
    reader = corpus.CorpusReader(corpus.find_files(options), options)
    found, counts = [], {}
    for block in reader.read_blocks():
        lines, counts = decoding.decode_lines(block, options)
        found += lines
    return found, counts, reader


def test_bad_rows_are_named_or_left_out(kind_and_writer, tmp_path):
    bad = pyarrow.array([b"one", b"caf\xe9", b"two", None]).view(
        pyarrow.string()
    )
    path, kind = stored(kind_and_writer, tmp_path, pyarrow.table({"body": bad}))
    with refused("line 2 is not UTF-8"):
        read_all(path, kind)
    found, counts, _ = read_all(path, kind, on_bad_line="skip")
    assert found == ["one", "", "two", ""] and counts["lines_skipped"] == 2
    found, counts, _ = read_all(path, kind, on_bad_line="replace")
    assert found == ["one", "", "caf\ufffd", "", "two", ""]
    assert counts == {"lines_skipped": 1, "lines_replaced": 1}


def test_facts_of_a_table_are_those_of_the_file(kind_and_writer, tmp_path):
    path, kind = stored(kind_and_writer, tmp_path)
    _, _, reader = read_all(path, kind)
    (facts,) = reader.files
    with open(path, "rb") as stream:
        content = stream.read()
    assert facts["size"] == reader.bytes_read == len(content)
    assert facts["sha256"] == corpus.hashlib.sha256(content).hexdigest()


def test_damaged_tables_are_refused(kind_and_writer, tmp_path):
    """Cut short, or with other bytes: an error or text, never a crash."""
    path, kind = stored(kind_and_writer, tmp_path)
    with open(path, "rb") as stream:
        content = stream.read()
    refused = 0
    for seed in range(150):
        generator = random.Random(seed)
        damaged = bytearray(content)
        if seed % 3:
            for _ in range(generator.randint(1, 4)):
                place = generator.randrange(len(content))
                damaged[place] = generator.randrange(256)
        else:
            del damaged[generator.randrange(len(content)) :]
        try:
            tables.check(io.BytesIO(damaged), "a", kind, "body")
            list(tables.json_lines(io.BytesIO(damaged), "a", kind, "body"))
        except errors.UserError:
            refused += 1
    assert refused >= 50


class Watched(io.FileIO):
    """A file that knows the longest piece that was read from it."""

    longest = 0

    def read(self, size=-1):
        data = super().read(size)
        self.longest = max(self.longest, len(data))
        return data


def test_row_groups_are_not_read_at_once(tmp_path):
    generator = random.Random(0)
    texts = [generator.randbytes(10_000).hex() for _ in range(500)]
    path = str(tmp_path / "a.parquet")
    table = pyarrow.table({"body": texts})
    write_parquet(table, path, write_batch_size=10, compression="none")
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 1
    with Watched(path) as stream:
        for _ in tables.json_lines(stream, path, "parquet", "body"):
            pass
        assert stream.longest < 3 * 2**20
