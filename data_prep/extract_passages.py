"""Write the texts of SQuAD and RACE as held-out text for pretraining.

The paper evaluates pretraining on the texts of the two development sets,
prepared as the training text was (ALBERT §4.2.1). This script writes them in
the layout that create_pretraining_data.py reads: one sentence a line, an empty
line after each document.

    python data_prep/extract_passages.py --squad_file=dev-v2.0.json \
        --race_dir=RACE/dev --output_file=intrinsic.txt
    python -m data_prep.create_pretraining_data --input_file=intrinsic.txt \
        --dupe_factor=1 ...

An article of SQuAD is one document, as an article of Wikipedia is in the
training text. If each paragraph of about 120 words were a document, padding
would be 70 % of 512 tokens; with whole articles it is 3 %. A passage of RACE is
one document. Questions and answers are not used.
"""

import dataclasses
import itertools
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from absl import logging

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf.common import (
    errors,
    files,
    options,
    shared_options,
    strict_json,
)
from data_prep.writer import decoding

LEVELS = ("middle", "high")
_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the script."""

    output_file: str = options.option(
        help="One sentence per line, an empty line after each document."
    )
    squad_file: str = options.option(
        "",
        "SQuAD in its official JSON, version 1.1 or 2.0: files or glob "
        "patterns, separated by commas.",
    )
    race_dir: str = options.option(
        "",
        "Folder of one split of RACE, such as RACE/dev, with the folders "
        "middle and high.",
    )
    overwrite: bool = shared_options.overwrite("--output_file")

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: There is nothing to read.
        """
        if not self.squad_file and not self.race_dir:
            raise errors.UserError(
                "Neither --squad_file nor --race_dir is given. Give one or "
                "both; the paper evaluates on both together."
            )


@dataclasses.dataclass
class Counts:
    """What was read and written.

    Attributes:
        passages: Paragraphs of SQuAD and passages of RACE, as read.
        duplicates: Those of them that equal an earlier one, and were dropped.
        documents: Documents written.
        sentences: Sentences written.
    """

    passages: int = 0
    duplicates: int = 0
    documents: int = 0
    sentences: int = 0


def find_race(folder: str) -> list[str]:
    """Return the files of a split of RACE: middle first, by number.

    Raises:
        errors.UserError: It is a file, or a level is missing or empty.
    """
    files.refuse_file(folder, "race_dir")
    paths: list[str] = []
    for level in LEVELS:
        place = os.path.join(folder, level)
        if not files.exists(place):
            raise errors.UserError(
                f"--race_dir={folder} has no folder {level!r}. Name the folder "
                "of one split, unpacked, such as RACE/dev, which holds "
                "middle/N.txt and high/N.txt."
            )
        found = files.expand_patterns(f"{place}/*.txt", "race_dir")
        paths += sorted(found, key=lambda path: (len(path), path))
    return paths


def read_squad(path: str) -> Iterator[list[str]]:
    """Yield the paragraphs of each article of a file.

    Raises:
        errors.UserError: The file is not in SQuAD's official layout, or a
            paragraph is empty.
    """
    place = f"--squad_file: {path}"
    content = _parse(_read_text(path, place), place)
    for number, article in enumerate(_get(content, "data", list, place), 1):
        where = f"{place}, article {number}"
        paragraphs = _get(article, "paragraphs", list, where)
        yield [
            _get_text(paragraph, "context", f"{where}, paragraph {index}")
            for index, paragraph in enumerate(paragraphs, 1)
        ]


def read_race(path: str) -> Iterator[list[str]]:
    """Yield each passage of a file, alone in a list.

    A file holds one JSON object a line; the official ones hold one object.

    Raises:
        errors.UserError: The file is not in RACE's official layout, or a
            passage is empty.
    """
    place = f"--race_dir: {path}"
    # Only line feeds: a text may contain other separators.
    for number, line in enumerate(_read_text(path, place).split("\n"), 1):
        if line.strip():
            where = f"{place}, line {number}"
            text = _get_text(_parse(line, where), "article", where)
            # Each line is a paragraph here; headings have no full stop.
            yield [text.replace("\n", "\n\n")]


