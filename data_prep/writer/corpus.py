r"""Read the corpus, text files, as blocks of lines that hold whole documents.

Stage 1 of the writer. One process reads (`CorpusReader`) and only looks for
line ends and blank lines (`text_lines`). The processes that get the blocks do
the expensive work (`decoding`). Memory does not grow with the corpus.

There are two layouts. "lines": one sentence a line, an empty line after each
document. "jsonl": one JSON object a line, each a document. The end of a file
ends a document in both. Rows of Parquet and Arrow files are turned into JSON
lines (`tables`).
"""

import codecs
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import lzma
import os
import re
import sys
import typing
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from backports import zstd

from albert_tf.common import arrow_tables, errors, files, streams
from albert_tf.common.options import checked, option, shown
from data_prep.writer import prose, sentences, tables, text_lines

BLOCK_BYTES = 2**20  # Thousands of sentences, about a second of tokenizing.

# Longer documents are cut and longer lines refused, so that memory is bounded
# for any input. 8 MiB are more than a book, 1 MiB more than any sentence.
MAX_DOCUMENT_BYTES = 8 * 2**20
MAX_LINE_BYTES = 2**20
_CHUNK_BYTES = 2**20  # Read at once.
# Exceptions on reading a damaged packed file.
UNPACKING_ERRORS = (
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    zstd.ZstdError,
)

# Names of archives, which are not text.
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|t[gx]z|zip|7z|bz2)$")

_TABLES = "|".join(arrow_tables.ENDINGS)


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="input_file input_format text_column split_sentences language")
class CorpusOptions:
    """The text files and their format."""

    input_file: str = option(
        help="Text files: comma-separated paths or glob patterns; files that "
        "end in .gz, .xz or .zst are unpacked; - is standard input."
    )
    input_format: str = option(
        "lines",
        "lines: one sentence a line, an empty line after each document. jsonl: "
        "one JSON object a line, each a document. parquet, arrow: tables as "
        "`datasets` writes them, each row a document; they need pyarrow. "
        "dialogues: as lines, but a line is a turn: Q (query) or R (response), "
        "a tab, the text; for --records=passages.",
        choices=("lines", "jsonl", *arrow_tables.ENDINGS, "dialogues"),
    )
    json_field: str = option(
        "text",
        "The field of JSON objects with the text.",
        needs="input_format=jsonl",
    )
    text_column: str = option(
        "text",
        "The column of Parquet and Arrow files with the text.",
        needs=f"input_format={_TABLES}",
    )
    split_sentences: bool = option(
        False,
        "Cut the text of objects and rows into sentences; its paragraphs are "
        "separated by empty lines. Otherwise each of its lines is a sentence.",
        needs=f"input_format=jsonl|{_TABLES}",
    )
    language: str | None = sentences.language_option()
    on_bad_line: str = option(
        "fail",
        "What to do with a line that is not UTF-8, consists of control "
        "characters, is not the JSON it should be, or is too long: fail, skip "
        "it, or replace bytes that are not UTF-8 by U+FFFD (other bad lines "
        "are skipped).",
        choices=("fail", "skip", "replace"),
    )

    def __post_init__(self) -> None:
        if not self.json_field and self.input_format == "jsonl":
            raise errors.UserError(
                "--json_field is empty. Name the field that holds the "
                "text of each JSON object, for example --json_field=text."
            )

    @property
    def is_text(self) -> bool:
        """Whether a line of a file is a line of text."""
        return self.input_format in ("lines", "dialogues")

    @property
    def is_table(self) -> bool:
        """Whether files are read by pyarrow."""
        return self.input_format in arrow_tables.ENDINGS

    @property
    def text_field(self) -> str:
        """The key of the text in JSON objects."""
        return self.text_column if self.is_table else self.json_field


@dataclasses.dataclass(frozen=True)
class Block:
    r"""Whole documents, as bytes of a file.

    The documents of all blocks, in order, are those of the input, for any size
    of blocks.
    """

    index: int  # From 0, over all files.
    path: str
    first_line: int  # Number in its file, from 1.
    # Lines that end with "\n". One that was too long is the byte 0xff.
    text: bytes


