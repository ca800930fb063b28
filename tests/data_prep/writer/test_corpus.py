import functools
import gzip
import hashlib
import io
import json
import lzma
import random
import sys
import types

import pytest
from backports import zstd

from data_prep.writer import corpus, prose
from tests.conftest import python, refused
from tests.data_prep.reading import (
    SIZES,
    documents_of,
    make_options,
    read_all,
    write,
)


def run_python(code, *arguments, stdin=None):
    """Run code in a fresh process; it prints its peak of memory in MiB last."""
    code += (
        "\nimport resource\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    return python("-c", code, *arguments, stdin=stdin).stdout.splitlines()


@pytest.fixture
def small_limits(monkeypatch):
    """20 bytes are a long line and 50 a long document."""
    monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 20)
    monkeypatch.setattr(corpus, "MAX_DOCUMENT_BYTES", 50)


@pytest.fixture(params=[3, 1000])
def chunk_bytes(request, monkeypatch):
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", request.param)


# Documents and blocks.


def test_blank_lines_divide_documents(tmp_path):
    path = write(tmp_path, b"\n\none\ntwo\r\n \t\r\nthree\n\n\nfour")
    assert read_all([path])[0] == [["one", "two"], ["three"], ["four"]]


def test_files_are_document_boundaries(tmp_path):
    paths = [
        write(tmp_path, text, name)
        for name, text in {"a": b"one\ntwo", "b": b"", "c": b"three"}.items()
    ]
    for block_bytes in SIZES:
        found, _, reader = read_all(paths, block_bytes)
        assert found == [["one", "two"], ["three"]]
        assert [facts["path"] for facts in reader.files] == list(
            map(str, paths)
        )


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n\n", b"\xef\xbb\xbf"])
def test_file_without_text_has_no_blocks(tmp_path, content):
    path = write(tmp_path, content)
    reader = read_all([path])[2]
    assert not list(
        corpus.CorpusReader([str(path)], make_options()).read_blocks()
    )
    assert reader.files[0]["size"] == len(content)


def test_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    path = write(tmp_path, "\ufeffone\n\ufefftwo".encode())
    assert read_all([path])[0] == [["one", "\ufefftwo"]]


def random_text(seed):
    draw = random.Random(seed)
    blank = ["\n", "\n", " \n", "\r\n", "\t\v\f \n", "\n" * 60]
    line = ["a\n", "Fox ran.\n", "Ünïcödé\r\n", "x" * 20 + "\n"]
    return "".join(
        draw.choice(blank if draw.random() < 0.2 else line) for _ in range(300)
    )


def cut_documents(text, longest):
    """The rule, one line after the other."""
    lines, size = [], 0
    for line in text.split("\n"):
        size = (size + len(line.encode()) + 1) if line.strip() else 0
        if size > longest:
            lines.append("")
            size = len(line.encode()) + 1
        lines.append(line)
    return documents_of(lines)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("small_limits")
def test_block_size_does_not_change_documents(tmp_path, chunk_bytes, seed):
    text = random_text(seed)[: -1 - seed % 2]
    path = write(tmp_path, text.encode())
    expected = cut_documents(text, longest=50)
    cuts = len(expected) - len(documents_of(text.split("\n")))
    assert cuts > 10
    for block_bytes in SIZES:
        found, _, reader = read_all([path], block_bytes)
        assert found == expected
        assert reader.documents_cut == cuts


@pytest.mark.parametrize("block_bytes", SIZES)
def test_blocks_know_their_first_line(tmp_path, block_bytes):
    content = b"\n\none\ntwo\n\n\n\nthree\n\n \nfour"
    lines = content.split(b"\n")
    path = write(tmp_path, content)
    reader = corpus.CorpusReader([str(path)], make_options(), block_bytes)
    for block in reader.read_blocks():
        here = block.text.split(b"\n")[:-1]
        begin = block.first_line - 1
        assert here == lines[begin : begin + len(here)]


def test_blocks_end_with_the_document_that_fills_them(tmp_path, chunk_bytes):
    path = write(tmp_path, b"0123\n56\n\n" * 100)
    reader = corpus.CorpusReader([str(path)], make_options(), 20)
    sizes = [len(block.text) for block in reader.read_blocks()]
    assert sizes == [27] * 33 + [9]


