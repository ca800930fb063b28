"""Lines of bytes: whether they are text, and how messages name them."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from albert_tf.common import errors

STANDARD_INPUT = "-"

# A line may have this number of control characters, or this share. The original
# removes a few; a line with more is not text. White space does not count.
MOST_CONTROLS, _MOST_CONTROLS_SHARE = 16, 0.3
_IS_CONTROL = np.array([c < 32 or c == 127 for c in range(256)])
_IS_CONTROL[list(b"\t\n\v\f\r")] = False
NEAR_LINES = 8  # Before a bad line, and from it on: searched for zero bytes.

# How no text begins, but JSON (an object, or a list of objects or texts), XML
# or HTML, and RTF.
_DOCUMENT = re.compile(
    r'\s*[\[{][\s\[{]*"([^"\\]|\\.)*"\s*(:|,\s*"|\]\s*$)'
    r"|\s*(<\?xml|<!DOCTYPE|<html|<mediawiki|\{\\rtf)",
    re.IGNORECASE,
)

# Replaces a line that is too long; not UTF-8, so always a bad line.
TOO_LONG = b"\xff"


def is_binary(line: bytes) -> bool:
    """Tell whether a line has too many control characters for text."""
    controls = count_controls(line)
    share = controls / max(1, len(line))
    return controls > MOST_CONTROLS and share > _MOST_CONTROLS_SHARE


def count_controls(text: bytes) -> int:
    """Count control characters other than white space."""
    is_control = _IS_CONTROL[np.frombuffer(text, np.uint8)]
    return int(np.count_nonzero(is_control))


def tell_controls(line: bytes) -> str:
    """Describe how many control characters a line has, for messages."""
    count = count_controls(line)
    return f"{count:,} of its {len(line):,} bytes are control characters"


def line_name(path: str, number: int) -> str:
    return f"{file_name(path)}: line {number}"


def file_name(path: str) -> str:
    note = " (standard input)" if path == STANDARD_INPUT else ""
    return f"`input_file={path}`{note}"


def refuse_document(begin: str, path: str, remedy: str) -> None:
    """Refuse JSON and XML that are given as text; see `file_name`.

    Args:
        begin: The first lines of the file.
        remedy: What to do with JSON lines, a sentence.
    """
    if _DOCUMENT.match(begin):
        raise errors.UserError(
            f"{file_name(path)} begins as JSON, XML or RTF do, so it is not "
            f"plain text. Take the text out of it first. {remedy}"
        )


def bad_line(
    lines: Sequence[bytes], index: int, where: str, remedy: str = ""
) -> errors.UserError:
    """Return the error for a line that is not UTF-8 text.

    Zero bytes near it, in `lines`, distinguish a binary file from text in
    another encoding. `where` is from `line_name`; the `remedy`, another fix, is
    a sentence after a space.
    """
    line = lines[index]
    near = b"".join(lines[max(0, index - NEAR_LINES) : index + NEAR_LINES])
    is_text = not is_binary(line)
    if is_text and b"\0" not in near:
        return errors.UserError(
            f"{where} is not UTF-8: {errors.bad_byte(line, 'the line')}. Input "
            "must be UTF-8 text. Convert it first, for example with: iconv -f "
            f"latin1 -t utf-8.{remedy}"
        )
    reason = "it has zero bytes and is not UTF-8"
    return errors.UserError(
        f"{where} is not text: {reason if is_text else tell_controls(line)}. "
        "Input must be UTF-8 text. Give other files, or convert this one."
        f"{remedy}"
    )


def read_lines(
    streams: Iterable[IO[bytes]],
    longest: int,
    on_long: Callable[[int], None] | None,
) -> Iterator[bytes]:
    r"""Yield the lines of streams, each with a "\n" at its end.

    The streams are buffered; each but the last ends with the end of a line. A
    line of more than `longest` bytes becomes `TOO_LONG`; `on_long` is called
    with its number, from 1, before.
    """
    number = 0
    for stream in streams:
        for line in iter(functools.partial(stream.readline, longest + 1), b""):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) > longest:
                    if on_long:
                        on_long(number)
                    while line and not line.endswith(b"\n"):
                        line = stream.readline(longest + 1)
                    line = TOO_LONG
                line += b"\n"
            yield line