def find_files(options: CorpusOptions) -> list[str]:
    """Return the files that the options name; `-` is kept."""
    if options.split_sentences:
        sentences.require_sentencex()
    patterns = [p.strip() for p in options.input_file.split(",")]
    if text_lines.STANDARD_INPUT in patterns:
        if len(patterns) > 1:
            raise errors.UserError(
                f"--input_file={options.input_file} names standard input (-) "
                "beside others. It must be the only input. Pipe everything "
                "into standard input, or name only files."
            )
        if options.is_table:
            raise errors.UserError(
                "--input_file=- is standard input, which cannot be read with "
                f"--input_format={options.input_format}. Name files."
            )
        require_readable(text_lines.STANDARD_INPUT)
        return [text_lines.STANDARD_INPUT]
    paths = files.expand_patterns(options.input_file, "input_file")
    for path in paths:
        if _ARCHIVE.search(path):
            raise errors.UserError(
                f"--input_file={path} is an archive. Text files are read, "
                f"plain or with one of the endings {' '.join(_OPENERS)}. "
                "Unpack it first."
            )
        require_readable(path)
        _check_format(path, options)
    return paths


def _check_format(path: str, options: CorpusOptions) -> None:
    """Refuse a table that is read as text, or has no column of that name."""
    for kind, ending in arrow_tables.ENDINGS.items():
        if path.endswith(ending) and not options.is_table:
            raise errors.UserError(
                f"--input_file={path} is a table by its name, but "
                f"--input_format is {options.input_format}. Use "
                f"--input_format={kind}."
            )
    if options.is_table:
        kind, column = options.input_format, options.text_column
        with _open_stored(path) as stream:
            tables.check(stream, path, kind, column)


def require_readable(path: str) -> None:
    """Make sure that an input file, or standard input, may be read."""
    if path == text_lines.STANDARD_INPUT:
        streams.require_input()
    elif not (files.is_remote(path) or os.access(path, os.R_OK)):
        raise errors.UserError(
            f"--input_file={path} may not be read: permission denied. Change "
            "its permissions, or leave it out."
        )