# Limits.


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("ending", [b"", b"\n", b"\nmore\n", b"\n\nmore\n"])
def test_long_line_is_refused_by_its_number(tmp_path, chunk_bytes, ending):
    text = b"one\n\ntwo\n" + b"x" * 20 + b"\n" + b"y" * 21 + ending
    path = write(tmp_path, text)
    for block_bytes in SIZES:
        with refused(r"a\.txt`: line 5 is longer than 20 bytes"):
            read_all([path], block_bytes)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_long_lines_are_left_out(tmp_path, chunk_bytes, policy):
    long = "y" * 21
    text = f"{long}\none\n{long}{long}\n{long}\ntwo\n\n{long}\n\nend\n{long}"
    path = write(tmp_path, text.encode())
    for block_bytes in SIZES:
        found, counts, _ = read_all([path], block_bytes, on_bad_line=policy)
        assert found == [["one", "two"], ["end"]]
        assert counts == {"lines_skipped": 5, "lines_replaced": 0}


PEAK = """
import sys
from albert_tf.common import errors
from data_prep.writer import corpus, decoding
options = corpus.CorpusOptions(sys.argv[1], on_bad_line=sys.argv[2])
reader = corpus.CorpusReader(corpus.find_files(options), options)
size = 0
try:
    for block in reader.read_blocks():
        decoding.decode_lines(block, options)
        size += len(block.text)
except errors.UserError as error:
    print(error)
print(size, reader.documents_cut, "tensorflow" in sys.modules)
"""


@pytest.fixture(scope="module")
def idle_peak():
    return int(run_python("from data_prep.writer import corpus, decoding")[-1])


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_memory_of_a_huge_line_is_bounded(tmp_path, idle_peak, policy):
    path = write(tmp_path, b"one\n")
    with path.open("r+b") as stream:
        stream.truncate(64 * 2**20)  # Zeros, which are no line ends.
    *output, peak = run_python(PEAK, path, policy)
    assert int(peak) - idle_peak < 16
    if policy == "fail":
        assert "a.txt`: line 2 is longer than 1,048,576 bytes" in output[0]
    else:
        assert output == ["6 0 False"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "cuts"),
    [("One line.\nAnother line.\n\n", 0), ("No document ends here.\n", 15)],
)
def test_memory_of_a_large_file_is_bounded(tmp_path, idle_peak, pattern, cuts):
    path = tmp_path / "a.txt"
    copies = 2**20 // len(pattern)
    with path.open("w") as stream:
        for _ in range(120):
            stream.write(pattern * copies)
    output, peak = run_python(PEAK, path, "fail")
    size = 120 * copies * len(pattern)
    assert output == f"{size} {min(cuts, (size - 1) // (8 * 2**20))} False"
    # A block of 8 MiB is there several times; as str objects it is larger.
    assert int(peak) - idle_peak < (120 if cuts else 30)


# Formats.


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)],
)
def test_packed_files_are_unpacked(tmp_path, ending, pack):
    two_parts = pack(b"one\n\ntw") + pack(b"o\n")
    path = write(tmp_path, two_parts, f"a.txt{ending}")
    found, _, reader = read_all([path])
    assert found == [["one"], ["two"]]
    facts = reader.files[0]
    assert facts["size"] == len(two_parts) == reader.total_bytes
    assert facts["sha256"] == hashlib.sha256(two_parts).hexdigest()
    for broken in [pack(b"one\n" * 1000)[:-6], b"plain text", b""]:
        path.write_bytes(broken)
        with refused("cannot be unpacked"):
            read_all([path])


def test_zeros_behind_a_packed_file_are_hashed(tmp_path):
    """The format allows them, behind each stream."""
    for ending, pack in ((".xz", lzma.compress), (".gz", gzip.compress)):
        zeros = bytes(3 * 2**20)
        content = pack(b"one\n") + zeros + pack(b"two\n") + zeros
        path = write(tmp_path, content, f"a{ending}")
        found, _, reader = read_all([path])
        assert found == [["one", "two"]]
        digest = hashlib.sha256(content).hexdigest()
        assert reader.files[0]["sha256"] == digest


