"""The text that a vocabulary is trained on: read, judged and cleaned."""

import collections
import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import sentencepiece
from absl import logging

from albert_tf.common import errors, files, outputs, ranges, shared_options
from albert_tf.common.options import option, shown
from albert_tf.text import (
    cleaning,
    normalization,
    tokenization,
    wordpiece_rules,
)
from data_prep.vocabulary import letters
from data_prep.writer import corpus, prose

# The beginning of a text, or the beginnings of its files, which judge it.
SAMPLE_CHARACTERS = 10_000_000
REPORT_LINES = 20_000
MAX_SENTENCE_BYTES = 4192  # SentencePiece's default; it drops longer lines.
COVERAGE, COVERAGE_OF_MANY = 0.99995, 0.9995


@dataclasses.dataclass(frozen=True)
@shown(
    Model="do_lower_case", Data="input_file", Output="output_prefix overwrite"
)
class TrainingOptions:
    """The options that all trainers of vocabularies share."""

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
        "lower-casing always does. Default: the text decides, by how many "
        "letters of its first 10 million characters have some; of several "
        "files these are the beginnings.",
    )
    compare_with: str = option(
        "",
        "Other vocabularies, of which the last lines report, too: .model of "
        "SentencePiece or .txt of WordPiece, separated by commas.",
    )
    overwrite: bool = shared_options.overwrite("vocabulary")


@dataclasses.dataclass(frozen=True)
class Text:
    """A text, and how it is used."""

    lines: Iterator[str]
    rule: normalization.Normalization
    coverage: float  # Share of the characters that get a piece.
    sample: list[str]  # The first lines that are not empty.
    others: dict[str, tokenization.AnyTokenizer]  # To compare with.

    def report(self, path: str) -> None:
        """Log how the new vocabulary and others tokenize the sample."""
        for name, tokenizer in {**load([path]), **self.others}.items():
            statistics = measure(self.sample, tokenizer)
            logging.info(
                "%s: %d pieces. In the first %d lines %.2f pieces a word, %.2f "
                "characters a piece, %.2f %% unknown pieces, %.1f %% of the "
                "words in one piece",
                name,
                tokenizer.vocab_size,
                len(self.sample),
                statistics["pieces a word"],
                statistics["characters a piece"],
                100 * statistics["unknown pieces"],
                100 * statistics["words in one piece"],
            )


def load(paths: Iterable[str]) -> dict[str, tokenization.AnyTokenizer]:
    """Open vocabularies; those of WordPiece end in .txt."""
    return {
        path: tokenization.load(
            tokenization.VocabularyOptions(None, path)
            if path.endswith(".txt")
            else tokenization.VocabularyOptions(path)
        )
        for path in paths
    }


def measure(
    lines: Sequence[str], tokenizer: tokenization.AnyTokenizer
) -> dict[str, float]:
    """Return statistics of the pieces of lines with text.

    Words stand between spaces; the last two numbers are rates.
    """
    ids, _ = tokenizer.encode_flat(lines)
    words = " ".join(lines).split()
    pieces_of_words, num_pieces = tokenizer.encode_flat(words)
    whole = pieces_of_words[np.cumsum(num_pieces)[num_pieces == 1] - 1]
    return {
        "pieces a word": len(ids) / len(words),
        "characters a piece": sum(map(len, words)) / max(1, len(ids)),
        "unknown pieces": float((ids == tokenizer.unk_id).mean()),
        "words in one piece": (whole != tokenizer.unk_id).sum() / len(words),
    }


def vocab_too_small_error(needed: int, vocab_size: int) -> errors.UserError:
    """Return the error for a text with more characters than pieces."""
    return errors.UserError(
        f"`vocab_size={vocab_size}` is less than the characters of this text "
        f"need. The smallest possible value is {needed}. Use at least that, or "
        "a lower `character_coverage`."
    )


def prepare(
    settings: TrainingOptions, kind: str, endings: Sequence[str]
) -> Text:
    """Open the text for a vocabulary of a kind, and choose normalization.

    The endings are of the files that are written, besides the description.
    """
    prefix = settings.output_prefix
    if os.path.basename(prefix) in ("", ".", ".."):
        raise errors.UserError(
            f"`output_prefix={prefix}` is a folder. Add how the names of the "
            f"files begin, such as {os.path.join(prefix, 'vocab')}."
        )
    written = [prefix + ending for ending in endings]
    written.append(normalization.path_beside(written[0]))
    outputs.check(settings, "output_prefix", written)
    paths = corpus.find_files(corpus.CorpusOptions(settings.input_file))
    compared = load(files.split_list(settings.compare_with))
    folder = os.path.dirname(prefix)
    files.make_folder(folder, "output_prefix")
    may_write = files.is_remote(prefix) or os.access(
        folder or ".", os.W_OK | os.X_OK
    )
    if not may_write:
        raise errors.UserError(
            f"`output_prefix={prefix}`: Permission denied in "
            f"{folder or '.'!r}. Choose a place that you may write to."
        )
    lines = read_lines(paths)
    sample = read_sample(lines)
    counts = letters.count(sample)
    if len(paths) > 1 and all(map(os.path.isfile, paths)):  # No pipes.
        heads = (read_sample(read_lines([x]), len(paths)) for x in paths)
        counts = letters.count(list(itertools.chain(*heads)))
    return Text(
        itertools.chain(sample, lines),
        choose_normalization(counts, kind, settings),
        choose_coverage(counts, settings.character_coverage),
        list(itertools.islice(filter(str.strip, sample), REPORT_LINES)),
        compared,
    )


