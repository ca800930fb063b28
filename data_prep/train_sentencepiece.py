"""Train a vocabulary: raw text to PREFIX.model and PREFIX.vocab.

The first step of the walk; create_pretraining_data.py needs the result. The
text is cleaned exactly as the tokenizer will clean it later, so the vocabulary
knows what it is going to see. The result depends on the text and the options
only, not on the machine.

    python data_prep/train_sentencepiece.py \
        --input_file='corpus/*.txt' --output_prefix=my-vocabulary

The special pieces take ids 0 to 12 as in the released 30k-clean.model.
"""

import dataclasses
import io
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence

import sentencepiece
from absl import logging
from sentencepiece import sentencepiece_model_pb2

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf import errors, files, options, ranges, tokenization
from data_prep import corpus

# Source: the options for spm_train in the original's README, ids included.
USER_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]
RELEASED_SETTINGS = {
    "model_type": "unigram",
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": [
        tokenization.CLS,
        tokenization.SEP,
        tokenization.MASK,
    ],
    # A list: in a comma-separated string the quotation mark would open a quote.
    "user_defined_symbols": USER_SYMBOLS,
    "shuffle_input_sentence": True,
}
SMALLEST_VOCAB = len(tokenization.SPECIAL_PIECES) + len(USER_SYMBOLS) + 1
MAX_SENTENCE_BYTES = 4192  # SentencePiece's default; it drops longer lines.
NUM_THREADS = 16  # Its default too. A part of the result: sums are rounded.


