"""Cut bytes of text into lines, documents and blocks; no file is read here."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from albert_tf.common import errors

STANDARD_INPUT = "-"

# A line may have this number of control characters, or this share. The original
# removes a few; a line with more is not text. White space does not count.
MOST_CONTROLS, _MOST_CONTROLS_SHARE = 16, 0.3
_IS_CONTROL = np.array([c < 32 or c == 127 for c in range(256)])
_IS_CONTROL[list(b"\t\n\v\f\r")] = False
_NEAR_LINES = 8  # Searched for zero bytes before and after a bad line.
_SEARCH_BYTES = 2**16  # Searched at once for the last blank line.

# Replaces a line that is too long; not UTF-8, so always a bad line.
TOO_LONG = b"\xff"

# Lines that `bytes.strip` leaves empty. The search begins at the "\n" before.
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*(?=\n)")
_BLANK_FIRST_LINE = re.compile(rb"[ \t\r\v\f]*\n")


def is_binary(line: bytes) -> bool:
    """Tell whether a line has too many control characters for text."""
    controls = count_controls(line)
    share = controls / max(1, len(line))
    return controls > MOST_CONTROLS and share > _MOST_CONTROLS_SHARE


def count_controls(text: bytes) -> int:
    """Count control characters other than white space."""
    found = _IS_CONTROL[np.frombuffer(text, np.uint8)]
    return int(np.count_nonzero(found))


def tell_controls(line: bytes) -> str:
    """Describe how many control characters a line has, for messages."""
    count = count_controls(line)
    return f"{count:,} of its {len(line):,} bytes are control characters"


def count_lines(text: bytes) -> int:
    """Count line ends; many times faster than `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def tell_line(path: str, number: int) -> str:
    """Name a line of a file, for messages."""
    return f"{tell_file(path)}: line {number}"


def tell_file(path: str) -> str:
    """Name a file, for messages."""
    note = " (standard input)" if path == STANDARD_INPUT else ""
    return f"`input_file={path}`{note}"


def bad_line(
    lines: Sequence[bytes], index: int, where: str, remedy: str = ""
) -> errors.UserError:
    """Return the error for a line that is not UTF-8 text.

    Zero bytes near it distinguish a binary file from text in another encoding.

    Args:
        lines: Neighbouring lines of a file.
        index: The bad one among them.
        where: File and number of the line, see `tell_line`.
        remedy: Another fix for the message, a sentence.
    """
    line = lines[index]
    near = b"".join(lines[max(0, index - _NEAR_LINES) : index + _NEAR_LINES])
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


def whole_lines(
    chunks: Iterable[bytes], longest: int, on_long: Callable[[int], None]
) -> Iterator[bytes]:
    r"""Regroup chunks of bytes into whole lines.

    Example:
        b"a\nb", b"c\nd" yields b"a\n", b"bc\n", b"d\n"

    Args:
        chunks: Bytes of a file, in order.
        longest: Bytes of the longest line, without its end. Memory holds at
            most this and one chunk.
        on_long: Called with the number of each longer line, from 1. If it
            returns, the line becomes `TOO_LONG`.
    """
    number, rest, is_dropping = 1, b"", False
    for chunk in chunks:
        if is_dropping:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk, is_dropping = chunk[end:], False
        text = rest + chunk
        end = text.rfind(b"\n") + 1
        text, rest = text[:end], text[end:]
        if text:
            text = _without_long_lines(text, longest, number, on_long)
            number += count_lines(text)
            yield text
        if len(rest) > longest:
            on_long(number)
            rest, is_dropping = TOO_LONG, True
    if rest:
        yield rest + b"\n"


def _without_long_lines(
    text: bytes, longest: int, number: int, on_long: Callable[[int], None]
) -> bytes:
    """Replace long lines; `number` is that of the first line."""
    parts, kept, start = [], 0, 0
    while start < len(text):
        # Skip all lines that surely are short enough.
        end = text.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            end = text.index(b"\n", start)
            on_long(number + text.count(b"\n", 0, start))
            parts += [text[kept:start], TOO_LONG]
            kept = end
        start = end + 1
    return b"".join([*parts, text[kept:]]) if parts else text


def cut_documents(
    texts: Iterable[bytes], longest: int
) -> Iterator[tuple[bytes, bool]]:
    r"""Regroup texts of whole lines into texts of whole documents.

    A document longer than `longest` is cut at the last line end within that
    length. The place depends on the document only, not on the division of the
    texts.

    Example:
        b"a\n", b"b\n\nc\n" yields (b"a\nb\n\n", False), (b"c\n", False)

    Args:
        texts: Whole lines, each not longer than `longest`.
        longest: Bytes of the longest document, line ends included.

    Yields:
        Lines, and whether their last document continues after them.
    """
    rest = bytearray()  # Grows and shrinks without being copied.
    for text in texts:
        searched = len(rest)
        rest += text
        while rest:
            end = _last_document_end(rest, searched, min(len(rest), longest))
            is_cut = not end and len(rest) > longest
            if is_cut:
                end = rest.rfind(b"\n", 0, longest) + 1
                is_cut = not _BLANK_FIRST_LINE.match(rest, end)
            if not end:
                break
            yield bytes(rest[:end]), is_cut
            del rest[:end]
            searched = 0
    if rest:
        yield bytes(rest), False


def _last_document_end(text: bytearray, low: int, high: int) -> int:
    r"""Return the position after the last blank line in `text[low:high]`.

    Example:
        (b"a\n\nb\n \nc\n", 0, 9) gives 7

    Args:
        text: Whole lines.
        low: Where a line begins; everything before was searched.
        high: Where to stop; a blank line must end before it.

    Returns:
        Where the next line begins; 0 if no line is blank.
    """
    first = low
    while high > low:  # Backwards: the last one is rarely far from the end.
        start = text.rfind(b"\n", low, max(low, high - _SEARCH_BYTES)) + 1
        start = max(start, low)
        matches = _BLANK_LINE.finditer(text, max(start - 1, 0), high)
        ends = [match.end() + 1 for match in matches]
        if ends:
            return ends[-1]
        high = start
    match = None if first else _BLANK_FIRST_LINE.match(text)
    return match.end() if match else 0


def next_document(text: bytes, start: int) -> int:
    """Return the end of the document with the next blank line; 0 if none.

    That line begins at `start` or later.
    """
    match = _BLANK_LINE.search(text, start - 1)
    return match.end() + 1 if match else 0


def next_line(text: bytes, start: int) -> int:
    """Return the first end of a line from `start` on; 0 if there is none."""
    return text.find(b"\n", start - 1) + 1


def group(
    parts: Iterable[tuple[bytes, bool]],
    next_end: Callable[[bytes, int], int],
    block_bytes: int,
) -> Iterator[tuple[bytes, bool]]:
    """Join and divide texts to at least `block_bytes`, or little more.

    Args:
        parts: Whole documents; or one piece of a document that was cut, and
            True, after which the text ends.
        next_end: Returns the first end of a document from a position on.
        block_bytes: The size.

    Yields:
        As `parts`.
    """
    waiting: list[bytes] = []
    size = 0
    for text, is_cut in parts:
        start = 0
        while not is_cut:
            end = next_end(text, start + max(1, block_bytes - size))
            if not end:
                break
            yield b"".join([*waiting, text[start:end]]), False
            waiting, size, start = [], 0, end
        waiting.append(text[start:])
        size += len(text) - start
        if is_cut:
            yield b"".join(waiting), True
            waiting, size = [], 0
    if size:
        yield b"".join(waiting), False
