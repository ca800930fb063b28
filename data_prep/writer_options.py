"""The options of the writer of pretraining data, and what they must not say.

`create_pretraining_data.py` and `beam_pretraining_data.py` share them, and the
manifest that both leave beside the records.
"""

import dataclasses
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np
from absl import logging

import albert_tf
from albert_tf import (
    errors,
    files,
    masking,
    options,
    records,
    tokenization,
)
from data_prep import corpus, segment_pairs, statistics

# Options that say nothing about the content of the records; the content of the
# vocabulary and the names of the outputs are compared on their own.
_NOT_CONTENT = frozenset(
    {
        *("overwrite", "num_workers", "vocab_file", "spm_model_file"),
        *("output_file", "num_shards"),
    }
)


@dataclasses.dataclass(frozen=True)
class CreatePretrainingDataOptions:
    """Options of this script; the names are the original's."""

    text: corpus.CorpusOptions
    output_file: str = options.option(
        help="TFRecord files to write, separated by commas, or one name that "
        "--num_shards makes several of. Names that end in .gz are packed."
    )
    num_shards: int | None = options.option(
        None,
        "Files to divide the records among: NAME-00000-of-00008 and so on.",
    )
    random_seed: int = options.option(12345, "Seed of every random draw.")
    dupe_factor: int = options.option(
        40, "Passes over the corpus, each with other pairs and masks."
    )
    masking_time: str = options.option(
        "writing",
        "writing: records hold masks, as the original's. training: they hold "
        "none; run_pretraining masks them afresh every time "
        "(--masked_lm_budget), so --dupe_factor=1 suffices.",
        choices=("writing", "training"),
    )
    word_start_rule: str | None = options.option(
        None,
        "Which pieces start a word. english: the original's, for text of the "
        "letters a to z. marker: those with SentencePiece's mark, for other "
        "alphabets. wordpiece: those without ##. Default: by the vocabulary.",
        choices=tuple(masking.WORD_START_RULES),
    )
    drop_duplicates: bool = options.option(
        False, "Leave out documents that were there before, word for word."
    )
    num_workers: int = options.option(0, "Processes; 0 is one per core.")
    overwrite: bool = options.option(
        False, "Replace outputs that were written with other options."
    )
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )
    pairs: segment_pairs.PairOptions = dataclasses.field(
        default_factory=segment_pairs.PairOptions
    )
    masks: masking.MaskingOptions = dataclasses.field(
        default_factory=masking.MaskingOptions
    )

    def __post_init__(self) -> None:
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
        if self.num_workers < 0:
            raise errors.UserError(
                f"--num_workers={self.num_workers} is below 0. Use 0 for one "
                "process per core, or a number from 1."
            )
        if self.num_shards is not None and self.num_shards < 1:
            raise errors.UserError(
                f"--num_shards={self.num_shards} is below 1. Use a number "
                "from 1."
            )
        if self.masking_time == "training" and self.masks.do_permutation:
            raise errors.UserError(
                "--do_permutation needs --masking_time=writing: masking in "
                "training does not permute. Drop one of the two."
            )
        self.vocabulary.require()

    @property
    def layout(self) -> records.Layout:
        """Layout of the records."""
        layout = records.pretraining_layout(
            self.pairs.max_seq_length, self.masks.record_predictions
        )
        if self.masking_time == "training":
            layout = records.without_masks(layout)
        return layout


def choose_rule(
    wanted: str | None, tokenizer: tokenization.AnyTokenizer
) -> str:
    """Return the rule of word starts that fits a vocabulary, and say so."""
    if wanted is not None:
        return wanted
    if not isinstance(tokenizer, tokenization.Tokenizer):
        rule, reason = "wordpiece", "the vocabulary is a WordPiece one"
    else:
        words = [p for p in tokenizer.pieces if p.startswith("▁") and p[1:]]
        english = sum(p[1:].isascii() for p in words) / max(1, len(words))
        rule = "english" if english > 0.5 else "marker"
        reason = f"{english:.0%} of the words in the vocabulary are ASCII"
    logging.info("--word_start_rule=%s, because %s.", rule, reason)
    return rule


def identity(path: str) -> list[Any]:
    """Return what shows that a file is still the same."""
    if path == corpus.STANDARD_INPUT or files.is_remote(path):
        return [path]
    status = os.stat(path)
    return [path, status.st_size, status.st_mtime_ns]


