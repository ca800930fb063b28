"""Write the texts of SQuAD and RACE as held-out text for pretraining.

The paper evaluates pretraining on the texts of the two development sets,
prepared as the training text was (ALBERT §4.2.1). This script writes them in
the layout that create_pretraining_data.py reads: one sentence a line, an empty
line after each document.

    python data_prep/extract_passages.py --squad_file=dev-v2.0.json \
        --race_dir=RACE/dev --output_file=intrinsic.txt

An article of SQuAD is one document, as an article of Wikipedia is in the
training text: if each paragraph were one, 70 % of 512 tokens would be padding,
and 3 % are with whole articles. A passage of RACE is one document. A passage
that equals an earlier one, white space aside, is dropped.
"""

import dataclasses
import itertools
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf.common import (
    errors,
    files,
    options,
    outputs,
    rows,
    shared_options,
)
from albert_tf.finetuning import base
from albert_tf.tasks.race import data as race_data
from data_prep.writer import decoding


@dataclasses.dataclass(frozen=True)
@options.shown(Data="squad_file race_dir", Output="output_file overwrite")
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
        if not self.squad_file and not self.race_dir:
            raise errors.UserError(
                "Neither --squad_file nor --race_dir is given. Give one or "
                "both; the paper evaluates on both together."
            )


def find_race_files(folder: str) -> list[str]:
    """Return the files of a split of RACE: middle first, by number."""
    files.refuse_file(folder, "race_dir")
    paths: list[str] = []
    for level in race_data.LEVELS:
        inner = os.path.join(folder, level)
        articles = race_data.article_files(inner, _remark)
        if not articles:
            raise errors.UserError(
                f"`race_dir={folder}` has neither {level}/all.txt nor files "
                f"like {level}/13.txt. Give the folder of a split, such as "
                "RACE/dev."
            )
        paths += articles
    return paths


def _remark(remark: str, names: Sequence[str]) -> None:
    base.log_remarks({remark: list(names)} if names else {})


def read_squad(path: str) -> Iterator[list[str]]:
    """Yield the paragraphs of each article of a file."""
    for content in rows.read_objects(path):
        articles = _get(content.values, "data", list, content.where)
        for number, article in enumerate(articles, 1):
            where = f"{content.where}, article {number}"
            yield [
                _get(entry, "context", str, f"{where}, paragraph {index}")
                for index, entry in enumerate(
                    _get(article, "paragraphs", list, where), 1
                )
            ]


def read_race(path: str) -> Iterator[list[str]]:
    """Yield each passage of a file, alone in a list."""
    for entry in rows.read_objects(path):
        # Each line is a paragraph here; headings have no full stop.
        text = _get(entry.values, "article", str, entry.where)
        yield [text.replace("\n", "\n\n")]


def _get(entry: Any, key: str, kind: type, where: str) -> Any:
    """Return a filled value of a JSON object, which must be of this type."""
    value = entry.get(key) if isinstance(entry, dict) else None
    is_empty = isinstance(value, str) and not value.strip()
    if is_empty or not isinstance(value, kind):
        name = "text" if kind is str else "list"
        raise errors.UserError(
            f"{where}: there is no {name} {key!r}. Give the official file."
        )
    return value


def run(settings: Options) -> None:
    squad, race = [], []
    if settings.squad_file:
        squad = files.expand_patterns(settings.squad_file, "squad_file")
    if settings.race_dir:
        race = find_race_files(settings.race_dir)
    output, paths = settings.output_file, squad + race
    outputs.check(settings, "output_file", [output])
    files.make_folder(os.path.dirname(output), "output_file")
    num_passages = num_documents = 0
    unique_passages: set[str] = set()
    with files.replace_atomically(output) as stream:
        for document in itertools.chain(
            *map(read_squad, squad), *map(read_race, race)
        ):
            lines: list[str] = []
            for passage in document:
                num_passages += 1
                words = " ".join(passage.split())
                if words not in unique_passages:
                    unique_passages.add(words)
                    lines += decoding.split_text(passage)
            if lines:
                num_documents += 1
                stream.write("\n".join([*lines, "", ""]).encode())
        if not num_documents:
            raise errors.UserError(f"There is no text in {', '.join(paths)}.")
    logging.info(
        "%d documents written to %s; of %d passages, %d equal an earlier one",
        num_documents,
        output,
        num_passages,
        num_passages - len(unique_passages),
    )


if __name__ == "__main__":
    options.run_script(run, Options)
