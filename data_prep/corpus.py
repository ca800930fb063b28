r"""The corpus: text files, read as blocks of lines that hold whole documents.

The first room of the writer. One process reads (`CorpusReader`) and only looks
for line ends and blank lines; whatever costs time happens in the processes that
get the blocks and call `decode_lines`. Nothing here grows with the corpus.

Two layouts are read. "lines": one sentence on a line, an empty line after each
document. "jsonl": one JSON object on a line, which is one document. The end of
a file ends a document in both.
"""

import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import itertools
import lzma
import os
import re
import sys
import typing
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import numpy as np
from absl import logging
from backports import zstd
from syntok import segmenter

from albert_tf import errors, files, strict_json
from albert_tf.options import option

STANDARD_INPUT = "-"
BLOCK_BYTES = 2**20  # Some thousand sentences: a second of tokenizing.
# Longer documents are cut and longer lines refused, so that memory has a bound
# whatever the input. 8 MiB hold every book; 1 MiB no sentence.
MAX_DOCUMENT_BYTES = 8 * 2**20
MAX_LINE_BYTES = 2**20
MAX_PROSE_BYTES = 2**24  # Of a paragraph that is still to be cut.

# Of a line, control characters may be so many, or this share. The original
# removes a few; more are no text. White space does not count.
_MOST_CONTROLS, _MOST_CONTROLS_SHARE = 16, 0.3
_IS_CONTROL = np.array([c < 32 or c == 127 for c in range(256)])
_IS_CONTROL[list(b"\t\n\v\f\r")] = False

_CHUNK_BYTES = 2**20  # Read at once.
_SEARCH_BYTES = 2**16  # Searched at once for the last blank line.
# Stands for a line that was too long to keep; not UTF-8, so bad in any case.
_TOO_LONG = b"\xff"

# Lines that `bytes.strip` leaves empty. The search begins at the "\n" before.
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*(?=\n)")
_BLANK_FIRST_LINE = re.compile(rb"[ \t\r\v\f]*\n")
_INK = re.compile(rb"[^ \t\r\v\f\n]")

_OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zst": zstd.open,
}
# What a damaged packed file raises while it is read.
UNPACKING_ERRORS = (
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    zstd.ZstdError,
)
# Names of files that hold files; their bytes are not text.
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|t[gx]z|zip|7z|bz2)$")


