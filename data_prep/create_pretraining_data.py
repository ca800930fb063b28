r"""Turn text of any size into TFRecords for pretraining.

    python -m data_prep.create_pretraining_data \
        --input_file='corpus/*.txt' --output_file=records/train.tfrecord \
        --spm_model_file=vocab/30k-clean.model

With `--vocab_file=vocab/vocab_chinese.txt` instead, text is divided into
WordPiece pieces, as for the released Chinese models.

The input has one sentence a line and an empty line after each document. There
are three stages: `tokenize` turns text into blocks of tokens, `build_instances`
turns documents into instances sorted by random keys, and `write_records` turns
instances into records in the order of the keys. Each uses all cores and little
memory, and keeps finished work in `OUTPUT.work` until the end. After an
interruption the same command continues with it (standard input is read again).
The bytes of the records depend neither on interruptions nor on the number of
workers.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from albert_tf.common import (
    cluster,
    errors,
    files,
    options,
    outputs,
    parallel,
    preemption,
    progress,
    random_streams,
)
from albert_tf.data import manifests, masking
from data_prep.writer import (
    assemble,
    checksums,
    corpus,
    decoding,
    instances,
    output_files,
    passages,
    record_manifest,
    same_job,
    shards,
    statistics,
    text_lines,
    token_blocks,
    units,
    word_starts,
    work_folder,
    writer_options,
)
from data_prep.writer.writer_options import CreatePretrainingDataOptions

# How the stages divide their work. Text is cut into blocks of whole documents.
# Some passes over a block, or over several, are a unit of instances. A range of
# keys, collected from all units, is a part of the records. None of the sizes
# changes the result, except with --cross_documents: passages end with a block.
#
# A piece is this share of everything, but not below the first limit, where
# overhead shows, nor above the second one, where memory does.
_PIECES = {"block": 512, "unit": 1024, "part": 1024}
_BLOCK_BYTES = 1 << 20, 1 << 24
_UNIT_TOKENS = 1 << 20, 1 << 22
_PART_POSITIONS = 1 << 19, 1 << 22
# Every part reads from every unit. So units and parts, unlike blocks, have no
# bound of their size where there would be more of them.
_MOST_UNITS = _MOST_PARTS = 4096
# Written to the work folder after an error of the user: a bad line, say.
_REFUSED = "refused"


def run(settings: CreatePretrainingDataOptions) -> None:
    vocabulary = settings.vocabulary.resolved()
    settings = dataclasses.replace(settings, vocabulary=vocabulary)
    for name, value in sorted(options.to_dict(settings).items()):
        logging.info("--%s=%s", name, value)
    prepared = writer_options.prepare(settings)
    for output in prepared.outputs:
        files.make_folder(os.path.dirname(output), "output_file")
    path = output_files.work_folder_path(settings.output_file)
    if settings.dask_scheduler:
        path = os.path.abspath(path)  # Workers have other current folders.
    with preemption.exiting_at_once(), work_folder.hold(path) as work:
        _prepare_work(work, settings, prepared)
        with _open_workers(settings, path) as workers, _recording_refusal(work):
            job = Job(settings, prepared, workers, work)
            text = tokenize(job)
            rule = word_starts.choose_rule(
                settings.word_start_rule,
                settings.word_segmenter,
                prepared.tokenizer,
                text.counts,
            )
            job = dataclasses.replace(job, rule=rule)
            word_starts.warn_of_misfit(text.counts, prepared.tokenizer)
            stored = build_instances(job, text)
            written = write_records(job, text, stored)
        _write_descriptions(job, written)


def _prepare_work(
    work: work_folder.WorkFolder,
    settings: CreatePretrainingDataOptions,
    prepared: writer_options.Prepared,
) -> None:
    """Continue unfinished work, or begin anew; refuse work of another job."""
    vocab_sha256 = prepared.tokenizer.fingerprint
    inputs = [*prepared.inputs, *settings.unit_files.values()]
    job = same_job.describe(settings, inputs, prepared.outputs, vocab_sha256)
    earlier = work.job()
    changes = same_job.changes(earlier, job) if earlier else []
    same_outputs = earlier is not None and earlier["outputs"] == job["outputs"]
    # Then nothing can go on with it: it may be another text now.
    was_piped = earlier is not None and (
        text_lines.STANDARD_INPUT in earlier["inputs"]
    )
    can_continue = work.has_finished_work() and work.read(_REFUSED) is None
    can_continue = can_continue and not was_piped
    if can_continue and not settings.overwrite:
        outputs.require_same(
            f"`output_file`: {work.path} holds unfinished work of another job",
            changes,
            "Repeat those options to go on with it, remove the folder or add "
            "`overwrite` to begin anew, or choose another `output_file`.",
        )
    if not (settings.overwrite or (same_outputs and not changes)):
        same_job.refuse_other_options(prepared.outputs, settings, vocab_sha256)
    if changes or was_piped:
        work.remove_files("")
    elif earlier is not None:
        logging.info("Going on with the work in %s", work.path)
    if not same_outputs:
        work.remove_files("shard-")
    work.remove_files(_REFUSED)
    work.begin(job)


@contextlib.contextmanager
def _open_workers(
    settings: CreatePretrainingDataOptions, folder: str
) -> Iterator[parallel.OpenMap]:
    """Yield a function that opens a map over processes here or on a cluster."""
    if settings.dask_scheduler:
        with cluster.connect(settings.dask_scheduler, folder) as client:
            logging.info(
                "Using %d worker(s) of %s.",
                len(client.nthreads()),
                settings.dask_scheduler,
            )
            yield functools.partial(cluster.workers, client)
        return
    count = parallel.resolve(settings.num_workers)
    logging.info("Using %d worker(s).", count)
    yield functools.partial(parallel.workers, count)


@contextlib.contextmanager
def _recording_refusal(work: work_folder.WorkFolder) -> Iterator[None]:
    """Record a user's error, so that another job may use the folder."""
    try:
        yield
    except parallel.WorkerEndedError:
        raise
    except errors.UserError:
        work.write(_REFUSED, {})
        raise


