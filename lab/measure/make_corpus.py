r"""Write the English corpus of the experiments, and its held-out part.

    python -m lab.measure.make_corpus --data_dir=DATA --output_dir=CORPUS

writes, one sentence a line and an empty line after each document,

    train.txt     to pretrain on
    held_out.txt  to measure on (lab.measure.evaluate)
    corpus.json   the numbers of units, lines, words and removed lines of each
                  source, and the SHA-256 of all files

DATA holds the files of SOURCES and EVALUATION below.

Of each source about one in a hundred units, at least one, is held out: those
with the lowest hash of a seed and their text, whatever else is in the source.
A unit is a book or an address in the archives, else a document; so no other
part of a held-out book is trained on. Sections of held-out textbooks' chapters
and near copies of an article may be.

From train.txt lines are removed that share 13 words in a row with a text of
EVALUATION or of held_out.txt; and lines of 6 to 12 words that are one of their
sentences. Case and punctuation do not count.
"""

import dataclasses
import hashlib
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from absl import logging

from albert_tf.common import files, options, outputs, strict_json
from albert_tf.common.options import checked, option
from data_prep import split_sentences
from data_prep.writer import corpus, sentences
from lab.measure import overlap

# Archives hold prose, a text in each file; the others one sentence a line.
SOURCES = (
    "corpora/gutenberg.tar.xz",
    "corpora/inaugural.tar.xz",
    "corpora/movie_reviews.txt.xz",
    "en/gum_sentences.txt.xz",
    "en/gutenberg_more.tar.xz",
    "en/openstax.txt.xz",
    "en/storybooks.txt.xz",
    "en/wikipedia_articles.txt.xz",
    "en/wikipedia_short.txt.xz",
)
# Files of GLUE for development and test, of SQuAD and RACE for development, and
# the minimal pairs.
EVALUATION = (
    "blimp/blimp.jsonl.xz",
    *(
        f"glue/{task}/{split}.tsv"
        for task in ("CoLA", "SST-2", "MRPC", "RTE", "STS-B")
        for split in ("dev", "test")
    ),
    "squad/dev-v2.0.json.xz",
    "race/RACE.tar.xz",
)
TRAIN_NAME, HELD_OUT_NAME = "train.txt", "held_out.txt"
MANIFEST_NAME = "corpus.json"
_DOCUMENT_SENTENCES = 200  # Of a book.
_SEED, _HELD_OUT_SHARE = 2019, 0.01


@dataclasses.dataclass(frozen=True)
@checked
class CorpusOptions:
    """Options of make_corpus."""

    data_dir: str = option(help="Folder of the texts.")
    output_dir: str = option(
        help="Folder for the corpus; an earlier one is replaced."
    )


def read_units(path: str) -> list[str]:
    """Return the units of a source, each with a line for each sentence.

    Documents of a unit are separated by empty lines.
    """
    if path.endswith(split_sentences.ARCHIVES):
        units = []
        for name, stream in split_sentences.open_texts(path):
            paragraphs = split_sentences.read_paragraphs(stream, name)
            lines = split_sentences.to_lines(
                (sentences.split_paragraph(text, "en") for text in paragraphs),
                max_document_sentences=_DOCUMENT_SENTENCES,
            )
            units.append("\n".join(lines).strip("\n"))
        return units
    with corpus.open_unpacked(path) as stream:
        text = stream.read().decode("utf-8")
    return [unit.strip("\n") for unit in text.split("\n\n") if unit.strip()]


def hold_out(
    units: list[str], share: float, seed: int
) -> tuple[list[str], list[str]]:
    """Return units to train on and held-out ones, at least one, in order."""
    count = max(1, round(share * len(units)))
    digests = [
        hashlib.sha256(f"{seed}\n{unit}".encode()).digest() for unit in units
    ]
    held = set(sorted(range(len(units)), key=lambda n: digests[n])[:count])
    train = [unit for n, unit in enumerate(units) if n not in held]
    return train, [unit for n, unit in enumerate(units) if n in held]


