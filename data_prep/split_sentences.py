"""Cut prose into sentences: the layout create_pretraining_data.py reads.

Input is text whose paragraphs are separated by empty lines; each item of a list
is one, too. The lines of a paragraph are joined, and words that a hyphen cuts
at the end of a line, so lines may be wrapped. Output has one sentence per line
and an empty line after each document. A file is a document, unless an option
says otherwise. WikiExtractor's output, text with tags or JSON lines, is
recognized: each article is a document, each of its lines a paragraph.

    python data_prep/split_sentences.py \
        --input_file='books/*.txt' --output_file=corpus.txt

The rules are in `data_prep/writer/sentences.py`: those of --language, or those
that fit the script of each paragraph, for Latin letters those of English.
"""

import collections
import dataclasses
import itertools
import os
import pathlib
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from absl import logging

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf.common import (
    errors,
    files,
    options,
    outputs,
    parallel,
    ranges,
    shared_options,
)
from data_prep.writer import corpus, prose, sentences, text_lines

DOCUMENT_END = ""  # Among paragraphs and lines, which are never empty.
PARAGRAPHS_AT_ONCE = 64  # Handed to a process together.
ARCHIVES = (".tar.xz", ".tar.gz")
# What begins an item of a list; the first kind begins nothing else.
_ITEM = re.compile(r"\s*(?:([*•‣▪◦])|[-–—]|\d{1,3}[.)])\s")
# A word that a line cuts, and its rest; there is none in `Ein- und Ausgang`.
_CUT = re.compile(r"[^\W\d_][-\u2010\u00ad]$")
_REST = re.compile(r"(?!(and|or|to|und|oder|bis|et|ou|y|o|e|en|of)\b)[^\W\d_]")
BROKEN_FILE = (tarfile.TarError, *corpus.UNPACKING_ERRORS)


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(
    Data="input_file language max_document_sentences",
    Devices="num_processes",
    Output="output_file overwrite",
)
class Options:
    """Options of the script."""

    input_file: str = options.option(
        help="Prose, UTF-8: files or glob patterns, separated by commas. Files "
        "ending in .gz, .xz or .zst are unpacked, each file in a .tar.gz or "
        ".tar.xz counts as one; - is standard input."
    )
    output_file: str = options.option(
        help="One sentence per line, an empty line after each document."
    )
    language: str | None = sentences.language_option()
    max_document_sentences: int = options.option(
        0,
        "Begin a new document with the next paragraph once one has that many "
        "sentences; 1 makes a document of each paragraph, 0 of each file.",
        within=ranges.EXAMPLES_OR_NONE,
    )
    keep_titles: bool = options.option(
        False,
        "Keep the titles of WikiExtractor's articles, each as a sentence.",
    )
    num_processes: int = shared_options.num_workers()
    overwrite: bool = shared_options.overwrite("--output_file")


