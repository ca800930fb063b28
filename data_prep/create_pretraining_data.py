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
end, so the same command, started again after an interruption, goes on (not with
standard input, which is read anew); the bytes are those of an undisturbed run,
whatever the number of workers.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf import (
    errors,
    files,
    masking,
    options,
    parallel,
    progress,
    random_streams,
    records,
    tokenization,
)
from data_prep import (
    assemble,
    corpus,
    data_card,
    instances,
    shards,
    statistics,
    token_blocks,
    work_folder,
    writer_options,
)
from data_prep.writer_options import CreatePretrainingDataOptions

# How the rooms cut their work. Text is cut into blocks, of whole documents; a
# block and some of the passes over it are a unit of instances; a range of keys,
# collected from all units, is a part of the records; parts fill up shards, the
# output files. None of the sizes changes the result.
#
# A piece is this share of everything, but not below the first limit, where the
# cost of a piece shows, nor above the second one, where its memory does.
_PIECES = {"block": 512, "unit": 1024, "part": 1024}
_BLOCK_BYTES = 1 << 20, 1 << 24
_UNIT_TOKENS = 1 << 20, 1 << 22
_PART_POSITIONS = 1 << 19, 1 << 22


def run(wanted: CreatePretrainingDataOptions) -> None:
    """Write the records that the options ask for.

    Raises:
        errors.UserError: Files are missing, unusable or in the way, or another
            run writes them.
    """
    for name, value in sorted(options.to_dict(wanted).items()):
        logging.info("--%s=%s", name, value)
    outputs = writer_options.split_outputs(
        wanted.output_file, wanted.num_shards
    )
    _refuse_remote(outputs)
    inputs = corpus.find_files(wanted.text)
    writer_options.check_outputs(inputs, outputs, wanted.output_file)
    writer_options.warn(wanted)
    tokenizer = tokenization.load(wanted.vocabulary)
    rule = writer_options.choose_rule(wanted.word_start_rule, tokenizer)
    for output in outputs:
        files.make_folder(os.path.dirname(output), "output_file")
    place = writer_options.work_place(wanted.output_file)
    with parallel.leave_when_told(), work_folder.hold(place) as work:
        _take_up(work, wanted, inputs, outputs, tokenizer.fingerprint)
        _write(_Shared(wanted, tokenizer, rule, work), inputs, outputs)


def _refuse_remote(outputs: Sequence[str]) -> None:
    for path in outputs:
        if files.is_remote(path):
            raise errors.UserError(
                f"--output_file={path} is not on this machine. Unfinished work "
                "is kept beside the output, so it must be in a local folder. "
                "Copy the finished files, or use "
                "data_prep.beam_pretraining_data."
            )


def _take_up(
    work: work_folder.WorkFolder,
    wanted: CreatePretrainingDataOptions,
    inputs: Sequence[str],
    outputs: Sequence[str],
    vocab_sha256: str,
) -> None:
    """Go on with unfinished work, or begin.

    Raises:
        errors.UserError: There is work of another job, or outputs of other
            options.
    """
    job = writer_options.make_job(wanted, inputs, outputs, vocab_sha256)
    before = work.job()
    changes = writer_options.job_changes(before, job) if before else []
    same_outputs = before is not None and before["outputs"] == job["outputs"]
    if changes and not wanted.overwrite:
        raise errors.UserError(
            f"--output_file: {work.path} holds unfinished work of another job: "
            f"{'; '.join(changes)}. Repeat those options to go on with it, "
            "remove the folder or add --overwrite to begin anew, or choose "
            "another --output_file."
        )
    if not (wanted.overwrite or same_outputs):
        writer_options.refuse_other_options(outputs, wanted, vocab_sha256)
    if changes or list(inputs) == [corpus.STANDARD_INPUT]:
        work.forget("")  # What was piped in may be another text now.
    elif before is not None:
        logging.info("Going on with the work in %s", work.path)
    if not same_outputs:
        work.forget("shard-")
    work.begin(job)


