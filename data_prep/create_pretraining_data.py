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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

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
    shards,
    statistics,
    token_blocks,
    work_folder,
    writer_options,
)
from data_prep.writer_options import CreatePretrainingDataOptions

# Bytes of text in a block: at most this many blocks, within these sizes.
_BLOCKS = 512
_BLOCK_BYTES = 1 << 20, 1 << 24
# Tokens of a unit of instances, and positions of a part of records: a share of
# all, within these. Small ones need little memory, many ones much reading.
_UNITS = _PARTS = 1024
_UNIT_TOKENS = 1 << 20, 1 << 22
_PART_POSITIONS = 1 << 19, 1 << 22


def run(wanted: CreatePretrainingDataOptions) -> None:
    """Write the records that the options ask for.

    Raises:
        errors.UserError: Files are missing, unusable or in the way.
    """
    for name, value in sorted(options.to_dict(wanted).items()):
        logging.info("--%s=%s", name, value)
    outputs = writer_options.split_outputs(
        wanted.output_file, wanted.num_shards
    )
    inputs = corpus.find_files(wanted.text)
    writer_options.check_outputs(inputs, outputs)
    writer_options.warn(wanted)
    tokenizer = tokenization.load(wanted.vocabulary)
    rule = writer_options.choose_rule(wanted.word_start_rule, tokenizer)
    place = f"{outputs[0]}.work"
    identity = {
        "options": writer_options.content_options(options.to_dict(wanted)),
        "outputs": outputs,
        "vocabulary": tokenizer.fingerprint,
        "input": [writer_options.identity(path) for path in inputs],
    }
    if not (wanted.overwrite or work_folder.holds(place, identity)):
        writer_options.refuse_other_options(
            outputs, wanted, tokenizer.fingerprint
        )
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
        self.vocabulary = writer_options.make_vocabulary(
            self.tokenizer, self.rule
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
        everything = wanted.dupe_factor * sum(tokens for _, tokens in sizes)
        limit = _share(everything, _UNITS, _UNIT_TOKENS)
        for block, (_, tokens) in enumerate(sizes):
            size = max(1, limit // max(1, tokens))
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
            self.work.remove()
            raise errors.UserError(
                f"--output_file names {num_outputs} files, but the text gives "
                f"only {total} instances. Every file needs one. Name fewer "
                "files, or give more text."
            )
        positions = total * wanted.pairs.max_seq_length
        size = _share(positions, _PARTS, _PART_POSITIONS)
        bits = max(1, (positions // size).bit_length())
        counts = np.array([instances.count_keys(p, bits) for p in prefixes])
        self.parts = assemble.make_parts(counts)
        masker = None
        if wanted.masking_time == "writing":
            masker = masking.Masker(wanted.masks, self.vocabulary)
        self.assembler = assemble.Assembler(
            prefixes,
            counts,
            wanted.pairs.max_seq_length,
            wanted.pairs.num_special,
            self.vocabulary,
            masker,
            wanted.layout,
        )


def _share(everything: int, parts: int, limits: tuple[int, int]) -> int:
    """Return the size of one of so many parts, within limits."""
    low, high = limits
    return min(max(everything // parts, low), high)


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
    total = corpus.CorpusReader(inputs, options).total_bytes
    size = _share(total or 0, _BLOCKS, _BLOCK_BYTES)
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
    wanted = shared.wanted
    manifest = writer_options.make_manifest(
        wanted,
        shared.tokenizer,
        shared.rule,
        writer_options.Written(
            outputs, digests, counts, facts["inputs"], facts["counts"]
        ),
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
