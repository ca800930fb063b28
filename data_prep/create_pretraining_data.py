r"""Turn text of any size into TFRecords for pretraining.

    python -m data_prep.create_pretraining_data \
        --input_file='corpus/*.txt' --output_file=records/train.tfrecord \
        --spm_model_file=vocab/30k-clean.model

With `--vocab_file=vocab/vocab_chinese.txt` instead, text is cut into WordPiece
pieces, as for the released Chinese models.

The input has one sentence a line and an empty line after each document. Three
rooms, each with all cores and little memory: text becomes blocks of tokens,
documents become instances sorted by random keys, instances become records in
the order of the keys. What a room has finished stays in `OUTPUT.work` until the
end, so the same command, started again after an interruption, goes on; the
bytes are those of an undisturbed run, whatever the number of workers.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
import platform
from collections.abc import Iterator, Sequence
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
    random_streams,
    records,
    tokenization,
)
from data_prep import (
    assemble,
    corpus,
    data_card,
    instances,
    parallel,
    progress,
    segment_pairs,
    shards,
    statistics,
    token_blocks,
    work_folder,
)

# Options that say nothing about the content of the records; the content of the
# vocabulary and the names of the outputs are compared on their own.
_NOT_CONTENT = frozenset(
    {
        *("overwrite", "num_workers", "vocab_file", "spm_model_file"),
        *("output_file", "num_shards"),
    }
)
# Bytes of text in a block: at most this many blocks, within these sizes.
_BLOCKS = 512
_BLOCK_BYTES = 1 << 20, 1 << 24
# Tokens that a unit of instances, and positions that a part of records holds.
_UNIT_TOKENS = 1 << 24
_PART_POSITIONS = 1 << 20


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


def run(wanted: CreatePretrainingDataOptions) -> None:
    """Write the records that the options ask for.

    Raises:
        errors.UserError: Files are missing, unusable or in the way.
    """
    for name, value in sorted(options.to_dict(wanted).items()):
        logging.info("--%s=%s", name, value)
    outputs = split_outputs(wanted.output_file, wanted.num_shards)
    inputs = corpus.find_files(wanted.text)
    _check_outputs(inputs, outputs)
    _warn(wanted)
    tokenizer = tokenization.load(wanted.vocabulary)
    rule = choose_rule(wanted.word_start_rule, tokenizer)
    place = f"{outputs[0]}.work"
    identity = {
        "options": _content_options(options.to_dict(wanted)),
        "outputs": outputs,
        "vocabulary": tokenizer.fingerprint,
        "input": [_identity(path) for path in inputs],
    }
    if not (wanted.overwrite or work_folder.holds(place, identity)):
        _refuse_other_options(outputs, wanted, tokenizer.fingerprint)
    for output in outputs:
        files.make_folder(os.path.dirname(output))
    work = work_folder.WorkFolder(place, identity)
    shared = _Shared(wanted, tokenizer, rule, work)
    workers = parallel.count(wanted.num_workers)
    logging.info("Using %d worker(s).", workers)
    with parallel.workers(workers, shared) as each:
        facts = _tokenize(inputs, each, shared)
    if wanted.drop_duplicates:
        _drop_duplicates(work, facts)
    shared.open_corpus(facts["blocks"])
    with parallel.workers(workers, shared) as each:
        _build(each, shared)
    shared.open_units(len(outputs))
    with parallel.workers(workers, shared) as each:
        counts, digests = _assemble(each, shared, outputs)
    _finish(shared, outputs, facts, counts, digests)


@dataclasses.dataclass
class _Shared:
    """What the workers of all rooms need."""

    wanted: CreatePretrainingDataOptions
    tokenizer: tokenization.AnyTokenizer
    rule: str
    work: work_folder.WorkFolder
    corpus: token_blocks.StoredCorpus | None = None
    builder: instances.Builder | None = None
    assembler: assemble.Assembler | None = None

    def __post_init__(self) -> None:
        self.vocabulary = masking.Vocabulary.from_pieces(
            self.tokenizer.pieces,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            mask_id=self.tokenizer.mask_id,
            starts_word=masking.WORD_START_RULES[self.rule],
        )
        self.units: list[instances.Unit] = []
        self.parts: list[assemble.Part] = []

    def open_corpus(self, num_blocks: int) -> None:
        """Look at the finished blocks, and plan the units."""
        wanted = self.wanted
        paths = [self.work.block(index) for index in range(num_blocks)]
        sizes = [token_blocks.load_sizes(path) for path in paths]
        self.corpus = token_blocks.StoredCorpus(
            paths, [documents for documents, _ in sizes]
        )
        self.builder = instances.Builder(
            self.corpus,
            wanted.pairs,
            self.vocabulary.boundaries.astype(bool),
            random_streams.derive(0, wanted.random_seed),
        )
        self.units = []
        for block, (_, tokens) in enumerate(sizes):
            size = max(1, _UNIT_TOKENS // max(1, tokens))
            for first in range(0, wanted.dupe_factor, size):
                end = min(first + size, wanted.dupe_factor)
                number = len(self.units)
                self.units.append(instances.Unit(number, block, first, end))

    def open_units(self, num_outputs: int) -> None:
        """Look at the finished units, and plan the parts.

        Raises:
            errors.UserError: There are fewer instances than files.
        """
        wanted = self.wanted
        prefixes = tuple(self.work.unit(u.number) for u in self.units)
        total = sum(instances.count_rows(prefix) for prefix in prefixes)
        if total < num_outputs:
            raise errors.UserError(
                f"--output_file names {num_outputs} files, but the text gives "
                f"only {total} instances. Every file needs one. Name fewer "
                "files, or give more text."
            )
        size = _PART_POSITIONS // wanted.pairs.max_seq_length
        bits = max(1, int(total // max(1, size)).bit_length())
        self.parts = assemble.make_parts(
            [instances.count_keys(prefix, bits) for prefix in prefixes]
        )
        masker = None
        if wanted.masking_time == "writing":
            masker = masking.Masker(wanted.masks, self.vocabulary)
        self.assembler = assemble.Assembler(
            prefixes,
            wanted.pairs.max_seq_length,
            wanted.pairs.num_special,
            self.vocabulary,
            masker,
            wanted.layout,
        )


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


def _identity(path: str) -> list[Any]:
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


# First room: text to tokens.


def _tokenize(
    inputs: Sequence[str], each: parallel.Map, shared: _Shared
) -> dict[str, Any]:
    """Write all blocks that are not there yet; return what was found.

    Raises:
        errors.UserError: There is no usable document.
    """
    work = shared.work
    facts = work.read("text")
    if facts is not None:
        return facts
    options = shared.wanted.text
    low, high = _BLOCK_BYTES
    total = corpus.CorpusReader(inputs, options).total_bytes
    size = min(max((total or high) // _BLOCKS, low), high)
    reader = corpus.CorpusReader(inputs, options, size)
    number = 0

    def unfinished() -> Iterator[corpus.Block]:
        nonlocal number
        for block in reader.read_blocks():
            number = block.index + 1
            if not os.path.exists(work.block(block.index)):
                yield block

    with progress.Progress("tokenizing", total, "B") as shown:
        for _ in each(_tokenize_block, unfinished()):
            shown.update(reader.bytes_read)
    counts = {"documents_cut": reader.documents_cut}
    for index in range(number):
        found = token_blocks.load(work.block(index)).facts
        for name, value in found.items():
            counts[name] = counts.get(name, 0) + value
    if not counts.get("documents"):
        raise errors.UserError(
            f"--input_file holds no usable document: {len(inputs)} file(s), "
            f"{sum(f.size for f in reader.files):,} bytes, 0 sentences; "
            f"{counts.get('lines_skipped', 0)} bad line(s) skipped. At least "
            "one line of text is needed. Check that these are the right "
            f"files: {', '.join(inputs[:3])}"
        )
    files_read = [dataclasses.asdict(file) for file in reader.files]
    facts = {"blocks": number, "inputs": files_read, "counts": counts}
    work.write("text", facts)
    return facts


def _tokenize_block(block: corpus.Block) -> None:
    shared: _Shared = parallel.context()
    lines, facts = corpus.decode_lines(block, shared.wanted.text)
    tokens = token_blocks.tokenize(lines, shared.tokenizer, facts)
    token_blocks.save(tokens, shared.work.block(block.index))


def _drop_duplicates(
    work: work_folder.WorkFolder, facts: dict[str, Any]
) -> None:
    """Take documents out of the blocks that were there before."""
    paths = [work.block(index) for index in range(facts["blocks"])]
    if work.read("duplicates") is None:
        token_blocks.drop_duplicates(paths)
        left = sum(len(token_blocks.load(path)) for path in paths)
        dropped = facts["counts"]["documents"] - left
        work.write("duplicates", {"dropped": dropped})
    found = work.read("duplicates") or {}
    facts["counts"]["duplicate_documents"] = found["dropped"]
    logging.info("Left out as duplicates: %s documents.", found["dropped"])


# Second room: tokens to instances.


def _build(each: parallel.Map, shared: _Shared) -> None:
    """Write all units of instances that are not there yet."""
    todo = [
        unit
        for unit in shared.units
        if not instances.exists(shared.work.unit(unit.number))
    ]
    done = len(shared.units) - len(todo)
    with progress.Progress("pairing", len(shared.units), "units") as shown:
        for _ in each(_build_unit, todo):
            done += 1
            shown.update(done)


def _build_unit(unit: instances.Unit) -> None:
    shared: _Shared = parallel.context()
    assert shared.builder
    rows, tokens = shared.builder.build(unit)
    instances.save(shared.work.unit(unit.number), rows, tokens)


# Third room: instances to records.


def _assemble(
    each: parallel.Map, shared: _Shared, outputs: list[str]
) -> tuple[statistics.Counts, list[str]]:
    """Write all shards that are not there yet; return counts and SHA-256."""
    total = sum(part.num_records for part in shared.parts)
    writer = shards.ShardWriter(outputs, total, shared.work)
    if writer.first_record == 0:
        records.remove_manifests(outputs)
    todo = [
        part
        for part in shared.parts
        if part.first_record + part.num_records > writer.first_record
    ]
    try:
        with progress.Progress("writing", total, "examples") as shown:
            for encoded in each(_encode_part, todo):
                writer.write(encoded)
                part = encoded.part
                shown.update(part.first_record + part.num_records)
    finally:
        writer.close()
    return writer.totals()


def _encode_part(part: assemble.Part) -> assemble.Encoded:
    shared: _Shared = parallel.context()
    assert shared.assembler
    return shared.assembler.encode(part)


def _finish(
    shared: _Shared,
    outputs: list[str],
    facts: dict[str, Any],
    counts: statistics.Counts,
    digests: list[str],
) -> None:
    """Write manifest and data card, and clear up."""
    wanted, tokenizer = shared.wanted, shared.tokenizer
    summary = statistics.summarize(counts, wanted.pairs.max_seq_length)
    manifest = records.Manifest(
        shards=tuple(os.path.basename(path) for path in outputs),
        shard_bytes=records.shard_sizes(outputs),
        shard_sha256=tuple(digests),
        num_examples=counts["instances"],
        max_seq_length=wanted.pairs.max_seq_length,
        max_predictions_per_seq=wanted.masks.record_predictions,
        has_masks=wanted.masking_time == "writing",
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.fingerprint,
        random_seed=wanted.random_seed,
        options=options.to_dict(wanted),
        word_start_rule=shared.rule,
        inputs=facts["inputs"],
        corpus=facts["counts"],
        summary=summary,
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "albert_tf": albert_tf.__version__,
            "sentencepiece": metadata.version("sentencepiece"),
        },
    )
    card = data_card.write(outputs[0], manifest, counts)
    path = records.write_manifest(outputs, manifest)
    shared.work.remove()
    for line in data_card.lines(manifest):
        logging.info("%s", line)
    logging.info(
        "written: %s; described in %s and %s", ", ".join(outputs), path, card
    )


if __name__ == "__main__":
    options.run_script(run, CreatePretrainingDataOptions)