def read_lines(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        with corpus.open_unpacked(path) as stream:
            yield from prose.read(stream, path)


def read_sample(lines: Iterator[str], parts: int = 1) -> list[str]:
    """Take the first lines, with at least a part of `SAMPLE_CHARACTERS`."""
    sample: list[str] = []
    size = 0
    for line in lines:
        sample.append(line)
        size += len(line)
        if size * parts >= SAMPLE_CHARACTERS:
            break
    return sample


def choose_normalization(
    counts: Mapping[str, int], kind: str, settings: TrainingOptions
) -> normalization.Normalization:
    """Choose the normalization by counts of `letters.count`, and log why."""
    keep_accents = settings.keep_accents
    if keep_accents is None:
        rate = letters.rate(counts, letters.LOST[kind])
        keep_accents = rate > letters.MARKS_MATTER
        logging.info(
            "--keep_accents=%s, because %.3f %% of the letters would lose "
            "marks or be taken apart (%s than %.1f %%, see docs/languages.md).",
            str(keep_accents).lower(),
            100 * rate,
            "more" if keep_accents else "not more",
            100 * letters.MARKS_MATTER,
        )
    return normalization.Normalization(
        settings.do_lower_case, keep_accents, kind=kind
    )


def make_cleaner(rule: normalization.Normalization) -> Callable[[str], str]:
    if rule.kind == normalization.WORDPIECE:
        clean = wordpiece_rules.clean_text
    else:
        clean = cleaning.preprocess_text
    return functools.partial(
        clean, lower=rule.do_lower_case, keep_accents=rule.keep_accents
    )


def choose_coverage(counts: Mapping[str, int], coverage: float | None) -> float:
    """Choose which fraction of the characters gets a piece, and log why.

    Source: SentencePiece's advice for rich character sets, 0.9995.
    """
    if coverage is not None:
        return coverage
    rate = letters.rate(counts, "letters_chinese_japanese")
    if rate <= letters.MANY_CHARACTERS:
        return COVERAGE
    logging.info(
        "--character_coverage=%g, because %.0f %% of the letters are Chinese "
        "or Japanese.",
        COVERAGE_OF_MANY,
        100 * rate,
    )
    return COVERAGE_OF_MANY


def warn_of_dropped(units: str, counts: Mapping[str, int]) -> None:
    """Warn of sentences or words that are not used; `counts` by reason."""
    for reason, number in counts.items():
        if number:
            logging.warning("%d %s %s were left out", number, units, reason)


class Sentences:
    """Yields the cleaned lines of a text that SentencePiece can use.

    SentencePiece takes an error of its iterator for the end of the text, so the
    error is kept here.

    Attributes:
        count: Lines yielded so far.
        dropped: Lines that SentencePiece would drop, by the reason. If only
            such lines were left, it would end the process.
        failure: The error that ended the reading early, if any.
    """

    def __init__(
        self, lines: Iterable[str], clean: Callable[[str], str]
    ) -> None:
        self._lines = lines
        self._clean = clean
        self._normalizer = sentencepiece.SentencePieceNormalizer(
            rule_name="nmt_nfkc"
        )
        self.count = 0
        self.dropped: collections.Counter[str] = collections.Counter()
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                sentence = self._clean(line)
                if reason := self._drop_reason(sentence):
                    self.dropped[reason] += 1
                elif sentence:
                    self.count += 1
                    yield sentence
        except (Exception, KeyboardInterrupt) as error:
            self.failure = error

    def _drop_reason(self, sentence: str) -> str:
        """Return why SentencePiece would drop a sentence; "": it would not."""
        if len(sentence.encode()) > MAX_SENTENCE_BYTES:
            return f"of more than {MAX_SENTENCE_BYTES} bytes"
        if "\u2585" in sentence:
            return "with U+2585 (reserved by SentencePiece)"
        if sentence and not re.search(r"\w", sentence):  # Fast, and rare.
            normalized = self._normalizer.normalize(sentence)
            if not normalized.strip(f" {tokenization.WORD_START}"):
                return "of invisible characters"
        return ""