@dataclasses.dataclass(frozen=True)
class Job:
    """The options, inputs and workers that all stages use."""

    settings: CreatePretrainingDataOptions
    prepared: writer_options.Prepared
    workers: parallel.OpenMap  # Opens a map, see `parallel.workers`.
    work: work_folder.WorkFolder
    rule: str = ""  # Where words start; known when all text has been read.

    @functools.cached_property
    def vocabulary(self) -> masking.Vocabulary:
        """The properties of the pieces that masking needs."""
        return word_starts.make_vocabulary(self.prepared.tokenizer, self.rule)


class TokenizedText(NamedTuple):
    """The blocks that `tokenize` wrote to the work folder."""

    num_documents: list[int]  # Of each block.
    num_tokens: list[int]  # Of each block.
    inputs: list[dict[str, Any]]  # Path, size and sha256 of each text file.
    counts: dict[str, int]  # Of documents, sentences and so on in the text.


class StoredInstances(NamedTuple):
    """The instances that `build_instances` wrote to the work folder."""

    prefixes: tuple[str, ...]  # Files of each unit, see `instances`.
    counts: dict[str, int]  # Those of the text, and `instances.COUNTS`.


def _piece_size(piece: str, everything: int, limits: tuple[int, int]) -> int:
    """Return the size of one block, unit or part, given that of all."""
    low, high = limits
    return min(max(everything // _PIECES[piece], low), high)


# Stage 1: text to blocks of tokens. -------------------------------------------


def tokenize(job: Job) -> TokenizedText:
    """Turn the text into blocks of tokens, without duplicates if wanted."""
    work = job.work
    record = work.read("text")
    if (
        record is None
        or not all(_read_block(work, i) for i in range(record["blocks"]))
        or any(files.sha256(f["path"]) != f["sha256"] for f in record["inputs"])
    ):
        work.remove_files("duplicates")  # New blocks hold duplicates again.
        record = _write_blocks(job)
        work.write("text", record)
    counts = dict(record["counts"])
    if job.settings.drop_duplicates:
        dropped = _drop_duplicates(work, record["blocks"], counts["documents"])
        counts["duplicate_documents"] = dropped
        logging.info("Left out as duplicates: %s documents.", dropped)
    sizes = _block_sizes(work, record["blocks"])
    return TokenizedText(
        [size["documents"] for size in sizes],
        [size["tokens"] for size in sizes],
        record["inputs"],
        counts,
    )


def _write_blocks(job: Job) -> dict[str, Any]:
    """Write the blocks that are not finished; return counts of the text.

    If the text of a block has changed, although its file has the same size and
    time, all blocks from there on are written again, and later work is removed.
    """
    work, settings = job.work, job.settings.text
    total = corpus.CorpusReader(job.prepared.inputs, settings).total_bytes
    size = _piece_size("block", total or 0, _BLOCK_BYTES)
    reader = corpus.CorpusReader(job.prepared.inputs, settings, size)
    indices = []

    def unfinished_blocks() -> Iterator[corpus.Block]:
        is_changed = False
        for block in reader.read_blocks():
            indices.append(block.index)
            record = None if is_changed else _read_block(work, block.index)
            if (
                record
                and record["text"] != checksums.of_bytes(block.text).crc32c
            ):
                logging.warning("%s was changed: begun anew.", block.path)
                is_changed, record = True, None
                work.remove_files("unit-")
                work.remove_files("shard-")
            if not record:
                yield block

    shared = (
        settings,
        job.prepared.tokenizer,
        job.settings.word_segmenter,
        job.prepared.marking,
        work,
    )
    with (
        job.workers(shared) as map_blocks,
        progress.Progress("tokenizing", total, "B") as bar,
    ):
        for _ in map_blocks(_tokenize_block, unfinished_blocks()):
            bar.update(reader.bytes_read)
    counts = {"documents_cut": reader.documents_cut}
    for index in indices:
        block_counts = token_blocks.load(work.block_path(index)).counts
        counts = statistics.add(counts, block_counts)
    if not counts.get("documents"):
        raise _no_document_error(reader, counts)
    _require_units(job.settings, counts)
    inputs = reader.files
    return {"blocks": len(indices), "inputs": inputs, "counts": counts}


def _require_units(
    settings: CreatePretrainingDataOptions, counts: dict[str, int]
) -> None:
    """Refuse files of phrases or entities none of which is in the text."""
    for option, path in settings.unit_files.items():
        if not counts.get(units.OPTIONS[option]):
            raise errors.UserError(
                f"`{option}={path}` matches nothing in the text: none of its "
                "lines occurs, as whole words. Name a file for this text, with "
                "one phrase or entity a line, or leave it out."
            )


def _no_document_error(
    reader: corpus.CorpusReader, counts: dict[str, int]
) -> errors.UserError:
    paths = [file["path"] for file in reader.files]
    return errors.UserError(
        f"--input_file holds no usable document: {len(paths)} file(s), "
        f"{reader.bytes_read:,} bytes, "
        f"{counts.get('lines_skipped', 0)} bad line(s) skipped. At least one "
        "line of text is needed. Check that these are the right files: "
        f"{', '.join(paths[:3])}"
    )


def _tokenize_block(block: corpus.Block) -> None:
    settings, tokenizer, segmenter, marking, work = parallel.shared_value()
    lines, line_counts = decoding.decode_lines(block, settings, tokenizer.clean)
    tokens = token_blocks.tokenize(
        lines, tokenizer, line_counts, segmenter, marking
    )
    crc32c = checksums.of_bytes(block.text).crc32c
    _save_block(work, block.index, tokens, crc32c)


def _save_block(
    work: work_folder.WorkFolder,
    index: int,
    block: token_blocks.TokenBlock,
    text: int,
) -> None:
    """Save a block with the CRC-32C of its text."""
    written = token_blocks.save(block, work.block_path(index))
    record = {
        "documents": len(block),
        "tokens": len(block.tokens),
        "text": text,
    }
    work.write(f"block-{index:06d}", {**record, "files": [written]})


def _read_block(
    work: work_folder.WorkFolder, index: int
) -> dict[str, Any] | None:
    """Return the sizes of a finished block, or None."""
    return work.read_finished(f"block-{index:06d}", [work.block_path(index)])


def _block_sizes(
    work: work_folder.WorkFolder, num_blocks: int
) -> list[dict[str, Any]]:
    return [work_folder.whole(_read_block(work, i)) for i in range(num_blocks)]


def _drop_duplicates(
    work: work_folder.WorkFolder, num_blocks: int, num_documents: int
) -> int:
    """Remove repeated documents from the blocks; return how many there were."""
    record = work.read("duplicates")
    if record is None:
        paths = [work.block_path(index) for index in range(num_blocks)]
        for index, block in token_blocks.drop_duplicates(paths):
            before = work_folder.whole(_read_block(work, index))
            _save_block(work, index, block, before["text"])
        num_left = sum(s["documents"] for s in _block_sizes(work, num_blocks))
        record = {"dropped": num_documents - num_left}
        work.write("duplicates", record)
    return record["dropped"]


# Stage 2: documents to instances, sorted by random keys. ----------------------


def build_instances(job: Job, text: TokenizedText) -> StoredInstances:
    """Turn the documents into instances, each with a random key."""
    work, settings = job.work, job.settings
    paths = [work.block_path(index) for index in range(len(text.num_documents))]
    corpus_of_blocks = token_blocks.StoredCorpus(paths, text.num_documents)
    builder = _make_builder(job, corpus_of_blocks)
    units = plan_units(text.num_tokens, settings.passes)
    todo = [unit for unit in units if not _finished_unit(work, unit)]
    num_done = len(units) - len(todo)
    with (
        job.workers((builder, work)) as map_units,
        progress.Progress("pairing", len(units), "units") as bar,
    ):
        for _ in map_units(_build_unit, todo):
            num_done += 1
            bar.update(num_done)
    counts = dict(text.counts)
    for unit in units:
        record = work_folder.whole(_finished_unit(work, unit))
        counts = statistics.add(counts, record["counts"])
    prefixes = tuple(work.unit_path(unit.number) for unit in units)
    return StoredInstances(prefixes, counts)


def _make_builder(
    job: Job, documents: token_blocks.StoredCorpus
) -> instances.InstanceBuilder | passages.PassageBuilder:
    settings = job.settings
    seed = random_streams.derive(0, settings.random_seed)
    if settings.records == "passages":
        return passages.PassageBuilder(
            documents,
            job.vocabulary,
            settings.pairs.max_seq_length - 2,
            settings.cross_documents,
            settings.word_segmenter != word_starts.NONE,
            seed,
        )
    return instances.InstanceBuilder(
        documents,
        settings.pairs,
        word_starts.starts_of_tokens(job.vocabulary, job.rule),
        seed,
    )


def plan_units(
    block_tokens: Sequence[int], dupe_factor: int
) -> list[instances.Unit]:
    """Divide the passes over the blocks into units of about equal size.

    A unit has some passes over one block; in a large corpus, all passes over
    several.
    """
    sizes = [dupe_factor * max(1, tokens) for tokens in block_tokens]
    least = -(-sum(sizes) // _MOST_UNITS)
    unit_tokens = max(least, _piece_size("unit", sum(sizes), _UNIT_TOKENS))
    units: list[instances.Unit] = []
    first, size = 0, 0
    for end, next_size in enumerate([*sizes[1:], least + 1], 1):
        size += sizes[end - 1]
        if size + next_size <= least:
            continue
        step = max(1, dupe_factor * unit_tokens // size)
        for begin in range(0, dupe_factor, step):
            passes = range(begin, min(begin + step, dupe_factor))
            units.append(instances.Unit(len(units), range(first, end), passes))
        first, size = end, 0
    return units


def _build_unit(unit: instances.Unit) -> None:
    builder, work = parallel.shared_value()
    built = builder.build(unit)
    written = instances.save(work.unit_path(unit.number), built)
    record = {"counts": built.counts, "files": written}
    work.write(f"unit-{unit.number:06d}", record)


def _finished_unit(
    work: work_folder.WorkFolder, unit: instances.Unit
) -> dict[str, Any] | None:
    """Return the counts of a finished unit, or None."""
    paths = instances.paths(work.unit_path(unit.number))
    return work.read_finished(f"unit-{unit.number:06d}", paths)


# Stage 3: instances to records, in the order of the keys. ---------------------


def write_records(
    job: Job, text: TokenizedText, stored: StoredInstances
) -> record_manifest.Written:
    paths = job.prepared.outputs
    assembler, parts = _plan_parts(job, stored)
    total = sum(part.num_records for part in parts)
    writer = shards.ShardWriter(paths, total, job.work)
    if writer.first_record == 0:
        manifests.remove(paths)
    todo = [
        part
        for part in parts
        if part.first_record + part.num_records > writer.first_record
    ]
    with (
        job.workers(assembler) as map_parts,
        contextlib.closing(writer),
        progress.Progress("writing", total, "examples") as bar,
    ):
        for encoded in map_parts(_encode_part, todo):
            writer.write(encoded)
            part = encoded.part
            bar.update(part.first_record + part.num_records)
    counts, digests = writer.totals()
    return record_manifest.Written(
        paths, digests, counts, text.inputs, stored.counts
    )


def _plan_parts(
    job: Job, stored: StoredInstances
) -> tuple[assemble.Assembler, list[assemble.Part]]:
    """Divide the instances among parts of about equal size."""
    settings, prefixes = job.settings, stored.prefixes
    num_instances = sum(map(instances.count_rows, prefixes))
    writer_options.require_instances(
        len(job.prepared.outputs), num_instances, stored.counts, settings
    )
    length = settings.pairs.max_seq_length
    size = max(
        _piece_size("part", num_instances * length, _PART_POSITIONS),
        -(-num_instances * length // _MOST_PARTS),
    )
    bits = max(1, (num_instances * length // size).bit_length())
    in_parts = np.array([instances.count_keys(p, bits) for p in prefixes])
    masker = None
    if settings.writes_masks:
        masker = masking.Masker(settings.masks, job.vocabulary)
    assembler = assemble.Assembler(
        prefixes,
        in_parts,
        length,
        job.vocabulary,
        masker,
        settings.layout,
        token_blocks.mark_bits(
            settings.word_segmenter, settings.records == "passages"
        ),
    )
    return assembler, assemble.make_parts(in_parts)


def _encode_part(part: assemble.Part) -> assemble.Encoded:
    assembler: assemble.Assembler = parallel.shared_value()
    return assembler.encode(part)


def _write_descriptions(job: Job, written: record_manifest.Written) -> None:
    """Write manifest and data card to each folder, and clear up."""
    whole = record_manifest.make(
        job.settings, job.prepared.tokenizer, job.rule, written
    )
    described = record_manifest.write(whole, written)
    job.work.remove()
    for line in record_manifest.summary_lines(whole):
        logging.info("%s", line)
    writer_options.warn_of_cuts(whole)
    logging.info(
        "written: %s; described in %s",
        ", ".join(written.outputs),
        ", ".join(described),
    )


if __name__ == "__main__":
    options.run_script(run, CreatePretrainingDataOptions)
