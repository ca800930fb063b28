"""Gather the sentences that distill_small_multi.sh learns from.

    python -m lab.trials.small_multi_texts DATA ENGLISH SENTENCES TEACHER_TEXTS

ENGLISH is the output of small_en_texts. Each line of TEACHER_TEXTS is what the
teacher reads for that line of SENTENCES: the English of a translation, else the
same. Sentences of the sets that measure the model are left out.
"""

import itertools
import json
import lzma
import os
import pathlib
import random
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator

_MOST = {"en": 130_000, "de": 125_000, "ja": 100_000, "zh": 150_000}
_ENDS = re.compile(
    r"(?<=[。！？])(?![」』”’）)])|(?<=[.!?])\s+(?=[A-ZÄÖÜ„\"»])"
)
_SIZES = {"de": (15, 300), "ja": (6, 110), "zh": (6, 110)}  # Characters.
Pair = tuple[str, str]


def read(path: pathlib.Path) -> list[str]:
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8").read().splitlines()
    return path.read_text("utf-8").splitlines()


def columns(path: pathlib.Path, *names: str) -> list[list[str]]:
    """Return columns of a TSV file with a header, or of JSON lines."""
    lines = read(path)
    if ".jsonl" in path.name:
        return [[json.loads(line)[n] for n in names] for line in lines]
    header, *rows = (line.split("\t") for line in lines)
    return [[row[header.index(name)] for name in names] for row in rows]


def sentences(lines: Iterable[str], language: str) -> Iterator[str]:
    least, most = _SIZES[language]
    for line in lines:
        for sentence in _ENDS.split(" ".join(line.split())):
            if least <= len(sentence.strip()) <= most:
                yield sentence.strip()


def books(path: pathlib.Path) -> Iterator[str]:
    with tarfile.open(path) as archive:
        for name in sorted(archive.getnames()):
            file = archive.extractfile(name)
            if file is not None:
                yield from file.read().decode().split("\n\n")


def japanese(data: pathlib.Path) -> Iterator[str]:
    """Yield questions, captions, and sentences of Wikipedia and of grammars."""
    (squad,) = read(data / "ja/jsquad_dev.json.xz")
    contexts = (
        paragraph["context"].split("[SEP]")[-1]
        for article in json.loads(squad)["data"]
        for paragraph in article["paragraphs"]
    )
    yield from sentences(contexts, "ja")
    for name, *of_name in (
        ("jcommonsenseqa_train.jsonl.xz", "question"),
        ("jsts_train.jsonl.xz", "sentence1", "sentence2"),
        ("jnli_train.jsonl.xz", "sentence1", "sentence2"),
        ("jcola_train.tsv.xz", "sentence"),
        ("ner_train.jsonl.xz", "text"),
    ):
        yield from itertools.chain(*columns(data / "ja" / name, *of_name))


def translations(data: pathlib.Path) -> Iterator[Pair]:
    """Yield sentences of STS-B's training part and their English."""
    names = "text", "text_pair"
    parts = {
        language: columns(
            data / f"sentences/stsb_{language}_train.tsv.xz", *names
        )
        for language in _MOST
    }
    for language in _MOST:
        for row, english in zip(parts[language], parts["en"], strict=True):
            yield from zip(row, english, strict=True)


def measured(data: pathlib.Path) -> set[str]:
    """Return the sentences that scores are computed with."""
    of_sets = columns(data / "ja/jsts_dev.jsonl", "sentence1", "sentence2")
    for language, part in itertools.product(_MOST, ("dev", "test")):
        of_sets += columns(
            data / f"sentences/stsb_{language}_{part}.tsv.xz",
            *("text", "text_pair"),
        )
    for language in ("de", "ja", "zh"):
        of_sets += columns(
            data / f"sentences/tatoeba_{language}_en.tsv.xz",
            *("text", "text_en"),
        )
    return {text.strip() for text in itertools.chain(*of_sets)}


def main(data: str, english: str, output: str, teacher_texts: str) -> None:
    rng, root = random.Random(1), pathlib.Path(data)
    of_books = sorted(set(sentences(read(root / "ja/aozora.txt.xz"), "ja")))
    singles = {
        "en": read(pathlib.Path(english))[: _MOST["en"]],
        "de": [
            *sentences(read(root / "de/wikipedia_de.txt.xz"), "de"),
            *sentences(books(root / "de/gutenberg_de.tar.xz"), "de"),
        ],
        "ja": [
            *japanese(root),
            *rng.sample(of_books, _MOST["ja"] // 2),
        ],
        "zh": [
            *sentences(read(root / "zh-more/wikipedia_hans.txt.xz"), "zh"),
            *sentences(read(root / "zh-more/wikipedia_hant.txt.xz"), "zh"),
            *sentences(
                read(root / "zh/CLUECorpusSmall_bert_sampled.txt.xz"), "zh"
            ),
        ],
    }
    lines = list(translations(root))
    for language, texts in singles.items():
        distinct = sorted(set(texts))
        most = min(_MOST[language], len(distinct))
        lines += ((text, text) for text in rng.sample(distinct, most))
    hidden = measured(root)
    lines = [
        pair
        for pair in dict.fromkeys(lines)
        if not hidden & {text.strip() for text in pair}
    ]
    rng.shuffle(lines)
    for number, path in enumerate((output, teacher_texts)):
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            stream.writelines(f"{pair[number]}\n" for pair in lines)
        os.replace(f"{path}.new", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
