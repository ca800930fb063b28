"""Bytes to lines, documents and blocks, without files."""

import re

import pytest

from albert_tf.common import errors
from data_prep.writer import text_lines


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"", False),
        (b"\0" * 16, False),  # Few.
        (b"\0" * 17, True),
        (b"\x7f" * 17, True),
        (b"\x1b" * 17 + b"x" * 39, True),  # 30.4 %.
        (b"\x1b" * 18 + b"x" * 42, False),  # 30 %, not more.
        (b"\t\n\v\f\r" * 100, False),
        ("ü€天".encode() * 100, False),
    ],
)
def test_lines_of_control_characters_are_binary(line, expected):
    assert text_lines.is_binary(line) is expected


def test_control_characters_are_counted():
    every = bytes(range(256))
    assert text_lines.count_controls(every) == 33 - 5
    assert text_lines.tell_controls(b"\0" * 1234 + b"ab") == (
        "1,234 of its 1,236 bytes are control characters"
    )


def test_line_ends_are_counted():
    assert text_lines.count_lines(b"") == 0
    assert text_lines.count_lines(b"\na\r\n\n b") == 3


def test_messages_name_file_and_line():
    assert text_lines.tell_line("a.txt", 3) == "`input_file=a.txt`: line 3"
    assert text_lines.tell_line("-", 1) == (
        "`input_file=-` (standard input): line 1"
    )


@pytest.mark.parametrize(
    "lines, index, message",
    [
        (
            [b"x", b"caf\xe9"],
            1,
            "HERE is not UTF-8: byte 4 of the line is 0xe9",
        ),
        ([b"\xff"], 0, "byte 1 of the line is 0xff"),
        # Zero bytes 8 lines before, and 7 behind, still count; farther ones
        # do not.
        ([b"\0", *[b"x"] * 7, b"\xff"], 8, "it has zero bytes and is not UTF"),
        ([b"\xff", *[b"x"] * 6, b"\0"], 0, "it has zero bytes and is not UTF"),
        ([b"\0", *[b"x"] * 8, b"\xff"], 9, "byte 1 of the line is 0xff"),
        ([b"\xff", *[b"x"] * 7, b"\0"], 0, "byte 1 of the line is 0xff"),
        ([b"\0" * 20], 0, "HERE is not text: 20 of its 20 bytes are control"),
    ],
)
def test_bad_line_is_explained(lines, index, message):
    error = text_lines.bad_line(lines, index, "HERE", " Or else.")
    assert isinstance(error, errors.UserError)
    assert message in str(error)
    assert "Input must be UTF-8 text." in str(error)
    assert str(error).endswith(". Or else.")


def whole_lines(content, chunk, longest):
    """Cut chunks of a size; also the numbers of the lines that are too long."""
    chunks = [
        content[first : first + chunk]
        for first in range(0, len(content), chunk)
    ]
    long: list[int] = []
    return list(text_lines.whole_lines(chunks, longest, long.append)), long


def test_chunks_become_whole_lines():
    assert whole_lines(b"a\nbc\nd", 3, 9) == ([b"a\n", b"bc\n", b"d\n"], [])


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 100])
def test_long_lines_become_one_bad_byte(chunk):
    content = b"12345\n123\n\n123456789012\n1234\n12345\n1\n12345"
    texts, long = whole_lines(content, chunk, longest=4)
    assert b"".join(texts) == (b"\xff\n123\n\n\xff\n1234\n\xff\n1\n\xff\n")
    assert long == [1, 4, 6, 8]
    assert all(text.endswith(b"\n") for text in texts)


def test_an_error_of_a_long_line_ends_the_reading():
    def refuse(number):
        raise ValueError(f"line {number}")

    lines = text_lines.whole_lines([b"a\nb\n", b"12345"], 4, refuse)
    assert next(lines) == b"a\nb\n"
    with pytest.raises(ValueError, match="line 3"):
        next(lines)


def test_lines_become_whole_documents():
    cut = text_lines.cut_documents([b"a\n", b"b\n\nc\n"], 99)
    assert list(cut) == [(b"a\nb\n\n", False), (b"c\n", False)]


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\t\r\n", b"\v\f\n"])
def test_white_space_ends_a_document(blank):
    cut = text_lines.cut_documents([b"a\n" + blank + b"b\n"], 99)
    assert list(cut) == [(b"a\n" + blank, False), (b"b\n", False)]


def test_non_breaking_space_ends_no_document():
    lines = "a\n\u00a0\nb\n".encode()
    assert list(text_lines.cut_documents([lines], 99)) == [(lines, False)]


@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
@pytest.mark.parametrize("search", [1, 2, 3, 2**16])
def test_long_documents_are_cut_alike_however_they_come(
    at_once, search, monkeypatch
):
    monkeypatch.setattr(text_lines, "_SEARCH_BYTES", search)
    lines = re.findall(rb".*\n", b"ab\ncd\nef\ngh\n\ni\n\nj\nkl\nmn\n\n")
    texts = [
        b"".join(lines[first : first + at_once])
        for first in range(0, len(lines), at_once)
    ]
    parts: list[bytes] = []
    cuts, done = [], 0
    for text, is_cut in text_lines.cut_documents(texts, 7):
        parts.append(text)
        done += len(text)
        cuts += [done] * is_cut
    assert b"".join(parts) == b"".join(lines)
    # Behind "cd" and "kl": with the next line it would be 9 and 8 bytes.
    assert cuts == [6, 21]


def test_document_of_just_the_limit_is_not_cut():
    lines = [b"abc\ndef\n\ng\n"]
    assert list(text_lines.cut_documents(lines, 8)) == [
        (b"abc\ndef\n", False),
        (b"\n", False),
        (b"g\n", False),
    ]


@pytest.mark.parametrize(
    "start, document, line", [(1, 3, 2), (2, 3, 2), (3, 0, 3), (4, 0, 5)]
)
def test_next_ends(start, document, line):
    text = b"a\n\nb\nc"
    assert text_lines.next_document(text, start) == document
    assert text_lines.next_line(text, start) == line
    assert text_lines.next_line(text, 6) == 0


@pytest.mark.parametrize(
    "size, expected",
    [
        (1, [b"a\n", b"b\n", b"cdef\n"]),
        (3, [b"a\nb\n", b"cdef\n"]),
        (4, [b"a\nb\n", b"cdef\n"]),
        (5, [b"a\nb\ncdef\n"]),
        (99, [b"a\nb\ncdef\n"]),
    ],
)
def test_blocks_are_as_small_as_their_size_allows(size, expected):
    parts = [(b"a\nb\n", False), (b"cdef\n", False)]
    found = list(text_lines.group(parts, text_lines.next_line, size))
    assert found == [(text, False) for text in expected]


def test_a_cut_document_ends_its_block():
    parts = [(b"a\n", False), (b"b\n", True), (b"c\n", False)]
    found = text_lines.group(parts, text_lines.next_document, 99)
    assert list(found) == [(b"a\nb\n", True), (b"c\n", False)]
