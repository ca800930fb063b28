r"""Turn raw text into TFRecords for pretraining.

Step 2 to 5 of the walk: documents, segment pairs, n-gram masking, records.

    python -m data_prep.create_pretraining_data \
        --input_file='corpus/*.txt' --output_file=records/train.tfrecord \
        --spm_model_file=vocab/30k-clean.model

With `--vocab_file=vocab/vocab_chinese.txt` instead, text is cut into WordPiece
pieces, as for the released Chinese models.

The input has one sentence a line and an empty line after each document. Two
runs with the same options, text and vocabulary write the same bytes.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import collections
import dataclasses
import platform
import random
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np
import tqdm
from absl import logging

import albert_tf
from albert_tf import errors, files, options, records, tokenization
from data_prep import documents, ngram_masking, segment_pairs

# Options that say nothing about the content of the records; the content of the
# vocabulary and the names of the outputs are compared on their own.
_NOT_CONTENT = frozenset(
    {"overwrite", "vocab_file", "spm_model_file", "output_file"}
)


@dataclasses.dataclass(frozen=True)
class CreatePretrainingDataOptions:
    """Options of this script; the names are the original's."""

    input_file: str = options.option(
        help="Text files: comma-separated paths or glob patterns; files that "
        "end in .gz or .xz are unpacked. One sentence a line, an empty line "
        "after each document."
    )
    output_file: str = options.option(
        help="TFRecord files to write, separated by commas; the records are "
        "dealt out to them in turn."
    )
    random_seed: int = options.option(12345, "Seed of every random draw.")
    dupe_factor: int = options.option(
        40, "Passes over the corpus, each with other pairs and masks."
    )
    overwrite: bool = options.option(
        False, "Replace outputs that were written with other options."
    )
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )
    pairs: segment_pairs.PairOptions = dataclasses.field(
        default_factory=segment_pairs.PairOptions
    )
    masking: ngram_masking.MaskingOptions = dataclasses.field(
        default_factory=ngram_masking.MaskingOptions
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: A value is out of range or a vocabulary missing.
        """
        if self.dupe_factor < 1:
            raise errors.UserError(
                f"--dupe_factor={self.dupe_factor} is too small. At least one "
                "pass over the corpus is needed. Use 1, or 40 as the original."
            )
        if not 0 <= self.random_seed < 2**32:
            raise errors.UserError(
                f"--random_seed={self.random_seed} is out of range. Allowed "
                "are 0 to 4294967295. Use 12345, the original's value."
            )
        self.vocabulary.require()


@dataclasses.dataclass
class Summary:
    """What was built, counted on the way.

    Attributes:
        documents: Documents of the corpus.
        sentences: Their sentences.
        instances: Records.
        label_1: Records with sentence-order label 1.
        lone: Records from chunks of a single sentence.
        tokens: Tokens of all records, special ones included, no padding.
        labels: How often each piece is to be predicted.
    """

    documents: int = 0
    sentences: int = 0
    instances: int = 0
    label_1: int = 0
    lone: int = 0
    tokens: int = 0
    labels: collections.Counter[int] = dataclasses.field(
        default_factory=collections.Counter
    )

    def lines(self, max_seq_length: int) -> list[str]:
        """Return the summary as lines of text.

        Args:
            max_seq_length: Length of every record, padding included.
        """
        instances, tokens = max(1, self.instances), max(1, self.tokens)
        padding = 1 - tokens / (instances * max_seq_length)
        predictions = self.labels.total()
        most_frequent = max(self.labels.values(), default=0)
        return [
            f"documents: {self.documents:,} with {self.sentences:,} sentences",
            f"instances: {self.instances:,}",
            f"sentence-order label 1: {self.label_1 / instances:.1%}",
            "single-sentence chunks, paired with a random segment: "
            f"{self.lone / instances:.1%}",
            f"predicted pieces: {predictions / tokens:.1%} of the tokens, "
            f"{predictions / instances:.1f} an instance",
            "accuracy of always predicting the most frequent piece: "
            f"{most_frequent / max(1, predictions):.1%}",
            f"padding: {padding:.1%} of the records",
        ]


class InstanceBuilder:
    """Builds the instances of a corpus, each already serialized."""

    def __init__(
        self,
        wanted: CreatePretrainingDataOptions,
        vocabulary: ngram_masking.Vocabulary,
    ) -> None:
        """Seed the generators and fix the layout.

        Args:
            wanted: The options of the run.
            vocabulary: Special ids and word starts.
        """
        self._pair_options = wanted.pairs
        self._dupe_factor = wanted.dupe_factor
        self._vocabulary = vocabulary
        self._masker = ngram_masking.Masker(wanted.masking, vocabulary)
        self._layout = records.pretraining_layout(
            wanted.pairs.max_seq_length, wanted.masking.record_predictions
        )
        self._num_predictions = wanted.masking.record_predictions
        # DIFFERS: the original leaves NumPy's generator unseeded, so that no
        # two runs agree (D1 of the specification).
        self._rng = random.Random(wanted.random_seed)
        self._length_rng = np.random.RandomState(wanted.random_seed)

    def build(
        self, corpus: list[documents.Document], summary: Summary
    ) -> list[bytes]:
        """Return the serialized instances of a corpus in their final order.

        The corpus is shuffled, gone through `dupe_factor` times, and the
        instances are shuffled.

        Args:
            corpus: Non-empty documents; their order is changed.
            summary: Counts to add to.
        """
        self._rng.shuffle(corpus)
        instances = []
        passes = tqdm.tqdm(
            range(self._dupe_factor * len(corpus)),
            desc="building",
            unit=" documents",
            disable=None,  # Only on a terminal.
        )
        for step in passes:
            pairs = segment_pairs.make_pairs(
                corpus, step % len(corpus), self._pair_options, self._rng
            )
            # Each pair is masked before the next one is drawn: both use the
            # same generator, in the original's order.
            for pair in pairs:
                instances.append(self._encode(pair, summary))
        self._rng.shuffle(instances)
        return instances

    def _encode(
        self, pair: segment_pairs.SegmentPair, summary: Summary
    ) -> bytes:
        """Mask one pair and serialize it, padded to the full length."""
        cls_id, sep_id = self._vocabulary.cls_id, self._vocabulary.sep_id
        tokens = [cls_id, *pair.first, sep_id, *pair.second, sep_id]
        masked = self._masker.mask(tokens, self._rng, self._length_rng)
        length, num_masked = len(tokens), len(masked.positions)
        summary.instances += 1
        summary.label_1 += pair.label
        summary.lone += pair.lone
        summary.tokens += length
        summary.labels.update(masked.labels)
        padding = [0] * (self._pair_options.max_seq_length - length)
        no_labels = [0] * (self._num_predictions - num_masked)
        in_first, in_second = len(pair.first) + 2, len(pair.second) + 1
        values = {
            "input_ids": masked.input_ids + padding,
            "input_mask": [1] * length + padding,
            "segment_ids": [0] * in_first + [1] * in_second + padding,
            "token_boundary": masked.token_boundary + padding,
            "masked_lm_positions": masked.positions + no_labels,
            "masked_lm_ids": masked.labels + no_labels,
            "masked_lm_weights": [1.0] * num_masked + no_labels,
            "next_sentence_labels": [pair.label],
        }
        return records.encode(self._layout, values)


def run(wanted: CreatePretrainingDataOptions) -> None:
    """Write the records that the options ask for.

    Args:
        wanted: All options of the script.

    Raises:
        errors.UserError: Files are missing, unusable or in the way.
    """
    for name, value in sorted(options.to_dict(wanted).items()):
        logging.info("--%s=%s", name, value)
    inputs = files.expand_patterns(wanted.input_file, "input_file")
    outputs = split_outputs(wanted.output_file)
    _check_outputs(inputs, outputs)
    _warn(wanted)
    tokenizer = tokenization.load(wanted.vocabulary)
    if not wanted.overwrite:
        _refuse_other_options(outputs, wanted, tokenizer.fingerprint)
    summary = Summary()
    with records.ShardedWriter(outputs) as writer:
        corpus = _read_corpus(inputs, tokenizer, summary)
        vocabulary = make_vocabulary(tokenizer)
        instances = InstanceBuilder(wanted, vocabulary).build(corpus, summary)
        if len(instances) < len(outputs):
            raise errors.UserError(
                f"--output_file names {len(outputs)} files, but the text gives "
                f"only {len(instances)} instances. Every file needs one. Name "
                "fewer files, or give more text."
            )
        for instance in instances:
            writer.write(instance)
        records.remove_manifests(outputs)
    manifest = _make_manifest(wanted, outputs, tokenizer, summary)
    path = records.write_manifest(outputs, manifest)
    for line in summary.lines(wanted.pairs.max_seq_length):
        logging.info("%s", line)
    logging.info("written: %s; described in %s", ", ".join(outputs), path)


def make_vocabulary(
    tokenizer: tokenization.AnyTokenizer,
) -> ngram_masking.Vocabulary:
    """Return what masking needs to know about the pieces of a tokenizer."""
    if isinstance(tokenizer, tokenization.Tokenizer):
        starts_word = ngram_masking.sentencepiece_starts_word
    else:
        starts_word = ngram_masking.wordpiece_starts_word
    return ngram_masking.Vocabulary.from_pieces(
        tokenizer.pieces,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        starts_word=starts_word,
    )


def split_outputs(output_file: str) -> list[str]:
    """Split `--output_file` at its commas.

    Raises:
        errors.UserError: It is empty or names a file twice.
    """
    outputs = [path.strip() for path in output_file.split(",")]
    outputs = [path for path in outputs if path]
    if not outputs:
        raise errors.UserError(
            "--output_file is empty. Give one or more paths, separated by "
            "commas, for example --output_file=records/train.tfrecord."
        )
    seen: set[str] = set()
    for path in outputs:
        if _canonical(path) in seen:
            raise errors.UserError(
                f"--output_file names {path} twice. Every output must be "
                "another file. Remove one of them."
            )
        seen.add(_canonical(path))
    return outputs


def _canonical(path: str) -> str:
    return path if files.is_remote(path) else os.path.realpath(path)


def _check_outputs(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Reject outputs that are inputs, folders or patterns."""
    sources = {_canonical(path) for path in inputs}
    for path in outputs:
        if _canonical(path) in sources:
            raise errors.UserError(
                f"--output_file={path} is also an input. The output must be "
                "another file. Choose another --output_file."
            )
        if any(character in path for character in "*?["):
            raise errors.UserError(
                f"--output_file={path} looks like a pattern. Outputs are plain "
                "paths, separated by commas. Write out the names."
            )
        if os.path.isdir(path) or path.endswith("/"):
            raise errors.UserError(
                f"--output_file={path} is a folder. The name of a file is "
                f"needed. Use {os.path.join(path, 'train.tfrecord')}."
            )


def _warn(wanted: CreatePretrainingDataOptions) -> None:
    vocabulary = wanted.vocabulary
    if None not in (vocabulary.vocab_file, vocabulary.spm_model_file):
        logging.warning(
            "--vocab_file=%s is ignored: the vocabulary is in "
            "--spm_model_file.",
            vocabulary.vocab_file,
        )
    given = wanted.masking.max_predictions_per_seq
    full = round(wanted.pairs.max_seq_length * wanted.masking.masked_lm_prob)
    if given < full:
        logging.warning(
            "--max_predictions_per_seq=%d limits masking to %.1f %% of a full "
            "sequence. For --masked_lm_prob=%g at --max_seq_length=%d use "
            "--max_predictions_per_seq=%d. (The original's default is 20.)",
            given,
            100 * given / wanted.pairs.max_seq_length,
            wanted.masking.masked_lm_prob,
            wanted.pairs.max_seq_length,
            full,
        )


def _content_options(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k not in _NOT_CONTENT}


def _refuse_other_options(
    outputs: Sequence[str],
    wanted: CreatePretrainingDataOptions,
    vocab_sha256: str,
) -> None:
    """Protect finished records from a run with other options.

    Raises:
        errors.UserError: An output exists and was written with other options,
            another vocabulary, or by another program.
    """
    current = _content_options(options.to_dict(wanted))
    names = tuple(os.path.basename(path) for path in outputs)
    for path in outputs:
        if not files.exists(path):
            continue
        manifest = records.find_manifest(path)
        if manifest is None:
            what = "and has no manifest that says how it was made"
        else:
            before = _content_options(dict(manifest.options))
            changed = [
                f"--{name} was {before.get(name)!r}, is now {value!r}"
                for name, value in sorted(current.items())
                if before.get(name) != value
            ]
            if manifest.vocab_sha256 != vocab_sha256:
                changed.append("the vocabulary file has another content")
            if manifest.shards != names:
                changed.append(f"--output_file named {list(manifest.shards)}")
            if not changed:
                continue
            what = "and was written with other options: " + "; ".join(changed)
        raise errors.UserError(
            f"--output_file={path} exists {what}. Only records made with the "
            "same options are replaced. Choose another --output_file, or add "
            "--overwrite to replace it."
        )


def _read_corpus(
    inputs: Sequence[str],
    tokenizer: tokenization.AnyTokenizer,
    summary: Summary,
) -> list[documents.Document]:
    """Read all documents into memory.

    Raises:
        errors.UserError: No file holds a usable document.
    """
    progress = tqdm.tqdm(
        documents.read_documents(inputs, tokenizer),
        desc="reading",
        unit=" documents",
        disable=None,  # Only on a terminal.
    )
    corpus = list(progress)
    summary.documents = len(corpus)
    summary.sentences = sum(len(document) for document in corpus)
    if not corpus:
        size = sum(records.shard_sizes(inputs))
        raise errors.UserError(
            f"--input_file holds no usable document: {len(inputs)} file(s), "
            f"{size:,} bytes, 0 sentences. At least one line of text is "
            "needed. Check that these are the right files: "
            f"{', '.join(inputs[:3])}"
        )
    return corpus


def _make_manifest(
    wanted: CreatePretrainingDataOptions,
    outputs: Sequence[str],
    tokenizer: tokenization.AnyTokenizer,
    summary: Summary,
) -> records.Manifest:
    return records.Manifest(
        shards=tuple(os.path.basename(path) for path in outputs),
        shard_bytes=records.shard_sizes(outputs),
        num_examples=summary.instances,
        max_seq_length=wanted.pairs.max_seq_length,
        max_predictions_per_seq=wanted.masking.record_predictions,
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.fingerprint,
        random_seed=wanted.random_seed,
        options=options.to_dict(wanted),
        versions={
            "python": platform.python_version(),
            "albert_tf": albert_tf.__version__,
            "sentencepiece": metadata.version("sentencepiece"),
        },
    )


if __name__ == "__main__":
    options.run_script(run, CreatePretrainingDataOptions)
