"""Read text files as documents: lists of sentences, each a list of piece ids.

Step 2 of the walk. One sentence stands on a line, an empty line ends a
document, and so does the end of a file. The pieces come from
`albert_tf.tokenization`.
"""

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence

from albert_tf import errors, files, tokenization

Sentence = list[int]
Document = list[Sentence]

# Lines handed to the tokenizer at once: enough to amortize the call, few
# enough that the memory does not matter.
_LINES_AT_ONCE = 1024

# What a damaged packed file raises while it is read.
_UNPACKING_ERRORS = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error)


def read_documents(
    paths: Sequence[str], tokenizer: tokenization.AnyTokenizer
) -> Iterator[Document]:
    """Yield the non-empty documents of text files; this is a generator.

    Source: the original's create_pretraining_data.create_training_instances.
    DIFFERS: the original continues a document over the end of a file unless
    the file ends in an empty line; and with a WordPiece vocabulary, a line of
    control characters only does not end a document there.

    Example:
        a file with the lines "it rains", "we stay", "", "the end" gives
        [[ids of "it rains"], [ids of "we stay"]] and [[ids of "the end"]]

    Args:
        paths: UTF-8 text files; those that end in .gz or .xz are unpacked.
        tokenizer: Cleans and cuts the lines.

    Yields:
        Documents without empty sentences. A line is empty when nothing is left
        of it after the clean-up; a line whose text yields no piece is left out
        without ending the document.

    Raises:
        errors.UserError: A file is not UTF-8 or not what its ending says.
    """
    for path in paths:
        document: Document = []
        for line, sentence in _read_sentences(path, tokenizer):
            if sentence:
                document.append(sentence)
            elif document and not tokenizer.clean(line):
                yield document
                document = []
        if document:
            yield document


def _read_sentences(
    path: str, tokenizer: tokenization.AnyTokenizer
) -> Iterator[tuple[str, Sentence]]:
    """Yield each line of a file with its piece ids."""
    waiting: list[str] = []
    for line in read_lines(path):
        waiting.append(line)
        if len(waiting) == _LINES_AT_ONCE:
            yield from zip(
                waiting, tokenizer.encode_batch(waiting), strict=True
            )
            waiting = []
    yield from zip(waiting, tokenizer.encode_batch(waiting), strict=True)


def read_lines(path: str) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file; this is a generator.

    A line ends with "\n" only, which is removed; a byte order mark at the
    beginning of the file is dropped.

    Raises:
        errors.UserError: The file is not UTF-8 (named by line and byte), or
            not in the format that its ending says.
    """
    with _open(path) as stream:
        lines = enumerate(stream, start=1)
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                return
            except _UNPACKING_ERRORS as error:
                raise errors.UserError(
                    f"The input file {path} cannot be unpacked: {error}. Files "
                    "that end in .gz or .xz must be whole files of that "
                    "format. Copy the file again, or rename plain text."
                ) from error
            yield _decode(path, number, line)


@contextlib.contextmanager
def _open(path: str) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading bytes, unpacked if its ending says so."""
    stream: io.BufferedIOBase
    if files.is_remote(path):
        stream = io.BytesIO(files.read_bytes(path))
    else:
        stream = open(path, "rb")
    with stream:
        if path.endswith(".gz"):
            yield gzip.GzipFile(fileobj=stream)
        elif path.endswith(".xz"):
            yield lzma.LZMAFile(stream)
        else:
            yield stream


def _decode(path: str, number: int, line: bytes) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"The input file {path} is not UTF-8: line {number}, byte "
            f"{error.start + 1} is 0x{line[error.start]:02x}. Input must be "
            "UTF-8 text. Convert it first, for example with: iconv -f latin1 "
            f"-t utf-8 {path}"
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\n")