def parts_with_damage():
    """Packed files of which a later part is damaged, or is no such part."""
    text = b"".join(b"line %d\n" % i for i in range(1000))
    checked = {zstd.CompressionParameter.checksum_flag: 1}
    for ending, pack in (
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".zst", functools.partial(zstd.compress, options=checked)),
    ):
        whole = pack(text)
        middle = bytearray(whole)
        middle[len(whole) // 2] ^= 0xFF
        for name, later in {
            "beginning": b"\xff" + whole[1:],
            "second byte": whole[:1] + b"\xff" + whole[2:],
            "middle": bytes(middle),
            "cut": whole[:-1],
            "few bytes": whole[:3],
            "text": text,
            "zeros and text": bytes(512) + b"text",
        }.items():
            for between in (b"", whole, b"" if ending == ".zst" else bytes(4)):
                content = whole + between + later
                yield pytest.param(ending, content, id=f"{ending} {name}")


@pytest.mark.parametrize(("ending", "content"), list(parts_with_damage()))
def test_no_later_part_of_a_packed_file_is_dropped(tmp_path, ending, content):
    path = write(tmp_path, content, f"a{ending}")
    with refused(f"a{ending} cannot be unpacked"):
        read_all([path])
    with (
        refused(f"a{ending} cannot be unpacked"),
        corpus.open_unpacked(str(path)) as stream,
    ):
        stream.read()


def test_progress_reaches_the_size_of_all_files(tmp_path):
    paths = [write(tmp_path, b"one\n\n" * 10**6, name) for name in "ab"]
    reader = corpus.CorpusReader(map(str, paths), make_options())
    assert reader.bytes_read == 0
    seen = [reader.bytes_read for _ in reader.read_blocks()]
    assert seen == sorted(seen)
    assert 0 < seen[0] < reader.total_bytes == 10**7
    assert reader.bytes_read == reader.total_bytes


def test_standard_input_is_read(tmp_path, monkeypatch):
    content = b"one\n\ntwo"
    stdin = types.SimpleNamespace(buffer=io.BytesIO(content))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert corpus.find_files(make_options(input_file="-")) == ["-"]
    found, _, reader = read_all(["-"])
    assert found == [["one"], ["two"]]
    assert reader.total_bytes is None
    digest = hashlib.sha256(content).hexdigest()
    facts = {"path": "-", "size": len(content), "sha256": digest}
    assert reader.files == [facts]


def test_remote_files_are_read():
    import tensorflow as tf

    with tf.io.gfile.GFile("ram://corpus/a.txt.gz", "wb") as stream:
        stream.write(gzip.compress(b"one\n"))
    options = make_options(input_file="ram://corpus/*.gz")
    found, _, reader = read_all(corpus.find_files(options))
    assert found == [["one"]]
    assert reader.bytes_read == reader.total_bytes


def test_long_json_object_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_DOCUMENT_BYTES", 50)
    record = json.dumps({"text": "y" * 50})
    path = write(tmp_path, f'{{"text": "a"}}\n{record}\n'.encode())
    with refused("line 2 is a document of more than 50"):
        read_all([path], input_format="jsonl")
    found, counts, _ = read_all(
        [path], input_format="jsonl", on_bad_line="skip"
    )
    assert (found, counts["lines_skipped"]) == ([["a"]], 1)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("-,a", "lines", "names standard input .-. beside others"),
        ("-", "parquet", "cannot be read with --input_format=parquet"),
        ("a.tar.gz", "lines", "a.tar.gz is an archive"),
        ("a.parquet", "jsonl", "a table by its name.* --input_format=parquet"),
    ],
)
def test_inputs_of_another_kind_are_refused(
    tmp_path, monkeypatch, name, kind, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    options = make_options(input_file=name, input_format=kind)
    with refused(message):
        corpus.find_files(options)


def test_prose_lines_have_a_bound(monkeypatch):
    monkeypatch.setattr(prose, "MAX_LINE_BYTES", 10)
    lines = prose.read(io.BytesIO(b"0123456789\n" * 2), "x")
    assert list(lines) == ["0123456789"] * 2
    stream = io.BytesIO(b"0\n" * 3 + b"01234567890")
    with refused("x`: line 4 is longer than 10"):
        list(prose.read(stream, "x"))
