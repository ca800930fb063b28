r"""Compare libraries that find sentences: hard cases, annotated text, speed.

    python -m lab.benchmarks.sentences --prose_file=book.txt \
        --gold_files=en:gum.txt.xz,tr:tr.txt.xz

The hard cases are those of the tests. Gold files have a sentence a line. Others
than sentencex are compared if they are installed: syntok, pysbd, blingfire.
Every library gets the same paragraphs in one process, one after the other, and
the speed is that of processor time.
"""

import dataclasses
import itertools
import lzma
import pathlib
import sys
import time
from collections.abc import Callable, Iterator

from albert_tf.common import options, ranges
from albert_tf.common.options import checked, option
from data_prep.writer import sentences

ROOT = pathlib.Path(__file__).resolve().parents[2]
HARD = ROOT / "tests" / "data_prep" / "hard_sentences.txt"
SENTENCES_TOGETHER = 5  # Gold sentences that make a paragraph.

Split = Callable[[str, str], list[str]]


@dataclasses.dataclass(frozen=True)
@checked
class BenchmarkOptions:
    """Options of this benchmark."""

    prose_file: str | None = option(
        None, "English prose for the speed, paragraphs between empty lines."
    )
    gold_files: str = option(
        "", "LANGUAGE:FILE, separated by commas; plain or .xz."
    )
    max_sentences: int = option(
        1200, "Sentences of each gold file.", within=ranges.EXAMPLES_OR_NONE
    )


def _syntok() -> Split:
    from syntok import segmenter

    def split(language: str, text: str) -> list[str]:
        found = itertools.chain(*segmenter.process(text))
        starts = [sentence[0].offset for sentence in found]
        bounds = itertools.pairwise([0, *starts[1:], len(text)])
        return [text[a:b].strip() for a, b in bounds]

    return split


def _sentencex() -> Split:
    import sentencex

    return lambda language, text: [
        part.strip() for part in sentencex.segment(language, text)
    ]


def _pysbd() -> Split:
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    cutters = {
        code: pysbd.Segmenter(language=code, clean=False)
        for code in LANGUAGE_CODES
    }
    return lambda language, text: [
        part.strip()
        for part in cutters.get(language, cutters["en"]).segment(text)
    ]


def _blingfire() -> Split:
    import blingfire

    return lambda _, text: blingfire.text_to_sentences(text).split("\n")


def splitters() -> dict[str, Split]:
    """Return this project's rules and the libraries that are installed."""
    found: dict[str, Split] = {
        "albert_tf": lambda code, text: sentences.split_paragraph(text, code)
    }
    for load in (_sentencex, _syntok, _pysbd, _blingfire):
        try:
            found[load.__name__[1:]] = load()
        except ImportError as error:
            print(f"{load.__name__[1:]} is left out: {error}", file=sys.stderr)
    return found


def hard_cases() -> Iterator[tuple[str, list[str]]]:
    """Yield language and sentences of each hard case."""
    language = ""
    for line in HARD.read_text("utf-8").splitlines():
        if line.startswith("@"):
            language = line[1:]
        elif line and not line.startswith("#"):
            yield language, line.removeprefix("!").split("|")


def ends(parts: list[str]) -> set[int]:
    """Return where sentences end but the last, in characters but spaces."""
    sizes = [len("".join(part.split())) for part in parts]
    return set(itertools.accumulate(sizes[:-1]))


def show_hard_cases(found: dict[str, Split]) -> None:
    """Print how many of the hard cases of each language are right."""
    cases = list(hard_cases())
    languages = list(dict.fromkeys(language for language, _ in cases))
    print("| | " + " | ".join(languages) + " | all |")
    print("| --- |" + " ---: |" * (len(languages) + 1))
    for name, split in found.items():
        right = dict.fromkeys(languages, 0)
        for language, parts in cases:
            wanted = [part.strip() for part in parts]
            right[language] += split(language, "".join(parts)) == wanted
        counts = [*right.values(), sum(right.values())]
        print(f"| {name} | " + " | ".join(map(str, counts)) + " |")


def show_gold(found: dict[str, Split], path: str, most: int) -> None:
    """Print precision, recall and F1 of the ends in annotated text."""
    language, path = path.split(":", 1)
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8") as stream:
        lines = (line.strip() for line in stream)
        gold = list(itertools.islice(filter(None, lines), most))
    paragraphs = [
        gold[first : first + SENTENCES_TOGETHER]
        for first in range(0, len(gold), SENTENCES_TOGETHER)
    ]
    for name, split in found.items():
        hits = misses = extra = 0
        for parts in paragraphs:
            wanted = ends(parts)
            actual = ends(split(language, " ".join(parts)))
            hits += len(wanted & actual)
            misses += len(wanted - actual)
            extra += len(actual - wanted)
        values = (
            hits / max(1, hits + extra),
            hits / max(1, hits + misses),
            2 * hits / max(1, 2 * hits + misses + extra),
        )
        row = " | ".join(f"{value:.3f}" for value in values)
        print(f"| {language} | {name} | {row} |")


def show_speed(found: dict[str, Split], path: str) -> None:
    """Print megabytes a second of English prose."""
    text = pathlib.Path(path).read_text("utf-8")
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    size = sum(len(part.encode()) for part in paragraphs)
    for name, split in found.items():
        start = time.process_time()
        for paragraph in filter(None, paragraphs):
            split("en", paragraph)
        seconds = time.process_time() - start
        print(f"| {name} | {size / 1e6 / seconds:.2f} |")


def main(settings: BenchmarkOptions) -> None:
    """Print all tables."""
    found = splitters()
    show_hard_cases(found)
    for path in filter(None, settings.gold_files.split(",")):
        show_gold(found, path, settings.max_sentences)
    if settings.prose_file:
        show_speed(found, settings.prose_file)


if __name__ == "__main__":
    options.run_script(main, BenchmarkOptions)