def open_texts(path: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name and the open, unpacked content of each text in a file.

    Links and devices in an archive are left out, with a warning. Nothing is
    written to the disk, so the names of members may be any.

    Example:
        "a.txt" and "a.txt.gz" yield one text, "a.tar.xz" one for each member.
    """
    if not path.endswith(ARCHIVES):
        with corpus.open_unpacked(path) as stream:
            yield path, stream
        return
    with (
        corpus.open_unpacked(path) as unpacked,
        tarfile.open(fileobj=unpacked, mode="r|") as archive,
    ):
        for member in archive:
            name = f"{path}/{member.name}"
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield name, content
            elif not member.isdir():  # It could lead anywhere, or nowhere.
                logging.warning(
                    "%s is a link or a device, no file: left out.", name
                )
        while unpacked.read(1 << 20):
            pass  # Behind the end there may be damage.


def read_paragraphs(
    stream: IO[bytes], name: str, *, keep_titles: bool = False
) -> Iterator[str]:
    r"""Yield the paragraphs of a text, each on one line.

    Example:
        "It was\nlate.\n\nWe left.\n" yields "It was late.", "We left."

    `DOCUMENT_END` comes after each of WikiExtractor's articles.
    """
    text = prose.read(stream, name, keep_titles=keep_titles)
    for empty, lines in itertools.groupby(text, key=lambda x: not x.strip()):
        if empty:
            if any(line is prose.END for line in lines):
                yield DOCUMENT_END
        else:
            yield from map(" ".join, _join_lines(lines, name))


def _join_lines(lines: Iterable[str], name: str) -> Iterator[list[str]]:
    """Yield the words of a paragraph; of each item, if it is a list.

    A word that a hyphen cuts at the end of a line is one word again.
    """
    words: list[str] = []
    size, indent = 0, -1  # Of the item that the words are.
    for line in lines:
        depth = len(line) - len(line.lstrip())
        item = _ITEM.match(line)
        # A dash or a number may also begin a line by chance.
        begins = item and (item[1] or indent >= 0 or not words)
        if begins or depth < indent:
            if words:
                yield words
            words, size, indent = [], 0, depth if begins else -1
        new = line.split()
        if words and _CUT.search(words[-1]) and _REST.match(new[0]):
            last, rest = words.pop(), new.pop(0)
            # A hyphen is of the word in `Baden- Baden` and `state-of- the-art`.
            stays = rest[0].isupper() or "-" in last[:-1] + rest
            words.append(last + rest if stays else last[:-1] + rest)
        words += new
        size += sum(map(len, new))
        if size > prose.MAX_LINE_BYTES:
            raise errors.UserError(
                f"--input_file: {name} has a paragraph of more than "
                f"{prose.MAX_LINE_BYTES:,} characters. An empty line "
                "ends a paragraph. Insert empty lines, for example by "
                "sed G."
            )
    yield words


def to_lines(
    paragraphs: Iterable[list[str]], max_document_sentences: int = 0
) -> Iterator[str]:
    """Yield sentences as lines, and an empty line after each document.

    Example:
        [["A.", "B."], ["C."], []] yields "A.", "B.", "C.", ""
        and with max_document_sentences=2  "A.", "B.", "", "C.", ""

    An empty list of sentences ends a document.
    """
    num_sentences = 0
    for paragraph in paragraphs:
        yield from paragraph
        num_sentences += len(paragraph)
        ends = not paragraph or 0 < max_document_sentences <= num_sentences
        if num_sentences and ends:
            yield DOCUMENT_END
            num_sentences = 0


def _all_paragraphs(paths: Iterable[str], keep_titles: bool) -> Iterator[str]:
    """Yield the paragraphs of all files, `DOCUMENT_END` after each text."""
    for path in paths:
        try:
            for name, stream in open_texts(path):
                yield from read_paragraphs(
                    stream, name, keep_titles=keep_titles
                )
                yield DOCUMENT_END
        except BROKEN_FILE as error:
            reason = str(error).splitlines()[0].rstrip(":")
            raise errors.UserError(
                f"--input_file={path} is damaged or not what its ending says "
                f"({reason}). Fetch or pack the file again."
            ) from error


def _split_all(
    paragraphs: Iterator[str],
    settings: Options,
    counts: collections.Counter[str],
) -> Iterator[list[str]]:
    """Yield the sentences of each paragraph, in order.

    `counts` counts paragraphs by language; `DOCUMENT_END` is none. Processes
    get a bounded number of paragraphs at a time, for a corpus of any size.
    """
    batches = iter(
        lambda: list(itertools.islice(paragraphs, PARAGRAPHS_AT_ONCE)), []
    )
    num_processes = parallel.resolve(settings.num_processes)
    with parallel.workers(num_processes, settings.language) as map_batches:
        for languages, split in map_batches(_split_batch, batches):
            counts.update(languages)
            yield from split


def _split_batch(
    paragraphs: list[str],
) -> tuple[collections.Counter[str], list[list[str]]]:
    language = parallel.shared_value()
    rules = [language or sentences.detect_language(text) for text in paragraphs]
    split = list(map(sentences.split_paragraph, paragraphs, rules))
    return collections.Counter(itertools.compress(rules, split)), split


def _check_output(settings: Options) -> None:
    output = settings.output_file
    if output.endswith((".gz", ".xz", ".zst")):
        raise errors.UserError(
            f"--output_file={output} has the ending of a packed file, but "
            "plain text is written. Drop the ending, and pack the file "
            "afterwards if you like."
        )
    outputs.check(settings, "output_file", [output])


def run(settings: Options) -> None:
    paths = [settings.input_file.strip()]
    if paths != [text_lines.STANDARD_INPUT]:
        paths = files.expand_patterns(settings.input_file, "input_file")
    for path in paths:
        corpus.require_readable(path)
    _check_output(settings)
    sentences.require_sentencex()
    files.make_folder(os.path.dirname(settings.output_file), "output_file")
    counts = collections.Counter[str]()
    paragraphs = _all_paragraphs(paths, settings.keep_titles)
    lines = to_lines(
        _split_all(paragraphs, settings, counts),
        settings.max_document_sentences,
    )
    num_sentences = num_documents = 0
    with files.replace_atomically(settings.output_file) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
            num_sentences += line != DOCUMENT_END
            num_documents += line == DOCUMENT_END
        if not num_documents:
            raise errors.UserError(
                f"--input_file={settings.input_file} holds no text. Give files "
                "with prose."
            )
    if settings.language is None:
        logging.info(
            "--language is not given: %s. Latin letters are taken for English.",
            ", ".join(
                f"{count:,} paragraph(s) by the rules of {language}"
                for language, count in counts.most_common()
            ),
        )
    logging.info(
        "%d sentences in %d documents written to %s",
        num_sentences,
        num_documents,
        settings.output_file,
    )


if __name__ == "__main__":
    options.run_script(run, Options)