def _write(
    shared: "_Shared", inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Go through the three rooms."""
    wanted = shared.wanted
    workers = parallel.count(wanted.num_workers)
    logging.info("Using %d worker(s).", workers)
    with parallel.workers(workers, shared) as each:
        facts = _tokenize(inputs, each, shared)
    if wanted.drop_duplicates:
        _drop_duplicates(shared.work, facts)
    shared.open_corpus(facts["blocks"])
    with parallel.workers(workers, shared) as each:
        _build(each, shared)
    shared.open_units(len(outputs), facts["counts"])
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
        self.vocabulary = writer_options.make_vocabulary(
            self.tokenizer, self.rule
        )
        self.units: list[instances.Unit] = []
        self.parts: list[assemble.Part] = []

    def open_corpus(self, num_blocks: int) -> None:
        """Look at the finished blocks, and plan the units."""
        wanted, work = self.wanted, self.work
        paths = [work.block(index) for index in range(num_blocks)]
        sizes = [
            work_folder.known(_block_facts(work, i)) for i in range(num_blocks)
        ]
        self.corpus = token_blocks.StoredCorpus(
            paths, [size["documents"] for size in sizes]
        )
        self.builder = instances.Builder(
            self.corpus,
            wanted.pairs,
            self.vocabulary.boundaries.astype(bool),
            random_streams.derive(0, wanted.random_seed),
        )
        self.units = []
        tokens = [max(1, size["tokens"]) for size in sizes]
        unit_tokens = _piece_size(
            "unit", wanted.dupe_factor * sum(tokens), _UNIT_TOKENS
        )
        for block, block_tokens in enumerate(tokens):
            passes = max(1, unit_tokens // block_tokens)
            for first in range(0, wanted.dupe_factor, passes):
                end = min(first + passes, wanted.dupe_factor)
                number = len(self.units)
                self.units.append(instances.Unit(number, block, first, end))

    def open_units(self, num_outputs: int, counts: dict[str, int]) -> None:
        """Look at the finished units, and plan the parts.

        Args:
            num_outputs: Record files to be written.
            counts: Of the text; those of the units are added.
        """
        wanted = self.wanted
        for unit in self.units:
            found = work_folder.known(_unit_facts(self.work, unit))
            for name, value in found["counts"].items():
                counts[name] = counts.get(name, 0) + value
        prefixes = tuple(self.work.unit(u.number) for u in self.units)
        total = sum(instances.count_rows(prefix) for prefix in prefixes)
        writer_options.refuse_few_instances(num_outputs, total, counts, wanted)
        length = wanted.pairs.max_seq_length
        size = _piece_size("part", total * length, _PART_POSITIONS)
        bits = max(1, (total * length // size).bit_length())
        histograms = [instances.count_keys(p, bits) for p in prefixes]
        in_parts = np.array(histograms)
        self.parts = assemble.make_parts(in_parts)
        masker = None
        if wanted.masking_time == "writing":
            masker = masking.Masker(wanted.masks, self.vocabulary)
        self.assembler = assemble.Assembler(
            prefixes,
            in_parts,
            length,
            wanted.pairs.num_special,
            self.vocabulary,
            masker,
            wanted.layout,
        )


def _piece_size(piece: str, everything: int, limits: tuple[int, int]) -> int:
    """Return how much of everything goes into one piece."""
    low, high = limits
    return min(max(everything // _PIECES[piece], low), high)


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
    if facts is not None and all(
        _block_facts(work, index) for index in range(facts["blocks"])
    ):
        return facts
    work.forget("duplicates")  # Blocks that are made again have them all.
    options = shared.wanted.text
    total = corpus.CorpusReader(inputs, options).total_bytes
    size = _piece_size("block", total or 0, _BLOCK_BYTES)
    reader = corpus.CorpusReader(inputs, options, size)
    number = 0

    def unfinished() -> Iterator[corpus.Block]:
        nonlocal number
        for block in reader.read_blocks():
            number = block.index + 1
            if not _block_facts(work, block.index):
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
        work.remove()
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
    _save_block(shared.work, block.index, tokens)


def _save_block(
    work: work_folder.WorkFolder, index: int, block: token_blocks.TokenBlock
) -> None:
    written = token_blocks.save(block, work.block(index))
    sizes = {"documents": len(block), "tokens": len(block.tokens)}
    work.finish(f"block-{index:06d}", [written], sizes)


def _block_facts(
    work: work_folder.WorkFolder, index: int
) -> dict[str, Any] | None:
    """Return the sizes of a finished block, or None."""
    return work.finished(f"block-{index:06d}", [work.block(index)])


def _drop_duplicates(
    work: work_folder.WorkFolder, facts: dict[str, Any]
) -> None:
    """Take documents out of the blocks that were there before."""
    found = work.read("duplicates")
    if found is None:
        numbers = range(facts["blocks"])
        paths = [work.block(index) for index in numbers]
        for index, block in token_blocks.drop_duplicates(paths):
            _save_block(work, index, block)
        sizes = [work_folder.known(_block_facts(work, i)) for i in numbers]
        left = sum(size["documents"] for size in sizes)
        found = {"dropped": facts["counts"]["documents"] - left}
        work.write("duplicates", found)
    facts["counts"]["duplicate_documents"] = found["dropped"]
    logging.info("Left out as duplicates: %s documents.", found["dropped"])


# Second room: tokens to instances.


def _build(each: parallel.Map, shared: _Shared) -> None:
    """Write all units of instances that are not there yet."""
    todo = [unit for unit in shared.units if not _unit_facts(shared.work, unit)]
    done = len(shared.units) - len(todo)
    with progress.Progress("pairing", len(shared.units), "units") as shown:
        for _ in each(_build_unit, todo):
            done += 1
            shown.update(done)


def _build_unit(unit: instances.Unit) -> None:
    shared: _Shared = parallel.context()
    assert shared.builder
    built = shared.builder.build(unit)
    written = instances.save(shared.work.unit(unit.number), built)
    facts = {"counts": built.counts}
    shared.work.finish(f"unit-{unit.number:06d}", written, facts)


def _unit_facts(
    work: work_folder.WorkFolder, unit: instances.Unit
) -> dict[str, Any] | None:
    """Return the counts of a finished unit, or None."""
    paths = instances.paths(work.unit(unit.number))
    return work.finished(f"unit-{unit.number:06d}", paths)


# Third room: instances to records.


def _assemble(
    each: parallel.Map, shared: _Shared, outputs: Sequence[str]
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
    outputs: Sequence[str],
    facts: dict[str, Any],
    counts: statistics.Counts,
    digests: list[str],
) -> None:
    """Write manifest and data card to each folder, and clear up."""
    whole = writer_options.make_manifest(
        shared.wanted,
        shared.tokenizer,
        shared.rule,
        writer_options.Written(
            outputs, digests, counts, facts["inputs"], facts["counts"]
        ),
    )
    described = []
    for paths, manifest in writer_options.split_manifest(outputs, whole):
        described.append(data_card.write(paths[0], manifest, counts))
        described.append(records.write_manifest(paths, manifest))
    shared.work.remove()
    for line in data_card.lines(whole):
        logging.info("%s", line)
    writer_options.warn_of_cuts(whole)
    logging.info(
        "written: %s; described in %s", ", ".join(outputs), ", ".join(described)
    )


if __name__ == "__main__":
    options.run_script(run, CreatePretrainingDataOptions)
