"""The options of the writer of pretraining data, and what they must not say.

`create_pretraining_data.py` and `beam_pretraining_data.py` share them, and the
manifest that both leave beside the records.
"""

import dataclasses
import glob
import os
import platform
import re
from collections.abc import Mapping, Sequence
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
    ranges,
    records,
    tokenization,
)
from data_prep import assemble, corpus, segment_pairs, statistics

# Options that say nothing about the content of the records; the content of the
# vocabulary and the names of the outputs are compared on their own.
_NOT_CONTENT = frozenset(
    {
        *("overwrite", "num_workers", "vocab_file", "spm_model_file"),
        *("output_file", "num_shards"),
    }
)
# Up to which share of the tokens, or how many of each instance, nobody needs to
# be told that they are cut.
_USUAL_SHARE_CUT, _USUAL_TOKENS_CUT = 0.05, 32
# What `--num_shards` appends to a name.
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}(\.gz)?$")


@dataclasses.dataclass(frozen=True)
@options.checked
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
        within=ranges.Range(1, 10**5 - 1),
    )
    random_seed: int = options.option(
        12345, "Seed of every random draw.", within=ranges.WRITER_SEED
    )
    dupe_factor: int = options.option(
        40,
        "Passes over the corpus, each with other pairs and masks.",
        within=ranges.Range(1, 10**4),
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
    num_workers: int = options.option(
        0, "Processes; 0 is one per core.", within=ranges.PROCESSES
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
    masks: masking.MaskingOptions = dataclasses.field(
        default_factory=masking.MaskingOptions
    )

    def __post_init__(self) -> None:
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


def make_job(
    wanted: CreatePretrainingDataOptions,
    inputs: Sequence[str],
    outputs: Sequence[str],
    vocab_sha256: str,
) -> dict[str, Any]:
    """Return what unfinished work follows from, as JSON values."""
    return {
        "options": content_options(options.to_dict(wanted)),
        "vocabulary": vocab_sha256,
        "inputs": {path: _identity(path) for path in inputs},
        "outputs": [_canonical(path) for path in outputs],
    }


def _identity(path: str) -> list[int]:
    """Return what shows that a file is still the same."""
    if path == corpus.STANDARD_INPUT:
        return []
    return list(files.size_and_time(path))


def job_changes(before: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """Say in which ways two jobs of `make_job` have not the same instances."""
    changed = _changed_options(before["options"], job["options"])
    if before["vocabulary"] != job["vocabulary"]:
        changed.append("the vocabulary file had another content")
    then, now = before["inputs"], job["inputs"]
    if then.keys() != now.keys():
        changed.append(f"--input_file gave {len(then)} file(s), or others")
    changed += [
        f"the input file {path} was changed"
        for path in then.keys() & now.keys()
        if then[path] != now[path]
    ]
    return changed


def _changed_options(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"--{name} was {before.get(name)!r}, is now {value!r}"
        for name, value in sorted(now.items())
        if before.get(name) != value
    ]


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


def work_place(output_file: str) -> str:
    """Return the folder for unfinished work, whatever the number of shards."""
    return f"{output_file.split(',')[0].strip()}.work"


def check_outputs(
    inputs: Sequence[str], outputs: Sequence[str], output_file: str
) -> None:
    """Reject outputs that are inputs, patterns, or no files.

    Args:
        inputs: The text files.
        outputs: The record files.
        output_file: The option that named these.

    Raises:
        errors.UserError: One of them is; an input was written by this program;
            or other shards of the same name are there.
    """
    for path in outputs:
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
        for ending in ("", *files.BESIDE_RECORDS):
            files.require_replaceable(path + ending, "output_file")
    _refuse_own_files(inputs, outputs, output_file)
    _refuse_other_shards(outputs)


def _refuse_own_files(
    inputs: Sequence[str], outputs: Sequence[str], output_file: str
) -> None:
    """Keep a pattern of inputs from reading what was written."""
    own = {
        _canonical(path) + ending
        for path in outputs
        for ending in ("", *files.BESIDE_RECORDS)
    }
    work = os.path.join(_canonical(work_place(output_file)), "")
    for path in inputs:
        if _canonical(path) in own or _canonical(path).startswith(work):
            raise errors.UserError(
                f"--input_file: {path} is also an input, but it is "
                f"--output_file={output_file} or belongs to it. Inputs must be "
                "other files. Choose another --output_file, in a folder of its "
                "own, or a narrower --input_file."
            )


def _refuse_other_shards(outputs: Sequence[str]) -> None:
    """Keep shards of two sets from being read as one."""
    for stem in dict.fromkeys(_SHARD.sub("", path) for path in outputs):
        if stem in outputs:
            continue  # No shard.
        pattern = glob.escape(stem) + "-[0-9]*"
        others = [
            path
            for path in sorted(_find(pattern))
            if _SHARD.sub("", path) == stem
            and _SHARD.search(path)
            and path not in outputs
        ]
        if others:
            raise errors.UserError(
                f"--output_file: {others[0]} is a shard of another set, one of "
                f"{len(others)}. Beside the new ones it would be read again by "
                f"the pattern {stem}-*. Remove these files, or choose another "
                "--output_file."
            )


def _find(pattern: str) -> list[str]:
    try:
        return files.expand_patterns(pattern, "output_file")
    except errors.UserError:
        return []  # Nothing is there.


def warn(wanted: CreatePretrainingDataOptions) -> None:
    """Say aloud what is allowed but probably not meant."""
    vocabulary = wanted.vocabulary
    if None not in (vocabulary.vocab_file, vocabulary.spm_model_file):
        logging.warning(
            "--vocab_file=%s is ignored: the vocabulary is in "
            "--spm_model_file.",
            vocabulary.vocab_file,
        )
    if wanted.masking_time == "training":
        _warn_of_masks(wanted.masks)
        return
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


def _warn_of_masks(masks: masking.MaskingOptions) -> None:
    """Say which options decide nothing because training masks."""
    default, given = masking.MaskingOptions(), options.to_dict(masks)
    unused = [
        f"--{name}={value}"
        for name, value in given.items()
        if value != options.to_dict(default)[name]
    ]
    if unused:
        logging.warning(
            "%s: not used, because --masking_time=training leaves the masks "
            "to run_pretraining. Give it there.",
            ", ".join(unused),
        )


def warn_of_cuts(manifest: records.Manifest) -> None:
    """Say aloud that much of the text is in no record.

    A sequence is filled with whole sentences until it is full, so half of one
    is cut: 17 tokens of English Wikipedia, 13 % at `max_seq_length` 128 and 3 %
    at 512. The next pass cuts elsewhere. Of overlong sentences more is lost.
    """
    share = manifest.summary["share_of_tokens_cut"]
    each = manifest.corpus["tokens_cut"] / max(1, manifest.summary["instances"])
    if share > _USUAL_SHARE_CUT and each > _USUAL_TOKENS_CUT:
        logging.warning(
            "--max_seq_length=%d cuts %.1f %% of the tokens off, %.0f of each "
            "instance; 10 to 20 are usual. Each line of the input should be a "
            "sentence. Cut longer ones with data_prep/split_sentences.py, or "
            "use longer sequences.",
            manifest.max_seq_length,
            100 * share,
            each,
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
    for path in outputs:
        if not files.exists(path):
            continue
        names = _names_beside(path, outputs)
        manifest = records.find_manifest(path)
        if manifest is None:
            what = "and has no manifest that says how it was made"
        else:
            before = content_options(dict(manifest.options))
            changed = _changed_options(before, current)
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


def _names_beside(path: str, outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the outputs in the folder of one of them."""
    folder = os.path.dirname(path)
    found = [p for p in outputs if os.path.dirname(p) == folder]
    return tuple(os.path.basename(p) for p in found)


def refuse_few_instances(
    num_outputs: int,
    num_instances: int,
    counts: Mapping[str, int],
    wanted: CreatePretrainingDataOptions,
) -> None:
    """Make sure that every output gets a record.

    Args:
        num_outputs: Record files.
        num_instances: Of the whole text, in all passes.
        counts: What was found in the text, as far as it is known.
        wanted: The options.

    Raises:
        errors.UserError: There are fewer instances than files.
    """
    if num_instances >= num_outputs:
        return
    found = "".join(
        f"; {name.replace('_', ' ')}: {counts[name]:,}"
        for name in ("documents", "unused_documents", "unused_chunks")
        if name in counts
    )
    raise errors.UserError(
        f"--output_file names {num_outputs} files, but the text gives only "
        f"{num_instances} instances in {wanted.dupe_factor} pass(es){found}. "
        "Every file needs one, and an instance needs two sentences or one that "
        "can be cut at the start of a word (--single_segment_policy="
        f"{wanted.pairs.single_segment_policy}). Name fewer files, or give "
        "more text."
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
        summary=statistics.summarize(written.counts, length, written.corpus),
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "albert_tf": albert_tf.__version__,
            "sentencepiece": metadata.version("sentencepiece"),
        },
    )


def split_manifest(
    outputs: Sequence[str], manifest: records.Manifest
) -> list[tuple[list[str], records.Manifest]]:
    """Return, for each folder, its record files and their own manifest.

    Counts and distributions in it stay those of all files together.

    Args:
        outputs: All record files; records are divided evenly among them.
        manifest: Of all of them.
    """
    bounds = assemble.divide_evenly(manifest.num_examples, len(outputs))
    sizes = np.diff(bounds)
    found = []
    for folder in dict.fromkeys(map(os.path.dirname, outputs)):
        own = [i for i, p in enumerate(outputs) if os.path.dirname(p) == folder]
        part = dataclasses.replace(
            manifest,
            shards=tuple(manifest.shards[i] for i in own),
            shard_bytes=tuple(manifest.shard_bytes[i] for i in own),
            shard_sha256=tuple(manifest.shard_sha256[i] for i in own),
            num_examples=int(sizes[own].sum()),
        )
        found.append(([outputs[i] for i in own], part))
    return found