def remove(unit: str, known: overlap.Overlap) -> tuple[str, int]:
    """Return a unit without the lines that overlap, and their number."""
    kept, removed = [], 0
    for line in unit.split("\n"):
        if known.has(line):
            removed += 1
        elif line or (kept and kept[-1]):  # No two empty lines.
            kept.append(line)
    return "\n".join(kept).strip("\n"), removed


def evaluation_texts(path: str) -> Iterator[str]:
    """Yield the texts of a file of the evaluation.

    Tables give their fields, JSON its texts.
    """
    if path.endswith(".tar.xz"):
        with (
            corpus.open_unpacked(path) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as archive,
        ):
            for member in archive:
                if member.name.startswith("RACE/dev/") and member.isfile():
                    stream = archive.extractfile(member)
                    assert stream is not None
                    yield from overlap.texts_in(json.load(stream))
        return
    with corpus.open_unpacked(path) as stream:
        text = stream.read().decode("utf-8-sig")
    if ".tsv" in path:
        yield from (f for row in text.split("\n") for f in row.split("\t"))
    else:
        rows = text.splitlines() if ".jsonl" in path else [text]
        for row in filter(None, rows):
            yield from overlap.texts_in(json.loads(row))


def _count(units: Iterable[str]) -> dict[str, int]:
    units = list(units)
    lines = [line for unit in units for line in unit.split("\n") if line]
    return {
        "units": len(units),
        "lines": len(lines),
        "words": sum(len(line.split()) for line in lines),
    }


def _clean(units: list[str], known: overlap.Overlap) -> tuple[list[str], int]:
    """Return the units without lines that overlap; how many were removed."""
    pairs = [remove(unit, known) for unit in units]
    return [unit for unit, _ in pairs if unit], sum(n for _, n in pairs)


def run(settings: CorpusOptions) -> None:
    """Write the files; log the numbers."""
    paths = {
        name: files.require_file(
            os.path.join(settings.data_dir, name), "data_dir"
        )
        for name in SOURCES + EVALUATION
    }
    written = {
        name: os.path.join(settings.output_dir, name)
        for name in (MANIFEST_NAME, TRAIN_NAME, HELD_OUT_NAME)
    }
    is_own = files.exists(written[MANIFEST_NAME])
    outputs.check(settings, "output_dir", written.values(), is_own=is_own)
    files.make_folder(settings.output_dir, "output_dir")
    counts, texts = _divide(paths)
    digests = {name: files.sha256(path) for name, path in paths.items()}
    for name, text in texts.items():
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    content = {
        "seed": _SEED,
        "held_out_share": _HELD_OUT_SHARE,
        "sources": counts,
        "sha256": digests,
    }
    texts[MANIFEST_NAME] = strict_json.dumps(content, indent=2) + "\n"
    files.write_together(
        {path: texts[name].encode() for name, path in written.items()}
    )
    for name, count in counts.items():
        logging.info("%s: %s", name, count)


def _divide(paths: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the counts of each source, and the texts of both parts."""
    parts = {
        name: hold_out(read_units(paths[name]), _HELD_OUT_SHARE, _SEED)
        for name in SOURCES
    }
    tasks = overlap.Overlap(
        text for name in EVALUATION for text in evaluation_texts(paths[name])
    )
    same = overlap.Overlap(
        line
        for _, units in parts.values()
        for unit in units
        for line in unit.split("\n")
    )
    counts: dict[str, Any] = {}
    texts = {TRAIN_NAME: "", HELD_OUT_NAME: ""}
    for name, (units, held) in parts.items():
        logging.info("Comparing %s", name)
        units, in_tasks = _clean(units, tasks)
        train, in_held = _clean(units, same)
        counts[name] = {
            "train": _count(train),
            "held_out": _count(held),
            "removed_lines": {"evaluation": in_tasks, "held_out": in_held},
        }
        texts[TRAIN_NAME] += "".join(f"{unit}\n\n" for unit in train)
        texts[HELD_OUT_NAME] += "".join(f"{unit}\n\n" for unit in held)
    return counts, texts


if __name__ == "__main__":
    options.run_script(run, CorpusOptions)
