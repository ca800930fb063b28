"""Blocks to lines: text, JSON objects, and lines that are bad."""

import io
import json
import re

import pytest

from data_prep.writer import corpus, decoding, prose
from tests import row_files
from tests.conftest import refused
from tests.data_prep.reading import make_options, read_all, write


@pytest.mark.parametrize("block_bytes", [1, 7, 10**6])
def test_bytes_that_are_not_utf8_are_located(tmp_path, block_bytes):
    path = write(
        tmp_path, b"fine\n\nfine\n\n\n\xc3\xa9\ncaf\xe9 au lait\nx\xff"
    )
    with refused(r"a\.txt`: line 7 is not UTF-8: byte 4 of the line is 0xe9"):
        read_all([path], block_bytes)


@pytest.mark.parametrize("block_bytes", [1, 7, 10**6])
def test_bytes_that_are_not_utf8_are_skipped_or_replaced(tmp_path, block_bytes):
    # The last line but two ends within a character.
    text = b"fine\n\xe9t\xe9\nb\n\n\xff\n\nc\nd\xe2\x82\n\xc3\xa9\n"
    path = write(tmp_path, text)
    found, counts, _ = read_all([path], block_bytes, on_bad_line="skip")
    assert found == [["fine", "b"], ["c", "é"]]
    assert counts == {"lines_skipped": 3, "lines_replaced": 0}
    found, counts, _ = read_all([path], block_bytes, on_bad_line="replace")
    # A lone 0xff is what the reader makes of a line that is too long.
    assert found == [["fine", "\ufffdt\ufffd", "b"], ["c", "d\ufffd", "é"]]
    assert counts == {"lines_skipped": 1, "lines_replaced": 2}


@pytest.mark.parametrize("block_bytes", [1, 7, 10**6])
def test_each_json_object_is_a_document(tmp_path, block_bytes):
    texts = ["one\ntwo\n\n \u00a0\n\t\nthree\r\n", "", "\u2028É…", "…"]
    records = [json.dumps({"id": 1, "body": text}) for text in texts]
    path = write(tmp_path, ("\n\n".join(records) + "\n").encode())
    found, _, _ = read_all(
        [path], block_bytes, input_format="jsonl", json_field="body"
    )
    assert found == [["one", "two", "three"], ["É…"], ["…"]]


@pytest.mark.parametrize("block_bytes", [1, 10**6])
def test_text_of_json_objects_is_cut_into_sentences(tmp_path, block_bytes):
    """By the rules of a language, if one is given."""
    text = "Mr. Fox left. It was\nlate.\n\nWe \n  left, too. And"
    path = write(tmp_path, json.dumps({"text": text}).encode())
    split = {"input_format": "jsonl", "split_sentences": True}
    found, _, _ = read_all([path], block_bytes, **split)
    assert found == [["Mr. Fox left.", "It was late.", "We left, too.", "And"]]
    path.write_text('{"text": "Der 2. Versuch gelang. Gut!"}')
    found, _, _ = read_all([path], block_bytes, **split, language="de")
    assert found == [["Der 2. Versuch gelang.", "Gut!"]]


BAD_RECORDS = {
    b'{"text": "cut off': "unexpected end of data",
    b'["text"]': "not an object but",
    b'{"title": "a", "text": null}': r"no text in 'text'.*'text', 'title'",
    b'{"text": "\\ud83d!"}': "no low surrogate",
    b'{"text": "caf\xe9"}': r"is not UTF-8: byte 14 of the line is 0xe9",
    b"[" * 10**5: "depth limit exceeded",
    b'{"text": "a", "n": NaN}': "unexpected character",
    b'{"text": "a", "n": ' + b"9" * 6000 + b"}": "number is infinity",
    b"\xff": "is not UTF-8",
    json.dumps({"text": "\0" * 500}).encode(): "not text: 500 of its",
}