def _read_text(path: str, place: str) -> str:
    content = files.read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{place} is not UTF-8: {errors.bad_byte(content, 'the file')}. "
            "Unpack the file if it is packed."
        ) from error


def _parse(text: str, where: str) -> Any:
    try:
        return strict_json.loads(text)
    except strict_json.JsonError as error:
        raise errors.UserError(
            f"{where}: this is not JSON ({error}). Give the official file, "
            "complete and unpacked."
        ) from error


def _check(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise errors.UserError(
            f"{where} must be {_JSON_NAMES[kind]}, not "
            f"{strict_json.shown(value)}. Give a file in the official layout."
        )
    return value


def _get(entry: Any, key: str, kind: type, where: str) -> Any:
    """Return the value of a key that must be there.

    Raises:
        errors.UserError: It is missing, or of another kind.
    """
    known = _check(entry, dict, where)
    if key not in known:
        raise errors.UserError(
            f"{where}: the key {key!r} is missing; there are "
            f"{', '.join(map(repr, known)) or 'none'}. Give a file in the "
            "official layout."
        )
    return _check(known[key], kind, f"{where}, {key!r}")


def _get_text(entry: Any, key: str, where: str) -> str:
    """Return the text under a key.

    Raises:
        errors.UserError: There is none, or it is empty.
    """
    text: str = _get(entry, key, str, where)
    if not text.strip():
        raise errors.UserError(
            f"{where}: {key!r} is empty. Write the text, or remove the entry."
        )
    return text


def document_lines(
    documents: Iterable[list[str]], counts: Counts
) -> Iterator[str]:
    """Yield documents as lines, with an empty line after each.

    Example:
        [["A. B.", "C."], ["C."], ["D."]] yields
        "A.", "B.", "C.", "", "D.", ""

    Args:
        documents: The passages of each document; empty lines separate the
            paragraphs of a passage. A passage that equals an earlier one, white
            space aside, is dropped.
        counts: Added to.

    Yields:
        Lines without line ends.
    """
    seen: set[str] = set()
    for passages in documents:
        size = 0
        for passage in passages:
            counts.passages += 1
            words = " ".join(passage.split())
            if words in seen:
                counts.duplicates += 1
                continue
            seen.add(words)
            for sentence in decoding.split_text(passage):
                yield sentence
                size += 1
        if size:
            yield ""
            counts.sentences += size
            counts.documents += 1


def run(settings: Options) -> None:
    """Write the passages of all input files to the output file.

    Raises:
        errors.UserError: An input is missing, not in its official layout or
            without text, or the output exists; then nothing is written.
    """
    squad, race = [], []
    if settings.squad_file:
        squad = files.expand_patterns(settings.squad_file, "squad_file")
    if settings.race_dir:
        race = find_race(settings.race_dir)
    files.require_target(
        settings.output_file,
        "output_file",
        squad + race,
        overwrite=settings.overwrite,
    )
    files.make_folder(os.path.dirname(settings.output_file), "output_file")
    documents = itertools.chain(
        itertools.chain.from_iterable(map(read_squad, squad)),
        itertools.chain.from_iterable(map(read_race, race)),
    )
    counts = Counts()
    with files.replace_atomically(settings.output_file) as stream:
        for line in document_lines(documents, counts):
            stream.write(f"{line}\n".encode())
        if not counts.documents:
            raise errors.UserError(
                f"There is no text in {', '.join((squad + race)[:3])}. Give "
                "the official files."
            )
    logging.info(
        "%d sentences in %d documents written to %s; %d passages read from %d "
        "files of SQuAD and %d of RACE, of them %d duplicates dropped",
        counts.sentences,
        counts.documents,
        settings.output_file,
        counts.passages,
        len(squad),
        len(race),
        counts.duplicates,
    )


if __name__ == "__main__":
    options.run_script(run, Options)