@dataclasses.dataclass(frozen=True)
@options.checked
class Options:
    """Options of the script."""

    input_file: str = options.option(
        help="Raw text, UTF-8, one sentence per line: files or glob patterns, "
        "separated by commas; files that end in .gz, .xz or .zst are unpacked; "
        "- is standard input. Empty lines are ignored."
    )
    output_prefix: str = options.option(
        help="PREFIX.model and PREFIX.vocab are written."
    )
    vocab_size: int = options.option(
        30000,
        "Number of pieces.",
        within=ranges.Range(SMALLEST_VOCAB, ranges.MOST_PIECES),
    )
    character_coverage: float = options.option(
        0.99995,
        "Share of the characters in the text that get a piece.",
        within=ranges.Range(0.9, 1),
    )
    input_sentence_size: int = options.option(
        10000000,
        "Train on that many sentences, drawn by chance from a larger corpus; "
        "0 for all.",
        within=ranges.EXAMPLES_OR_NONE,
    )
    do_lower_case: bool = options.option(True, "Lower-case the text.")

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: One is outside its range.
        """
        if not self.output_prefix:
            raise errors.UserError(
                "--output_prefix is empty. Give a path without ending, for "
                "example vocabulary/30k-clean."
            )
        if self.input_sentence_size != 0 and self.input_sentence_size <= 100:
            raise errors.UserError(
                f"--input_sentence_size={self.input_sentence_size} is neither "
                "0 nor above 100. Use 0 for all sentences."
            )


class Sentences:
    """The cleaned lines of some files, and what was seen while reading them.

    SentencePiece takes an error of its iterator for the end of the text, so it
    is kept here.

    Attributes:
        count: Lines yielded so far.
        too_long: Those of them that SentencePiece drops.
        failure: What ended the reading early, if anything did.
    """

    def __init__(self, paths: Sequence[str], *, lower: bool) -> None:
        """Remember what to read; nothing is opened yet."""
        self._paths = paths
        self._lower = lower
        self.count = 0
        self.too_long = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        """Yield each line that is not empty once it is cleaned."""
        try:
            for path in self._paths:
                yield from self._read(path)
        except (Exception, KeyboardInterrupt) as error:
            self.failure = error

    def _read(self, path: str) -> Iterator[str]:
        with corpus.open_unpacked(path) as stream:
            lines = corpus.read_prose_lines(stream, path)
            for number, line in enumerate(lines, start=1):
                sentence = tokenization.preprocess_text(
                    _decode(line, path, number), lower=self._lower
                )
                if sentence:
                    self.count += 1
                    self.too_long += len(sentence.encode()) > MAX_SENTENCE_BYTES
                    yield sentence


def _decode(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"--input_file={path}, line {number}, is not UTF-8 text. Convert "
            "the file first, for example by iconv -f latin1 -t utf-8."
        ) from error


def train_model(sentences: Sentences, settings: Options) -> bytes:
    """Train a SentencePiece model.

    Args:
        sentences: The text.
        settings: Sizes; files are neither read nor written here.

    Returns:
        The content of a `.model` file. The same text and settings give the same
        bytes.

    Raises:
        errors.UserError: No text, or a vocabulary size that it does not allow.
    """
    model = io.BytesIO()
    failure: RuntimeError | None = None
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=settings.vocab_size,
            character_coverage=settings.character_coverage,
            input_sentence_size=settings.input_sentence_size,
            max_sentence_length=MAX_SENTENCE_BYTES,
            num_threads=NUM_THREADS,
            minloglevel=2,
            **RELEASED_SETTINGS,
        )
    except RuntimeError as error:
        failure = error
    if sentences.failure:
        raise sentences.failure
    if failure:
        raise _explain(failure, sentences, settings) from failure
    return model.getvalue()


def _explain(
    failure: RuntimeError, sentences: Sentences, settings: Options
) -> Exception:
    """Turn SentencePiece's complaint about the text into words for the user.

    Example:
        "... size too high (30000). Please set it to a value <= 6216." becomes
        a UserError that names 6216; an unknown complaint stays as it is.
    """
    given = f"--vocab_size={settings.vocab_size}"
    if sentences.count == sentences.too_long:
        return errors.UserError(
            f"--input_file={settings.input_file} holds no sentence of at most "
            f"{MAX_SENTENCE_BYTES} bytes ({sentences.too_long} are longer). "
            "Give text with one sentence per line."
        )
    if match := re.search(r"too high .* <= (\d+)", str(failure)):
        return errors.UserError(
            f"{given} is more than this text gives. The largest possible value "
            f"is {match[1]}. Use at most that, or more text."
        )
    if match := re.search(r"required_chars\. \d+ vs (\d+)", str(failure)):
        return errors.UserError(
            f"{given} is less than the characters of this text need. The "
            f"smallest possible value is {match[1]}. Use at least that, or a "
            "lower --character_coverage."
        )
    return failure


def readable_vocab(model: bytes) -> str:
    r"""List the pieces of a model with their logarithmic probabilities.

    Example, the start of 30k-clean.vocab:
        "<pad>\t0\n<unk>\t0\n[CLS]\t0\n"

    Args:
        model: The content of a `.model` file.

    Returns:
        One line per piece in the order of ids, as `spm_train` writes it.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return "".join(f"{p.piece}\t{p.score:g}\n" for p in proto.pieces)


def run(settings: Options) -> None:
    """Train a vocabulary and write its two files.

    Raises:
        errors.UserError: See `train_model`; also for files that are missing or
            not UTF-8.
    """
    paths = corpus.find_files(corpus.CorpusOptions(settings.input_file))
    files.make_folder(os.path.dirname(settings.output_prefix), "output_prefix")
    sentences = Sentences(paths, lower=settings.do_lower_case)
    model = train_model(sentences, settings)
    model_file = f"{settings.output_prefix}.model"
    vocab_file = f"{settings.output_prefix}.vocab"
    files.write_text(vocab_file, readable_vocab(model))
    with files.replace_atomically(model_file) as stream:
        stream.write(model)
    tokenizer = tokenization.Tokenizer(model_file)  # Proves that it loads.
    if sentences.too_long:
        logging.warning(
            "%d sentences of more than %d bytes were left out",
            sentences.too_long,
            MAX_SENTENCE_BYTES,
        )
    logging.info("%d sentences read", sentences.count)
    logging.info(
        "%d pieces in %s, listed in %s",
        tokenizer.vocab_size,
        model_file,
        vocab_file,
    )


if __name__ == "__main__":
    options.run_script(run, Options)