def split_outputs(output_file: str, num_shards: int | None) -> list[str]:
    """Return the files that the options name.

    Raises:
        errors.UserError: None is named, one is named twice, or several are
            named beside `num_shards`.
    """
    outputs = [path.strip() for path in output_file.split(",")]
    outputs = [path for path in outputs if path]
    if not outputs:
        raise errors.UserError(
            "--output_file is empty. Give one or more paths, separated by "
            "commas, for example --output_file=records/train.tfrecord."
        )
    if num_shards is not None:
        if len(outputs) > 1:
            raise errors.UserError(
                f"--output_file names {len(outputs)} files, and --num_shards="
                f"{num_shards} is given too. Name one file to be divided, or "
                "drop --num_shards."
            )
        name, gz = outputs[0], ""
        if name.endswith(".gz"):
            name, gz = name.removesuffix(".gz"), ".gz"
        outputs = [
            f"{name}-{shard:05d}-of-{num_shards:05d}{gz}"
            for shard in range(num_shards)
        ]
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


def check_outputs(inputs: Sequence[str], outputs: Sequence[str]) -> None:
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


def warn(wanted: CreatePretrainingDataOptions) -> None:
    """Say aloud what is allowed but probably not meant."""
    vocabulary = wanted.vocabulary
    if None not in (vocabulary.vocab_file, vocabulary.spm_model_file):
        logging.warning(
            "--vocab_file=%s is ignored: the vocabulary is in "
            "--spm_model_file.",
            vocabulary.vocab_file,
        )
    given = wanted.masks.max_predictions_per_seq
    full = round(wanted.pairs.max_seq_length * wanted.masks.masked_lm_prob)
    if given < full:
        logging.warning(
            "--max_predictions_per_seq=%d limits masking to %.1f %% of a full "
            "sequence. For --masked_lm_prob=%g at --max_seq_length=%d use "
            "--max_predictions_per_seq=%d. (The original's default is 20.)",
            given,
            100 * given / wanted.pairs.max_seq_length,
            wanted.masks.masked_lm_prob,
            wanted.pairs.max_seq_length,
            full,
        )


def content_options(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out the options that say nothing about the content."""
    return {k: v for k, v in values.items() if k not in _NOT_CONTENT}


def refuse_other_options(
    outputs: Sequence[str],
    wanted: CreatePretrainingDataOptions,
    vocab_sha256: str,
) -> None:
    """Protect finished records from a run with other options.

    Raises:
        errors.UserError: An output exists and was written with other options,
            another vocabulary, or by another program.
    """
    current = content_options(options.to_dict(wanted))
    names = tuple(os.path.basename(path) for path in outputs)
    for path in outputs:
        if not files.exists(path):
            continue
        manifest = records.find_manifest(path)
        if manifest is None:
            what = "and has no manifest that says how it was made"
        else:
            before = content_options(dict(manifest.options))
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


def make_vocabulary(
    tokenizer: tokenization.AnyTokenizer, rule: str
) -> masking.Vocabulary:
    """Return what masking needs to know about the pieces of a tokenizer."""
    return masking.Vocabulary.from_pieces(
        tokenizer.pieces,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        starts_word=masking.WORD_START_RULES[rule],
    )


@dataclasses.dataclass(frozen=True)
class Written:
    """What a writer has written.

    Attributes:
        outputs: The record files.
        digests: SHA-256 of each.
        counts: Of the records, see `statistics`.
        inputs: Path, size and sha256 of each text file.
        corpus: What was found in the text, counted.
    """

    outputs: Sequence[str]
    digests: Sequence[str]
    counts: statistics.Counts
    inputs: Sequence[dict[str, Any]]
    corpus: dict[str, int]


def make_manifest(
    wanted: CreatePretrainingDataOptions,
    tokenizer: tokenization.AnyTokenizer,
    rule: str,
    written: Written,
) -> records.Manifest:
    """Describe finished records.

    Args:
        wanted: The options.
        tokenizer: The vocabulary.
        rule: Which pieces start a word, see `choose_rule`.
        written: The files and what is in them.
    """
    length = wanted.pairs.max_seq_length
    return records.Manifest(
        shards=tuple(os.path.basename(path) for path in written.outputs),
        shard_bytes=records.shard_sizes(written.outputs),
        shard_sha256=tuple(written.digests),
        num_examples=written.counts["instances"],
        max_seq_length=length,
        max_predictions_per_seq=wanted.masks.record_predictions,
        has_masks=wanted.masking_time == "writing",
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.fingerprint,
        random_seed=wanted.random_seed,
        options=options.to_dict(wanted),
        word_start_rule=rule,
        inputs=tuple(written.inputs),
        corpus=written.corpus,
        summary=statistics.summarize(written.counts, length),
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "albert_tf": albert_tf.__version__,
            "sentencepiece": metadata.version("sentencepiece"),
        },
    )