@dataclasses.dataclass(frozen=True)
class CorpusOptions:
    """Which text is read, and how."""

    input_file: str = option(
        help="Text files: comma-separated paths or glob patterns; files that "
        "end in .gz, .xz or .zst are unpacked; - is standard input."
    )
    input_format: str = option(
        "lines",
        "lines: one sentence a line, an empty line after each document. jsonl: "
        "one JSON object a line, each a document.",
        choices=("lines", "jsonl"),
    )
    json_field: str = option("text", "The field of JSON objects with the text.")
    split_sentences: bool = option(
        False,
        "Cut the text of JSON objects into sentences; its paragraphs are "
        "separated by empty lines. Otherwise each of its lines is a sentence.",
    )
    on_bad_line: str = option(
        "fail",
        "What to do with a line that is not UTF-8, no text but control "
        "characters, not the JSON it should be, or too long: fail, skip it, or "
        "replace bytes that are not UTF-8 by U+FFFD (the others are skipped).",
        choices=("fail", "skip", "replace"),
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: An option of the other format is given.
        """
        if self.input_format == "jsonl":
            if not self.json_field:
                raise errors.UserError(
                    "--json_field is empty. Name the field that holds the "
                    "text of each JSON object, for example --json_field=text."
                )
            return
        default = {f.name: f.default for f in dataclasses.fields(self)}
        for name in ("json_field", "split_sentences"):
            value = getattr(self, name)
            if value != default[name]:
                raise errors.UserError(
                    f"--{name}={value} is given with --input_format="
                    f"{self.input_format}. It is for JSON objects only. Add "
                    f"--input_format=jsonl, or remove --{name}."
                )


@dataclasses.dataclass(frozen=True)
class Block:
    r"""Whole documents, as they stand in a file.

    The documents of all blocks, one block after the other, are those of the
    input, however large the blocks are.

    Attributes:
        index: Number of the block, from 0, over all files.
        path: The file.
        first_line: Number of the first line in its file, from 1.
        text: The lines, not yet decoded; each ends with "\n". A line that was
            too long is the byte 0xff.
    """

    index: int
    path: str
    first_line: int
    text: bytes


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What a file was, for the manifest.

    Attributes:
        path: Its name, `-` for standard input.
        size: Bytes as stored, packed if it is packed.
        sha256: Of the same bytes, hexadecimal.
    """

    path: str
    size: int
    sha256: str


def find_files(options: CorpusOptions) -> list[str]:
    """Return the files that the options name; `-` stays.

    Raises:
        errors.UserError: A pattern matches no file, a file is an archive or
            may not be read, or standard input is closed or not the only input.
    """
    patterns = [p.strip() for p in options.input_file.split(",")]
    if STANDARD_INPUT in patterns:
        if len(patterns) > 1:
            raise errors.UserError(
                f"--input_file={options.input_file} names standard input (-) "
                "beside others. It must be the only input. Pipe everything "
                "into standard input, or name only files."
            )
        require_readable(STANDARD_INPUT)
        return [STANDARD_INPUT]
    paths = files.expand_patterns(options.input_file, "input_file")
    for path in paths:
        if _ARCHIVE.search(path):
            raise errors.UserError(
                f"--input_file={path} is an archive. Text files are read, "
                f"plain or with one of the endings {' '.join(_OPENERS)}. "
                "Unpack it first."
            )
        require_readable(path)
    return paths


def require_readable(path: str) -> None:
    """Make sure that an input file, or standard input, may be read.

    Raises:
        errors.UserError: It may not.
    """
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise errors.UserError(
                "--input_file=- is standard input, which is closed. Pipe text "
                "into it, or name files."
            )
    elif not (files.is_remote(path) or os.access(path, os.R_OK)):
        raise errors.UserError(
            f"--input_file={path} may not be read: permission denied. Change "
            "its permissions, or leave it out."
        )


class CorpusReader:
    """Reads files as blocks, once, and remembers what they were.

    Attributes:
        files: Facts of the files read to their end, in order.
        total_bytes: Size of all files as stored; None with standard input.
        documents_cut: How often a document was cut because it was too long.
    """

    def __init__(
        self,
        paths: Iterable[str],
        options: CorpusOptions,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Look up the sizes of the files.

        Args:
            paths: Files, from `find_files`.
            options: How they are read.
            block_bytes: Text of a block; it ends with the document that
                reaches this number.
        """
        if block_bytes < 1:
            raise ValueError(f"block_bytes={block_bytes} is less than 1.")
        self._paths = tuple(paths)
        self._options = options
        self._block_bytes = block_bytes
        self._open_file: _HashedFile | None = None
        self.files: list[FileFacts] = []
        self.total_bytes = _total_size(self._paths)
        self.documents_cut = 0

    @property
    def bytes_read(self) -> int:
        """Stored bytes read so far, to be compared with `total_bytes`."""
        current = self._open_file.size if self._open_file else 0
        return current + sum(facts.size for facts in self.files)

    def read_blocks(self) -> Iterator[Block]:
        """Yield the blocks of all files; this is a generator.

        Raises:
            errors.UserError: A packed file is damaged, or a line is too long
                and bad lines are not to be skipped.
        """
        index = 0
        for path in self._paths:
            first_line = 1
            for text, is_cut in self._read_file(path):
                if _INK.search(text):
                    yield Block(index, path, first_line, text)
                    index += 1
                first_line += _count_lines(text)
                self.documents_cut += is_cut

    def _read_file(self, path: str) -> Iterator[tuple[bytes, bool]]:
        """Yield the texts of blocks; whether a document was cut behind them."""
        with _open_stored(path) as stream:
            self._open_file = stored = _HashedFile(stream)
            chunks = _watch_line_ends(_read_chunks(stored, path), path)
            parts: Iterable[tuple[bytes, bool]]
            if self._options.input_format == "jsonl":
                lines = self._whole_lines(chunks, path, MAX_DOCUMENT_BYTES)
                parts = ((text, False) for text in lines)
                yield from _group(parts, _next_line, self._block_bytes)
            else:
                lines = self._whole_lines(chunks, path, MAX_LINE_BYTES)
                parts = _cut_documents(lines, MAX_DOCUMENT_BYTES)
                yield from _group(parts, _next_document, self._block_bytes)
        self._open_file = None
        self.files.append(
            FileFacts(path, stored.size, stored.digest.hexdigest())
        )

    def _whole_lines(
        self, chunks: Iterable[bytes], path: str, longest: int
    ) -> Iterator[bytes]:
        refuse = functools.partial(_refuse_long_line, path, longest)
        is_fatal = self._options.on_bad_line == "fail"
        return _whole_lines(chunks, longest, refuse if is_fatal else _ignore)


# From stored bytes to text. ---------------------------------------------------


class _HashedFile:
    """A file that knows how much of it was read, and the hash of that."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        self.size += len(data)
        return data


def _gfile() -> Any:
    from tensorflow.io import gfile  # Slow to import: only for remote paths.

    return gfile


def _total_size(paths: Iterable[str]) -> int | None:
    total = 0
    for path in paths:
        if path == STANDARD_INPUT:
            return None
        if files.is_remote(path):
            total += int(_gfile().stat(path).length)
        else:
            total += os.path.getsize(path)
    return total


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[IO[bytes]]:
    """Open a text file, or standard input, unpacked as its ending says.

    Raises:
        errors.UserError: While it is read, in the `with` block, it turns out
            not to be in the format that its ending says.
    """
    opener = _OPENERS.get(os.path.splitext(path)[1])
    with _open_stored(path) as stored:
        if isinstance(stored, io.RawIOBase):
            stored = io.BufferedReader(stored)
        try:
            yield opener(stored, "rb") if opener else stored
        except UNPACKING_ERRORS as error:
            raise _damaged(path, error) from error


def _open_stored(path: str) -> contextlib.AbstractContextManager[Any]:
    """Open the bytes of a file as they are stored."""
    if path == STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin.buffer)
    if files.is_remote(path):
        opened = _gfile().GFile(path, "rb")
        return typing.cast(contextlib.AbstractContextManager[Any], opened)
    return open(path, "rb", buffering=0)


def _read_chunks(stored: _HashedFile, path: str) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file, without a byte order mark.

    Raises:
        errors.UserError: It is not in the format that its ending says.
    """
    opener = _OPENERS.get(os.path.splitext(path)[1])
    stream = opener(stored, "rb") if opener else stored
    chunk = _read_chunk(stream, path)
    if opener and not stored.size:
        raise _damaged(path, "it is empty")
    yield chunk.removeprefix(b"\xef\xbb\xbf")
    while chunk := _read_chunk(stream, path):
        yield chunk
    while stored.read(_CHUNK_BYTES):  # Bytes after the end of a packed file.
        pass


def _read_chunk(stream: Any, path: str) -> bytes:
    try:
        return bytes(stream.read(_CHUNK_BYTES))
    except UNPACKING_ERRORS as error:
        raise _damaged(path, error) from error


def _damaged(path: str, reason: object) -> errors.UserError:
    return errors.UserError(
        f"The input file {path} cannot be unpacked: {reason}. Files that end "
        f"in {', '.join(_OPENERS)} must be whole files of that format. Copy "
        "the file again, or rename plain text."
    )


def _watch_line_ends(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield the bytes of a file; warn if its lines end as on old Macs."""
    returns = feeds = 0
    for chunk in chunks:
        if b"\r" in chunk:
            returns += chunk.count(b"\r") - chunk.count(b"\r\n")
        feeds += _count_lines(chunk)
        yield chunk
    if returns > feeds:
        logging.warning(
            "%s has %d carriage returns (0x0d) without a line feed (0x0a), and "
            "%d line feeds. Only a line feed ends a line. If the others shall, "
            "as on old Macs, convert the file first: tr '\\r' '\\n'.",
            _name(path),
            returns,
            feeds,
        )


def read_prose_lines(stream: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the lines of a text that need not be one sentence each.

    Args:
        stream: The text, unpacked.
        path: Its name, for messages.

    Yields:
        Lines without their ends.

    Raises:
        errors.UserError: A line is too long, or no text.
    """

    def refuse(number: int) -> typing.NoReturn:
        raise errors.UserError(
            f"{_place(path, number)} is longer than {MAX_PROSE_BYTES:,} bytes. "
            "Paragraphs of text are read, separated by empty lines. Is this "
            "the right file?"
        )

    read = functools.partial(stream.read, _CHUNK_BYTES)
    chunks = _watch_line_ends(iter(read, b""), path)
    number = 0
    for text in _whole_lines(chunks, MAX_PROSE_BYTES, refuse):
        for line in text.split(b"\n")[:-1]:
            number += 1
            if is_binary(line):
                raise errors.UserError(
                    f"{_place(path, number)} is no text: {_tell_controls(line)}"
                    ". Convert the file first, or leave it out."
                )
            yield line


def is_binary(line: bytes) -> bool:
    """Tell whether a line has so many control characters that it is no text."""
    controls = _count_controls(line)
    share = controls / max(1, len(line))
    return controls > _MOST_CONTROLS and share > _MOST_CONTROLS_SHARE


def _count_controls(text: bytes) -> int:
    found = _IS_CONTROL[np.frombuffer(text, np.uint8)]
    return int(np.count_nonzero(found))


def _tell_controls(line: bytes) -> str:
    count = _count_controls(line)
    return f"{count:,} of its {len(line):,} bytes are control characters"


# From text to blocks. ---------------------------------------------------------


def _count_lines(text: bytes) -> int:
    """Count line ends; many times faster than `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def _ignore(number: int) -> None:
    """Let a line be replaced by `_TOO_LONG`."""


def _refuse_long_line(path: str, longest: int, number: int) -> typing.NoReturn:
    raise errors.UserError(
        f"{_place(path, number)} is longer than {longest:,} bytes, the most "
        "that is read as one line. Lines end with a line feed (0x0a), not with "
        "a carriage return alone: one sentence a line, or one JSON object with "
        "--input_format=jsonl. "
        "Cut prose with data_prep/split_sentences.py, or leave such lines out "
        "with --on_bad_line=skip."
    )


def _place(path: str, number: int) -> str:
    return f"{_name(path)}: line {number}"


def _name(path: str) -> str:
    return "Standard input" if path == STANDARD_INPUT else f"Input file {path}"


def _whole_lines(
    chunks: Iterable[bytes], longest: int, on_long: Callable[[int], None]
) -> Iterator[bytes]:
    r"""Cut chunks anew, so that each is made of whole lines.

    Example:
        b"a\nb", b"c\nd" yields b"a\n", b"bc\n", b"d\n"

    Args:
        chunks: Bytes of a file, in order.
        longest: Bytes of the longest line, without its end. At most that much
            and a chunk is held.
        on_long: Called with the number of each longer line, from 1. If it
            returns, the line becomes `_TOO_LONG`.
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
            number += _count_lines(text)
            yield text
        if len(rest) > longest:
            on_long(number)
            rest, is_dropping = _TOO_LONG, True
    if rest:
        yield rest + b"\n"


def _without_long_lines(
    text: bytes, longest: int, number: int, on_long: Callable[[int], None]
) -> bytes:
    """Do to whole lines what `_whole_lines` says; `number` is the first's."""
    parts, kept, start = [], 0, 0
    while start < len(text):
        # One jump over all lines that end within reach.
        end = text.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            end = text.index(b"\n", start)
            on_long(number + text.count(b"\n", 0, start))
            parts += [text[kept:start], _TOO_LONG]
            kept = end
        start = end + 1
    return b"".join([*parts, text[kept:]]) if parts else text


def _cut_documents(
    texts: Iterable[bytes], longest: int
) -> Iterator[tuple[bytes, bool]]:
    r"""Cut whole lines anew, so that each text is made of whole documents.

    A document longer than `longest` is cut at the last line end within. Where
    depends on its own bytes only, not on how the texts came.

    Example:
        b"a\n", b"b\n\nc\n" yields (b"a\nb\n\n", False), (b"c\n", False)

    Args:
        texts: Whole lines, each not longer than `longest`.
        longest: Bytes of the longest document, line ends included.

    Yields:
        Lines, and whether a document goes on behind them.
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
    r"""Return the place behind the last blank line in `text[low:high]`.

    Example:
        (b"a\n\nb\n \nc\n", 0, 9) gives 7

    Args:
        text: Whole lines.
        low: Where a line begins; all before was searched.
        high: Where to stop; a blank line must end before.

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


def _next_document(text: bytes, start: int) -> int:
    """Return where the first document ends at or behind `start`; 0: nowhere."""
    match = _BLANK_LINE.search(text, start - 1)
    return match.end() + 1 if match else 0


def _next_line(text: bytes, start: int) -> int:
    """Return where the first line ends at or behind `start`; 0: nowhere."""
    return text.find(b"\n", start - 1) + 1


def _group(
    parts: Iterable[tuple[bytes, bool]],
    next_end: Callable[[bytes, int], int],
    block_bytes: int,
) -> Iterator[tuple[bytes, bool]]:
    """Make texts of `block_bytes`, or as little more as possible.

    Args:
        parts: Whole documents; or, where a document was cut, its piece alone
            and True; then the text ends there.
        next_end: Gives the first end of a document at or behind a place.
        block_bytes: The size wanted.

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


# From a block to lines, in whichever process. ---------------------------------


def decode_lines(
    block: Block, options: CorpusOptions
) -> tuple[list[str], dict[str, int]]:
    r"""Decode a block.

    Example:
        text b"one\ntwo\n\nthree\n" gives ["one", "two", "", "three"]; so do
        the JSON objects {"text": "one\ntwo"} and {"text": "three"}

    Args:
        block: Whole documents.
        options: How they are to be read.

    Returns:
        The lines without "\n", and counts of bad ones: "lines_skipped",
        "lines_replaced". As everywhere, a line is empty, and ends a document,
        when nothing is left of it after the tokenizer's clean-up; the lines of
        a JSON object are never empty. DIFFERS: with a WordPiece vocabulary the
        original takes only a line of white space for empty, here also one that
        holds nothing but zero-width or control characters, or accents.

    Raises:
        errors.UserError: A line is bad and `options.on_bad_line` is "fail".
    """
    decode = _decode_json if options.input_format == "jsonl" else _decode_text
    counts = {"lines_skipped": 0, "lines_replaced": 0}
    return decode(block, options, counts), counts


def _decode_text(
    block: Block, options: CorpusOptions, counts: dict[str, int]
) -> list[str]:
    if _count_controls(block.text) <= _MOST_CONTROLS:
        with contextlib.suppress(UnicodeDecodeError):
            return block.text.decode("utf-8").split("\n")[:-1]
    decoded = []
    for place, line in enumerate(block.text.split(b"\n")[:-1]):
        if options.on_bad_line == "fail":
            if is_binary(line):
                raise _binary(block, place, line)
            try:
                decoded.append(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise _not_utf8(block, place, line) from error
            continue
        text = _decode_bad(line, options, counts)
        if text is not None:
            decoded.append(text)
    return decoded


def _decode_bad(
    line: bytes, options: CorpusOptions, counts: dict[str, int]
) -> str | None:
    """Decode a line that may be bad and is not to fail; None: leave it out."""
    if line == _TOO_LONG or is_binary(line):
        counts["lines_skipped"] += 1
        return None
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        if options.on_bad_line == "skip":
            counts["lines_skipped"] += 1
            return None
        counts["lines_replaced"] += 1
        return line.decode("utf-8", "replace")


def _binary(block: Block, place: int, line: bytes) -> errors.UserError:
    """Return the error for a line; `place` is its number in the block."""
    return errors.UserError(
        f"{_place(block.path, block.first_line + place)} is no text: "
        f"{_tell_controls(line)}. Input must be UTF-8 text. Give other files, "
        "convert this one, or leave such lines out with --on_bad_line=skip."
    )


def _not_utf8(block: Block, place: int, line: bytes) -> errors.UserError:
    """Return the error for a line; `place` is its number in the block."""
    start = _first_bad_byte(line)
    return errors.UserError(
        f"{_place(block.path, block.first_line + place)} is not UTF-8: byte "
        f"{start + 1} of the line is 0x{line[start]:02x}. Input must be UTF-8 "
        "text. Convert it first, for example with: iconv -f latin1 -t utf-8; "
        "or leave such lines out with --on_bad_line=skip."
    )


def _first_bad_byte(line: bytes) -> int:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError("The line is UTF-8.")


def _decode_json(
    block: Block, options: CorpusOptions, counts: dict[str, int]
) -> list[str]:
    cut = split_text if options.split_sentences else _split_lines
    lines: list[str] = []
    for place, record in enumerate(block.text.split(b"\n")[:-1]):
        if not record.strip():
            continue
        try:
            text = _read_record(record, options, counts)
        except UnicodeDecodeError as error:
            raise _not_utf8(block, place, record) from error
        except ValueError as error:
            raise _not_a_record(block, place, options, error) from error
        if text is not None:
            lines += [*filter(_is_visible, cut(text)), ""]
    return lines


def _read_record(
    record: bytes, options: CorpusOptions, counts: dict[str, int]
) -> str | None:
    """Return the text of a JSON object; None to leave the line out.

    Raises:
        ValueError: The line is bad, and bad lines are to fail.
    """
    try:
        return _parse_record(record.decode("utf-8"), options.json_field)
    except ValueError:
        if options.on_bad_line == "fail":
            raise
    if options.on_bad_line == "replace":
        decoded = record.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            text = _parse_record(
                decoded, options.json_field, replace_halves=True
            )
            counts["lines_replaced"] += 1
            return text
    counts["lines_skipped"] += 1
    return None


def _parse_record(
    record: str, field: str, *, replace_halves: bool = False
) -> str:
    r"""Return the text in a JSON object.

    Args:
        record: The object.
        field: Where its text is.
        replace_halves: See `strict_json.loads`.

    Raises:
        ValueError: It is no object with a text, or not Unicode.
    """
    value = strict_json.loads(record, replace_halves=replace_halves)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {record[:20]!r}")
    if not isinstance(value.get(field), str):
        known = ", ".join(sorted(map(repr, value))[:9])
        raise ValueError(f"no text in {field!r}; its fields are: {known}")
    text: str = value[field]
    content = text.encode("utf-8", "replace")
    if is_binary(content):
        raise ValueError(f"no text: {_tell_controls(content)}")
    return text


def _not_a_record(
    block: Block, place: int, options: CorpusOptions, reason: object
) -> errors.UserError:
    return errors.UserError(
        f"{_place(block.path, block.first_line + place)} cannot be read with "
        f"--input_format=jsonl --json_field={options.json_field}: {reason}. "
        "Each line must be a JSON object with a text in that field. Mend the "
        "line, name the right field, or leave such lines out with "
        "--on_bad_line=skip."
    )


def _is_visible(line: str) -> bool:
    """Tell whether a clean-up surely leaves something of a line.

    They remove spaces, control characters and combining characters.
    """
    return any(unicodedata.category(c)[0] not in "CMZ" for c in line)


def _split_lines(text: str) -> list[str]:
    return text.split("\n")


def split_text(text: str) -> Iterator[str]:
    r"""Cut a text into sentences, by rules, as split_sentences.py does.

    Example:
        "It was\nlate. We\n\nleft.\n" yields "It was late.", "We", "left."

    Args:
        text: Paragraphs, separated by empty lines.
    """
    lines = map(str.split, text.split("\n"))
    for is_filled, words in itertools.groupby(lines, key=bool):
        if is_filled:
            paragraph = " ".join(itertools.chain.from_iterable(words))
            yield from _split_paragraph(paragraph)


def _split_paragraph(paragraph: str) -> Iterator[str]:
    start = 0
    for sentence in itertools.chain(*segmenter.process(paragraph)):
        # What syntok drops between two sentences stays with the first.
        end = sentence[0].offset
        if part := paragraph[start:end].strip():
            yield part
            start = end
    if part := paragraph[start:].strip():
        yield part
