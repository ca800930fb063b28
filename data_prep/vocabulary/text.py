"""The text that a vocabulary is trained on: read, judged and cleaned."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from absl import logging

from albert_tf.common import errors, files, ranges
from albert_tf.common.options import option
from albert_tf.text import cleaning, normalization, wordpiece
from data_prep.vocabulary import letters
from data_prep.writer import corpus

# The beginning of a text, by which it is judged.
SAMPLE_CHARACTERS = 10_000_000
MAX_SENTENCE_BYTES = 4192  # SentencePiece's default; it drops longer lines.
COVERAGE, COVERAGE_OF_MANY = 0.99995, 0.9995


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """What the trainers of vocabularies have in common."""

    input_file: str = option(
        help="Raw text, UTF-8: files or glob patterns, separated by commas; "
        "files that end in .gz, .xz or .zst are unpacked; - is standard input."
    )
    output_prefix: str = option(
        help="Path of the new files (PREFIX), without their endings."
    )
    character_coverage: float | None = option(
        None,
        "Share of the characters in the text that get a piece. Default: "
        "0.9995 if most letters are Chinese or Japanese, else 0.99995.",
        within=ranges.Range(0.9, 1),
    )
    do_lower_case: bool = option(True, "Lower-case the text.")
    keep_accents: bool | None = option(
        None,
        "Keep accents and other combining characters; WordPiece without "
        "lower-casing always does. Default: the text decides, by how many of "
        "its letters have some.",
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: `output_prefix` is empty.
        """
        if not self.output_prefix:
            raise errors.UserError(
                "is empty. Give a path without ending, for example "
                "vocabulary/30k-clean.",
                "output_prefix",
            )


def prepare(
    settings: TrainingOptions, kind: str
) -> tuple[Iterator[str], normalization.Normalization, float]:
    """Find the text, and decide how it is used.

    Args:
        settings: Options of a trainer.
        kind: Of the vocabulary.

    Returns:
        The lines, what is done to them, and the share of the characters that
        get a piece.

    Raises:
        errors.UserError: Files are missing, or the output cannot be written.
    """
    paths = corpus.find_files(corpus.CorpusOptions(settings.input_file))
    files.make_folder(os.path.dirname(settings.output_prefix), "output_prefix")
    lines, counts = judge(read_lines(paths))
    rule = choose_normalization(counts, kind, settings)
    return lines, rule, choose_coverage(counts, settings.character_coverage)


def read_lines(paths: Sequence[str]) -> Iterator[str]:
    """Yield the lines of files, one after another.

    Raises:
        errors.UserError: A line is too long, or no text.
    """
    for path in paths:
        with corpus.open_unpacked(path) as stream:
            yield from corpus.read_prose_lines(stream, path)


def judge(lines: Iterator[str]) -> tuple[Iterator[str], dict[str, int]]:
    """Count the letters of the first lines, see `letters.count`.

    Returns:
        All lines, the first ones again; and the counts.
    """
    sample: list[str] = []
    size = 0
    for line in lines:
        sample.append(line)
        size += len(line)
        if size >= SAMPLE_CHARACTERS:
            break
    return itertools.chain(sample, lines), letters.count(sample)


def choose_normalization(
    counts: Mapping[str, int], kind: str, settings: TrainingOptions
) -> normalization.Normalization:
    """Decide what is done to the text, and say so."""
    keep_accents = settings.keep_accents
    if keep_accents is None:
        share = letters.share(counts, "letter_marks")
        keep_accents = share > letters.MARKS_MATTER
        logging.info(
            "--keep_accents=%s, because %.3f %% of the letters carry marks "
            "(%s than %.1f %%, see docs/languages.md).",
            str(keep_accents).lower(),
            100 * share,
            "more" if keep_accents else "not more",
            100 * letters.MARKS_MATTER,
        )
    return normalization.Normalization(
        settings.do_lower_case, keep_accents, kind=kind
    )


def cleaner(rule: normalization.Normalization) -> Callable[[str], str]:
    """Return what cleans a text as the rule says."""
    if rule.kind == normalization.WORDPIECE:
        clean = wordpiece.clean_text
    else:
        clean = cleaning.preprocess_text
    return functools.partial(
        clean, lower=rule.do_lower_case, keep_accents=rule.keep_accents
    )


def choose_coverage(counts: Mapping[str, int], given: float | None) -> float:
    """Decide which share of the characters gets a piece, and say so.

    Source: SentencePiece's advice for rich character sets, 0.9995.
    """
    if given is not None:
        return given
    share = letters.share(counts, "letters_chinese_japanese")
    if share <= letters.MANY_CHARACTERS:
        return COVERAGE
    logging.info(
        "--character_coverage=%g, because %.0f %% of the letters are Chinese "
        "or Japanese.",
        COVERAGE_OF_MANY,
        100 * share,
    )
    return COVERAGE_OF_MANY


class Sentences:
    """The cleaned lines of a text, and what was seen while reading them.

    SentencePiece takes an error of its iterator for the end of the text, so it
    is kept here.

    Attributes:
        count: Lines yielded so far.
        too_long: Those of them that SentencePiece drops.
        failure: What ended the reading early, if anything did.
    """

    def __init__(
        self, lines: Iterable[str], clean: Callable[[str], str]
    ) -> None:
        """Remember what to read, and how to clean it."""
        self._lines = lines
        self._clean = clean
        self.count = 0
        self.too_long = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        """Yield each line that is not empty once it is cleaned."""
        try:
            for line in self._lines:
                sentence = self._clean(line)
                if sentence:
                    self.count += 1
                    self.too_long += len(sentence.encode()) > MAX_SENTENCE_BYTES
                    yield sentence
        except (Exception, KeyboardInterrupt) as error:
            self.failure = error