class CorpusReader:
    """Reads files as blocks, once, and stores their sizes and digests."""

    def __init__(
        self,
        paths: Iterable[str],
        options: CorpusOptions,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """A block ends with the document that reaches `block_bytes`."""
        self._paths = tuple(paths)
        self._options = options
        self._block_bytes = block_bytes
        self._open_file: _HashedFile | None = None
        # Those read to their end, for the manifest: `path` (`-` for standard
        # input), `size` and `sha256` of the bytes as stored.
        self.files: list[dict[str, Any]] = []
        # Of all files as stored; None with standard input.
        self.total_bytes: int | None = None
        if text_lines.STANDARD_INPUT not in self._paths:
            self.total_bytes = sum(map(files.size, self._paths))
        self.documents_cut = 0  # Because they were too long.

    @property
    def bytes_read(self) -> int:
        """Stored bytes read so far, to be compared with `total_bytes`."""
        current = self._open_file.size if self._open_file else 0
        return current + sum(file["size"] for file in self.files)

    def read_blocks(self) -> Iterator[Block]:
        """Yield the blocks of all files; this is a generator."""
        index = 0
        for path in self._paths:
            with _open_stored(path) as stream:
                self._open_file = stored = _HashedFile(stream)
                lines = self._lines(stream, path)
                for first_line, text in self._to_blocks(lines):
                    yield Block(index, path, first_line, text)
                    index += 1
            self._open_file = None
            digest = stored.digest.hexdigest()
            self.files.append(
                {"path": path, "size": stored.size, "sha256": digest}
            )

    def _lines(self, stream: IO[bytes], path: str) -> Iterator[bytes]:
        """Yield the lines of a file; each ends with a line feed."""
        options, stored = self._options, self._open_file
        assert stored is not None
        longest = MAX_DOCUMENT_BYTES
        if options.is_text:
            longest = MAX_LINE_BYTES
        on_long = None
        if options.on_bad_line == "fail":
            on_long = functools.partial(
                _refuse_long_line, path, options.is_text
            )
        if options.is_table:
            while stored.read(_CHUNK_BYTES):
                pass  # Tables are not read sequentially, so hash them first.
            stream.seek(0)
            column = options.text_column
            rows = tables.json_lines(stream, path, options.input_format, column)
            parts = map(io.BytesIO, rows)
            yield from text_lines.read_lines(parts, longest, on_long)
            return
        with _unpacked(stored, path) as text:
            if text.peek(3).startswith(codecs.BOM_UTF8):
                text.read(3)
            if options.is_text:
                _refuse_other_layouts(text.peek(_CHUNK_BYTES), path)
            yield from text_lines.read_lines([text], longest, on_long)
            while stored.read(_CHUNK_BYTES):
                pass  # There may be bytes after packed text.

    def _to_blocks(self, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the number of the first line, and the text, of each block."""
        is_each = not self._options.is_text
        block: list[bytes] = []
        size = document = first = 0  # Bytes of block and document.
        for number, line in enumerate(lines, 1):
            is_blank = line.isspace()
            if is_blank:
                document = 0
            else:
                document += len(line)
                if document > MAX_DOCUMENT_BYTES and not is_each:
                    yield first, b"".join(block)
                    block, size, document = [], 0, len(line)
                    self.documents_cut += 1
            if not block:
                if is_blank:
                    continue
                first = number
            block.append(line)
            size += len(line)
            if size >= self._block_bytes and (is_blank or is_each):
                yield first, b"".join(block)
                block, size = [], 0
        if block:
            yield first, b"".join(block)


class _XzFile(io.RawIOBase):
    """The content of all streams of an .xz file.

    `lzma.open` drops, in silence, a stream that is damaged at its beginning.
    """

    def __init__(self, stored: IO[bytes]) -> None:
        self._stored = stored
        self._decoder = lzma.LZMADecompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            packed = b""
            if self._decoder.eof:  # Zeros may be between streams.
                packed = self._decoder.unused_data.lstrip(b"\0")
                while not packed:
                    packed = self._stored.read(_CHUNK_BYTES)
                    if not packed:
                        return 0
                    packed = packed.lstrip(b"\0")
                self._decoder = lzma.LZMADecompressor()
            elif self._decoder.needs_input:
                packed = self._stored.read(_CHUNK_BYTES)
                if not packed:
                    raise EOFError("it ends within a stream")
            data = self._decoder.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)


# What opens an unpacked stream, by the ending of the file. Each reads all parts
# of a file, or raises one of `UNPACKING_ERRORS`.
_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".xz": lambda stored: io.BufferedReader(_XzFile(stored), _CHUNK_BYTES),
    ".zst": zstd.open,
}


class _HashedFile(io.RawIOBase):
    """A file that counts and hashes the bytes that are read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        self.size += len(data)
        return len(data)


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[IO[bytes]]:
    """Open a text file, or standard input, decompressed by its ending.

    A file of another format raises a `UserError` in the `with` block.
    """
    with (
        _open_stored(path) as stored,
        _unpacked(_HashedFile(stored), path) as stream,
    ):
        yield stream


@contextlib.contextmanager
def _unpacked(stored: _HashedFile, path: str) -> Iterator[Any]:
    """Decompress a file by its ending; errors say what it must be."""
    opener = _OPENERS.get(os.path.splitext(path)[1])
    buffered = io.BufferedReader(stored, _CHUNK_BYTES)
    try:
        if opener and not buffered.peek(1):
            raise EOFError("it is empty")
        yield opener(buffered) if opener else buffered
    except UNPACKING_ERRORS as error:
        raise errors.UserError(
            f"The input file {path} cannot be unpacked: {error}. Files that "
            f"end in {', '.join(_OPENERS)} must be whole files of that format. "
            "Copy the file again, or rename plain text."
        ) from error


def _open_stored(path: str) -> contextlib.AbstractContextManager[Any]:
    """Open the bytes of a file as they are stored."""
    if path == text_lines.STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin.buffer)
    files.require_regular(path)
    return files.open_binary(path)


def _refuse_other_layouts(begin: bytes, path: str) -> None:
    """Refuse WikiExtractor's tags and JSON: their lines are no sentences."""
    text = begin.decode("utf-8", "replace").lstrip()
    if prose.is_tag(text.split("\n", 1)[0]):
        raise errors.UserError(
            f"{text_lines.file_name(path)} is WikiExtractor's output, whose "
            "lines are paragraphs and tags. Sentences are needed. Cut it first "
            "with data_prep/split_sentences.py."
        )
    text_lines.refuse_document(
        text,
        path,
        "JSON lines are read with --input_format=jsonl, or cut them first with "
        "data_prep/split_sentences.py.",
    )


def _refuse_long_line(path: str, is_text: bool, number: int) -> typing.NoReturn:
    where = text_lines.line_name(path, number)
    if not is_text:
        raise errors.UserError(
            f"{where} is a document of more than {MAX_DOCUMENT_BYTES:,} bytes. "
            "Divide it, or leave such documents out with --on_bad_line=skip."
        )
    raise errors.UserError(
        f"{where} is longer than {MAX_LINE_BYTES:,} bytes, the most that is "
        "read as one line. Lines end with a line feed (0x0a), not with a "
        "carriage return alone: one sentence a line, or one JSON object with "
        "--input_format=jsonl. Cut prose with data_prep/split_sentences.py, or "
        "leave such lines out with --on_bad_line=skip."
    )
