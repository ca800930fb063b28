"""Train a vocabulary: raw text to PREFIX.model and PREFIX.vocab.

create_pretraining_data.py needs the result. The text has one sentence on each
line; empty lines are ignored. It is cleaned exactly as the tokenizer cleans it
later: PREFIX.normalization.json says how. Accents are kept where the language
needs them. The result depends on the text and the options only, not on the
machine.

    python data_prep/train_sentencepiece.py \
        --input_file='corpus/*.txt' --output_prefix=my-vocabulary

The special pieces take ids 0 to 12 as in the released 30k-clean.model.
"""

import dataclasses
import io
import pathlib
import re
import sys

import sentencepiece
from absl import logging
from sentencepiece import sentencepiece_model_pb2

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf.common import errors, options, ranges
from albert_tf.text import normalization, tokenization
from data_prep.vocabulary import text

# Source: the options for spm_train in the original's README, ids included.
USER_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]
RELEASED_SETTINGS = {
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": [tokenization.CLS, tokenization.SEP, tokenization.MASK],
    # A list: in a comma-separated string the quotation mark would open a quote.
    "user_defined_symbols": USER_SYMBOLS,
    "shuffle_input_sentence": True,
}
SMALLEST_VOCAB = len(tokenization.SPECIAL_PIECES) + len(USER_SYMBOLS) + 1
NUM_THREADS = 16  # Its default too. A part of the result: sums are rounded.


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(Data="vocab_size")
class Options(text.TrainingOptions):
    """Options of the script."""

    vocab_size: int = options.option(
        30000,
        "Number of pieces.",
        within=ranges.Range(SMALLEST_VOCAB, ranges.MOST_PIECES),
    )
    model_type: str = options.option(
        "unigram",
        "How pieces are chosen: unigram, as the original does, or bpe, by "
        "merging the most frequent pairs.",
        choices=("unigram", "bpe"),
    )
    byte_fallback: bool = options.option(
        False,
        "Give every byte a piece, and write characters without a piece as "
        "bytes instead of <unk>; 256 of the --vocab_size pieces.",
    )
    input_sentence_size: int = options.option(
        10000000,
        "Train on that many sentences, drawn by chance from a larger corpus; "
        "0 for all.",
        within=ranges.EXAMPLES_OR_NONE,
    )

    def __post_init__(self) -> None:
        if self.input_sentence_size != 0 and self.input_sentence_size <= 100:
            raise errors.UserError(
                f"`input_sentence_size={self.input_sentence_size}` is neither "
                "0 nor above 100. Use 0 for all sentences."
            )
        smallest = SMALLEST_VOCAB + 256
        if self.byte_fallback and self.vocab_size < smallest:
            raise errors.UserError(
                f"`vocab_size={self.vocab_size}` is too small for "
                f"`byte_fallback`, which needs {smallest} at least. Use more."
            )


def train_model(
    sentences: text.Sentences, settings: Options, coverage: float
) -> bytes:
    """Train a SentencePiece model; return the content of its file."""
    model = io.BytesIO()
    failure: RuntimeError | None = None
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=settings.vocab_size,
            model_type=settings.model_type,
            character_coverage=coverage,
            byte_fallback=settings.byte_fallback,
            input_sentence_size=settings.input_sentence_size,
            max_sentence_length=text.MAX_SENTENCE_BYTES,
            num_threads=NUM_THREADS,
            minloglevel=2,
            **RELEASED_SETTINGS,
        )
    except RuntimeError as error:
        failure = error
    if sentences.failure:
        raise sentences.failure
    if failure:
        raise _to_user_error(failure, sentences, settings) from failure
    return model.getvalue()


def _to_user_error(
    error: RuntimeError, sentences: text.Sentences, settings: Options
) -> Exception:
    """Turn SentencePiece's error about the text into a UserError.

    Another error is returned as it is.
    """
    if not sentences.count:
        dropped = [f"{n} {reason}" for reason, n in sentences.dropped.items()]
        return errors.UserError(
            f"`input_file={settings.input_file}` holds no sentence to learn "
            f"from; left out: {', '.join(dropped) or 'none'}. Give text with "
            "one sentence per line."
        )
    if match := re.search(r"too high .* <= (\d+)", str(error)):
        return errors.UserError(
            f"`vocab_size={settings.vocab_size}` is more than this text gives. "
            f"The largest possible value is {match[1]}. Use at most that, or "
            "more text."
        )
    if match := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
        return text.vocab_too_small_error(int(match[1]), settings.vocab_size)
    return error


def readable_vocab(model: bytes) -> str:
    r"""List the pieces of a model with their logarithmic probabilities.

    Example, the start of 30k-clean.vocab, as `spm_train` writes it:
        "<pad>\t0\n<unk>\t0\n[CLS]\t0\n"
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return "".join(f"{p.piece}\t{p.score:g}\n" for p in proto.pieces)


def run(settings: Options) -> None:
    endings = ".model", ".vocab"
    prepared = text.prepare(settings, normalization.SENTENCEPIECE, endings)
    sentences = text.Sentences(prepared.lines, text.make_cleaner(prepared.rule))
    model = train_model(sentences, settings, prepared.coverage)
    model_file = f"{settings.output_prefix}.model"
    listed = readable_vocab(model).encode()
    written = {model_file: model, f"{settings.output_prefix}.vocab": listed}
    normalization.write(model_file, prepared.rule, written)
    text.warn_of_dropped("sentences", sentences.dropped)
    logging.info("%d sentences read", sentences.count)
    if 0 < settings.input_sentence_size < sentences.count:
        logging.info(
            "--input_sentence_size=%d of them, drawn by chance, were used",
            settings.input_sentence_size,
        )
    prepared.report(model_file)


if __name__ == "__main__":
    options.run_script(run, Options)