@pytest.mark.parametrize("block_bytes", [1, 20, 10**6])
@pytest.mark.parametrize("bad", BAD_RECORDS)
def test_bad_json_is_located(tmp_path, bad, block_bytes):
    good = b'{"text": "\\ud83d\\ude00\\u0000b"}'
    path = write(tmp_path, b"\n".join([good, b"", good, bad, good]))
    with refused() as caught:
        read_all([path], block_bytes, input_format="jsonl")
    assert re.search(f"line 4 .*{BAD_RECORDS[bad]}", str(caught.value))
    found, counts, _ = read_all(
        [path], block_bytes, input_format="jsonl", on_bad_line="skip"
    )
    assert found == [["\U0001f600\0b"]] * 3
    assert counts == {"lines_skipped": 1, "lines_replaced": 0}


@pytest.mark.parametrize("block_bytes", [1, 10**6])
def test_bad_row_of_a_table_is_located(tmp_path, block_bytes):
    rows = [{"t": text} for text in ("one", "two", None)]
    path = row_files.write(tmp_path / "a.parquet", rows)
    message = r"a\.parquet.*: row 3 has no usable text in --text_column=t: "
    with refused(message):
        read_all([path], block_bytes, input_format="parquet", text_column="t")


def test_bad_text_of_json_objects_is_replaced(tmp_path):
    path = write(tmp_path, b"\n".join(BAD_RECORDS))
    found, counts, _ = read_all(
        [path], input_format="jsonl", on_bad_line="replace"
    )
    assert found == [["\ufffd!"], ["caf\ufffd"]]
    assert counts == {"lines_skipped": 8, "lines_replaced": 2}


@pytest.mark.parametrize("block_bytes", [1, 7, 10**6])
def test_lines_of_control_characters_are_bad(tmp_path, block_bytes):
    utf_16 = "it rains all day.".encode("utf-16-be")
    path = write(tmp_path, b"one\n\n" + utf_16 + b"\n" + bytes(500) + b"\nend")
    message = (
        r"a\.txt`: line 3 is not text: 17 of its 34 bytes are control char"
    )
    with refused(message + ".*on_bad_line=skip"):
        read_all([path], block_bytes)
    for policy in ("skip", "replace"):
        found, counts, _ = read_all([path], block_bytes, on_bad_line=policy)
        assert found == [["one"], ["end"]]
        assert counts == {"lines_skipped": 2, "lines_replaced": 0}


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0", b"\x80\x04\x95\0\0\0"]
)
def test_binary_files_are_not_text_of_another_encoding(tmp_path, content):
    content = b"one\n" + content + b"\n"
    path = write(tmp_path, content)
    message = "line 2 is not text: it has zero bytes and is not UTF-8"
    with refused(message):
        read_all([path])
    with refused(message):
        list(prose.read(io.BytesIO(content), "x"))


def test_a_few_control_characters_stay(tmp_path):
    lines = ["\x1b[1mbold\x1b[0m " * 9, "\x00" * 15, "\x1a", "\t" * 99 + "x"]
    path = write(tmp_path, "\n".join(lines).encode())
    reader = corpus.CorpusReader([str(path)], make_options())
    (block,) = reader.read_blocks()
    assert decoding.decode_lines(block, make_options())[0] == lines


@pytest.mark.parametrize("block_bytes", [1, 10**6])
def test_turns_of_dialogues(tmp_path, block_bytes):
    path = write(tmp_path, b"Q\tHow?\nR\tSo.\n\nQ\tOh.\nQR\tx\nR Ah.\n")
    given = {"input_format": "dialogues"}
    with refused(
        r"a\.txt`: line 5 is no turn of a dialogue: it begins with "
        r"'QR\\tx'. With --input_format=dialogues a line is Q or R, a tab"
    ):
        read_all([path], block_bytes, **given)
    found, counts, _ = read_all(
        [path], block_bytes, **given, on_bad_line="skip"
    )
    assert found == [["Q\tHow?", "R\tSo."], ["Q\tOh."]]
    assert counts["lines_skipped"] == 2
