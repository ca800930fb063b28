"""Lines of bytes: which are text, and which are too long."""

import io

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


@pytest.mark.parametrize("buffer", [1, 2, 5, 100])
def test_long_lines_become_one_bad_byte(buffer):
    content = b"12345\n123\n\n123456789012\n1234\n12345\n1\n12345"
    long: list[int] = []
    for streams in ([content], [content[:6], content[6:]]):
        long.clear()
        buffered = (
            io.BufferedReader(io.BytesIO(part), buffer) for part in streams
        )
        lines = text_lines.read_lines(buffered, 4, long.append)
        assert b"".join(lines) == b"\xff\n123\n\n\xff\n1234\n\xff\n1\n\xff\n"
        assert long == [1, 4, 6, 8]


def test_the_last_line_gets_an_end():
    lines = text_lines.read_lines([io.BytesIO(b"a\n\nbc")], 2, None)
    assert list(lines) == [b"a\n", b"\n", b"bc\n"]
