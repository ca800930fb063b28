r"""Write the records of create_pretraining_data.py on many machines.

    python -m data_prep.beam_pretraining_data --runner=DirectRunner \
        --input_file='corpus/*.txt' --output_file=records/train.tfrecord \
        --num_shards=8 --spm_model_file=vocab/30k-clean.model

The three stages of the local writer as an Apache Beam pipeline: text becomes
blocks of tokens, documents become instances with random keys, instances become
records in the order of the keys. The functions are the local writer's, and all
draws follow from the seed and the number of the document, so every file holds
the same bytes as the local writer's, however the work is divided.

Beam is an extra with an environment of its own: docs/beam.md.
"""

import bisect
import dataclasses
import functools
import gzip
import hashlib
import importlib
import io
import itertools
import os
import re
import shlex
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from albert_tf.common import (
    errors,
    files,
    options,
    packages,
    random_streams,
)
from albert_tf.data import manifests, masking, tfrecord
from albert_tf.text import tokenization
from data_prep.writer import (
    assemble,
    corpus,
    data_card,
    decoding,
    instances,
    record_manifest,
    same_job,
    segment_pairs,
    statistics,
    text_lines,
    token_blocks,
    word_starts,
    writer_options,
)

# Text of a block, tokens of the instances that are built at once, and
# positions of the records that are masked at once: bounds of memory.
_BLOCK_BYTES = 1 << 20
_UNIT_TOKENS = 1 << 22
_PART_POSITIONS = 1 << 20
# Blocks that are kept for random second segments.
_BLOCKS_IN_MEMORY = 64
# Keys are counted by their first bits, so there are at most this many parts.
_HISTOGRAM_BITS = 16
# What Beam adds to the message of an exception.
_BEAM_SUFFIX = re.compile(r" \[while running .*\]", re.DOTALL)
# Beam has an environment of its own; only this script ever needs it.
_import_beam = functools.partial(
    packages.require,
    "apache_beam",
    install="python3.11 -m venv .beam && .beam/bin/pip install -r "
    "data_prep/requirements-beam.txt",
    argument="runner",
)

# Number of a file, and of a block in it. Sorted, they are in corpus order.
Place = tuple[int, int]
# `instances.ROW` [n], and the tokens that they point into.
Batch = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class BeamOptions:
    """Options of this script: the local writer's, and where it runs."""

    records: writer_options.CreatePretrainingDataOptions
    runner: str = options.option(
        "DirectRunner",
        "Where the pipeline runs: DirectRunner is this machine; others are "
        "DataflowRunner, FlinkRunner, SparkRunner, PortableRunner.",
    )
    beam_args: str = options.option(
        "",
        "Options for Beam and the runner, in one string, as on a command "
        "line: --beam_args='--project=my-project --region=europe-west1'.",
    )

    def __post_init__(self) -> None:
        if self.records.dask_scheduler:
            raise errors.UserError(
                "is an option of create_pretraining_data. Here --runner "
                "decides who works.",
                "dask_scheduler",
                self.records.dask_scheduler,
            )
        if self.records.num_workers:
            raise errors.UserError(
                f"--num_workers={self.records.num_workers} is an option of "
                "the local writer. Here the runner decides. Leave it out, or "
                "give the runner's own, for example "
                "--beam_args=--direct_num_workers=4."
            )
        if self.records.text.input_file.strip() == text_lines.STANDARD_INPUT:
            raise errors.UserError(
                "--input_file=- is standard input, which other machines "
                "cannot read. Files are needed. Write the text to files, or "
                "use data_prep.create_pretraining_data."
            )


class Recipe(NamedTuple):
    """What every worker knows.

    Attributes:
        wanted: Options of the writer.
        outputs: The record files.
        rule: Where words start, see `word_starts.choose_rule`; it is known
            when all text has been read.
    """

    wanted: writer_options.CreatePretrainingDataOptions
    outputs: tuple[str, ...]
    rule: str = ""


def run(wanted: BeamOptions) -> None:
    """Write the records that the options ask for.

    Raises:
        errors.UserError: Files are missing, unusable or in the way; Beam is
            not installed.
    """
    beam = _import_beam()
    from apache_beam.options import pipeline_options

    wanted = dataclasses.replace(wanted, records=wanted.records.resolved())
    for name, value in sorted(options.to_dict(wanted).items()):
        logging.info("--%s=%s", name, value)
    inputs, recipe = prepare(wanted.records)
    arguments = [f"--runner={wanted.runner}", *shlex.split(wanted.beam_args)]
    for output in recipe.outputs:
        files.make_folder(os.path.dirname(output), "output_file")
    manifests.remove(recipe.outputs)
    try:
        with beam.Pipeline(
            options=pipeline_options.PipelineOptions(arguments)
        ) as pipeline:
            build(pipeline, inputs, recipe)
    except errors.UserError as error:
        message = _BEAM_SUFFIX.sub("", str(error))
        raise errors.UserError(message) from None
    manifest = manifests.find(recipe.outputs[0])
    assert manifest is not None
    for line in data_card.lines(manifest):
        logging.info("%s", line)
    writer_options.warn_of_cuts(manifest)
    logging.info("written: %s", ", ".join(recipe.outputs))


def prepare(
    wanted: writer_options.CreatePretrainingDataOptions,
) -> tuple[list[str], Recipe]:
    """Look at all that can be wrong before the pipeline starts.

    Returns:
        The input files in corpus order, and what the workers need.

    Raises:
        errors.UserError: As `create_pretraining_data.run`.
    """
    found = writer_options.prepare(wanted)
    if not wanted.overwrite:
        same_job.refuse_other_options(
            found.outputs, wanted, found.tokenizer.fingerprint
        )
    return found.inputs, Recipe(wanted, tuple(found.outputs))


def build(pipeline: Any, inputs: Sequence[str], recipe: Recipe) -> None:
    """Add all steps to a pipeline.

    Args:
        pipeline: A `beam.Pipeline`.
        inputs: The text files, in corpus order.
        recipe: What the workers need.
    """
    beam = _import_beam()
    blocks, facts = _tokenize(pipeline, inputs, recipe)
    directory = (
        blocks
        | "sizes" >> beam.Map(_size)
        | "all sizes" >> beam.combiners.ToList()
        | "directory" >> beam.Map(make_directory, recipe)
    )
    batches, paired = _pair(blocks, directory, recipe)
    shards, counts = _assemble(batches, directory, recipe)
    kept = directory | "kept" >> beam.Map(lambda d: ("kept", len(d)))
    rule = directory | "rule" >> beam.Map(lambda d: ("rule", d.rule))
    _ = (
        (*facts, kept, rule, paired, shards, counts)
        | "facts" >> beam.Flatten()
        | "all facts" >> beam.combiners.ToList()
        | "manifest" >> beam.Map(write_manifests, recipe)
    )


# Stage 1: text to tokens. --------------------------------------------------


def _tokenize(
    pipeline: Any, inputs: Sequence[str], recipe: Recipe
) -> tuple[Any, tuple[Any, Any]]:
    """Add the steps from file names to blocks of tokens.

    Returns:
        (`Place`, `TokenBlock`) of each block; facts about files and text.
    """
    beam = _import_beam()
    read = (
        pipeline
        | "files" >> beam.Create(list(enumerate(inputs)))
        | "spread files" >> beam.Reshuffle()
        | "read"
        >> beam.FlatMap(read_file, recipe).with_outputs("files", main="blocks")
    )
    blocks = (
        read.blocks
        | "spread blocks" >> beam.Reshuffle()
        | "tokenize" >> beam.Map(tokenize_block, recipe)
    )
    found = (
        blocks
        | "found" >> beam.Map(lambda keyed: keyed[1].facts)
        | "all found" >> beam.CombineGlobally(add_counts)
        | "name found" >> beam.Map(lambda counts: ("text", counts))
    )
    if recipe.wanted.drop_duplicates:
        blocks = _drop_duplicates(blocks)
    return blocks, (read.files, found)


def read_file(numbered: tuple[int, str], recipe: Recipe) -> Iterator[Any]:
    """Yield the blocks of a file, and what it was; this is a generator.

    Args:
        numbered: Number and path of the file.
        recipe: How it is read.

    Yields:
        (`Place`, `corpus.Block`); at the end, as the output "files",
        ("file", (number, facts, how many documents were cut)).
    """
    from apache_beam import pvalue

    number, path = numbered
    reader = corpus.CorpusReader([path], recipe.wanted.text, _BLOCK_BYTES)
    for block in reader.read_blocks():
        yield (number, block.index), block
    facts = dataclasses.asdict(reader.files[0])
    yield pvalue.TaggedOutput(
        "files", ("file", (number, facts, reader.documents_cut))
    )


def tokenize_block(
    keyed: tuple[Place, corpus.Block], recipe: Recipe
) -> tuple[Place, token_blocks.TokenBlock]:
    """Turn the lines of a block into tokens."""
    place, block = keyed
    tokenizer = _load_tokenizer(recipe.wanted.vocabulary)
    lines, facts = decoding.decode_lines(block, recipe.wanted.text)
    segmenter = recipe.wanted.word_segmenter
    return place, token_blocks.tokenize(lines, tokenizer, facts, segmenter)


@functools.lru_cache(1)  # Once in each process.
def _load_tokenizer(
    vocabulary: tokenization.VocabularyOptions,
) -> tokenization.AnyTokenizer:
    return tokenization.load(vocabulary)


def _drop_duplicates(blocks: Any) -> Any:
    """Add the steps that leave out documents that were there before."""
    beam = _import_beam()
    first = (
        blocks
        | "fingerprints" >> beam.FlatMap(fingerprint_documents)
        | "first of equal ones" >> beam.CombinePerKey(min)
        | "where" >> beam.Map(lambda keyed: (keyed[1][:2], keyed[1][2]))
    )
    return (
        {"blocks": blocks, "first": first}
        | "documents to keep" >> beam.CoGroupByKey()
        | "keep" >> beam.Map(select_documents)
    )


def fingerprint_documents(
    keyed: tuple[Place, token_blocks.TokenBlock],
) -> Iterator[tuple[bytes, tuple[int, int, int]]]:
    """Yield 16 bytes that stand for each document, and where it is."""
    (file, block), content = keyed
    for document, fingerprint in enumerate(content.fingerprints()):
        yield fingerprint.tobytes(), (file, block, document)


def select_documents(
    keyed: tuple[Place, Mapping[str, Iterable[Any]]],
) -> tuple[Place, token_blocks.TokenBlock]:
    """Return a block with those of its documents that come first.

    Args:
        keyed: The place; under "blocks" the block, under "first" the numbers
            of the documents to keep.
    """
    place, groups = keyed
    (block,) = groups["blocks"]
    keep = np.zeros(len(block), bool)
    keep[list(groups["first"])] = True
    return place, block.select(keep)


# Stage 2: tokens to instances. --------------------------------------------


@dataclasses.dataclass(frozen=True)
class Directory:
    """Which documents are in which block.

    Attributes:
        places: Of all blocks, in corpus order.
        ends: For each, how many documents there are up to its end.
        rule: Where words start, see `word_starts.choose_rule`.
    """

    places: list[Place]
    ends: list[int]
    rule: str

    def __len__(self) -> int:
        """Return the number of documents."""
        return self.ends[-1]


def _size(
    keyed: tuple[Place, token_blocks.TokenBlock],
) -> tuple[Place, int, statistics.Counts]:
    place, block = keyed
    return place, len(block), block.facts


def make_directory(
    sizes: Iterable[tuple[Place, int, statistics.Counts]], recipe: Recipe
) -> Directory:
    """Number the documents of all blocks, and decide where words start.

    Example:
        Of ((1, 0), 5), ((0, 1), 2), ((0, 0), 3): the places (0, 0), (0, 1),
        (1, 0) and the ends 3, 5, 10

    Args:
        sizes: Place, number of documents and facts of each block, in any
            order.
        recipe: Names the input, for the message.

    Raises:
        errors.UserError: There is no document.
    """
    ordered = sorted(sizes, key=lambda entry: entry[0])
    ends = np.cumsum([0, *(size for _, size, _ in ordered)])[1:].tolist()
    if not ends or not ends[-1]:
        raise errors.UserError(
            f"--input_file={recipe.wanted.text.input_file} holds no usable "
            "document: no line gives a piece. At least one line of text is "
            "needed. Check that these are the right files."
        )
    counts = add_counts(facts for _, _, facts in ordered)
    wanted = recipe.wanted
    tokenizer = _load_tokenizer(wanted.vocabulary)
    rule = word_starts.choose_rule(
        wanted.word_start_rule, wanted.word_segmenter, tokenizer, counts
    )
    word_starts.warn_of_misfit(counts, tokenizer)
    return Directory([place for place, _, _ in ordered], ends, rule)


class BlockCorpus:
    """All documents, seen from one block; others are fetched when needed."""

    def __init__(
        self,
        directory: Directory,
        keyed: tuple[Place, token_blocks.TokenBlock],
        others: Mapping[Place, Iterable[token_blocks.TokenBlock]],
    ) -> None:
        """Remember where the blocks are.

        Args:
            directory: Of all blocks.
            keyed: The block that is processed.
            others: All blocks; empty where no random segments are drawn.
        """
        self._directory = directory
        self._others = others
        self._place, self._block = keyed
        self._fetch = functools.lru_cache(_BLOCKS_IN_MEMORY)(self._fetch_now)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._directory)

    def first_document(self, block: int) -> int:
        """Return the number of the first document of a block."""
        return self._directory.ends[block - 1] if block else 0

    def block(self, index: int) -> token_blocks.TokenBlock:
        """Return a block."""
        place = self._directory.places[index]
        if place == self._place:
            return self._block
        return self._fetch(place)

    def _fetch_now(self, place: Place) -> token_blocks.TokenBlock:
        (found,) = self._others[place]
        return found

    def __getitem__(self, index: int) -> segment_pairs.Document:
        """Return a document."""
        block = bisect.bisect_right(self._directory.ends, index)
        return self.block(block).document(index - self.first_document(block))


def _pair(blocks: Any, directory: Any, recipe: Recipe) -> tuple[Any, Any]:
    """Add the steps from blocks of tokens to batches of instances.

    Returns:
        `Batch`es; the counts of `instances.Built`.
    """
    beam = _import_beam()
    pairs = recipe.wanted.pairs
    others: Any = {}
    if pairs.objective == "nsp" or (
        pairs.objective == "sop" and pairs.single_segment_policy == "random"
    ):
        others = beam.pvalue.AsMultiMap(blocks)
    built = blocks | "pair" >> beam.FlatMap(
        build_instances, beam.pvalue.AsSingleton(directory), others, recipe
    ).with_outputs("paired", main="batches")
    paired = (
        built.paired
        | "all paired" >> beam.CombineGlobally(add_counts)
        | "name paired" >> beam.Map(lambda counts: ("paired", counts))
    )
    return built.batches, paired


def build_instances(
    keyed: tuple[Place, token_blocks.TokenBlock],
    directory: Directory,
    others: Mapping[Place, Iterable[token_blocks.TokenBlock]],
    recipe: Recipe,
) -> Iterator[Any]:
    """Yield the instances of a block, some passes at once.

    Args:
        keyed: Place and content of the block.
        directory: Of all blocks.
        others: All blocks; empty where no random segments are drawn.
        recipe: What the workers need.

    Yields:
        `Batch`, sorted by key; as the output "paired", what `Built` counts.
    """
    from apache_beam import pvalue

    place, block = keyed
    wanted = recipe.wanted
    stored = BlockCorpus(directory, keyed, others)
    builder = instances.Builder(
        typing.cast(token_blocks.StoredCorpus, stored),  # It has its methods.
        wanted.pairs,
        word_starts.of_tokens(
            _load_table(recipe._replace(rule=directory.rule)), directory.rule
        ),
        random_streams.derive(0, wanted.random_seed),
    )
    number = bisect.bisect_left(directory.places, place)
    passes = max(1, _UNIT_TOKENS // max(1, len(block.tokens)))
    for first in range(0, wanted.dupe_factor, passes):
        end = min(first + passes, wanted.dupe_factor)
        built = builder.build(instances.Unit(0, number, first, end))
        yield built.rows, built.tokens
        yield pvalue.TaggedOutput("paired", dict(built.counts))


@functools.lru_cache(1)  # Once in each process.
def _load_table(recipe: Recipe) -> masking.Vocabulary:
    """Return what masking needs to know about the vocabulary."""
    tokenizer = _load_tokenizer(recipe.wanted.vocabulary)
    return word_starts.make_vocabulary(tokenizer, recipe.rule)


# Stage 3: instances to records. --------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where each record goes; its rank is its place in the order of the keys.

    Attributes:
        firsts: Rank of the first record of each part; parts are equal ranges
            of keys.
        bounds: Rank of the first record of each file, and the number of all.
    """

    firsts: list[int]
    bounds: list[int]


def _assemble(batches: Any, directory: Any, recipe: Recipe) -> tuple[Any, Any]:
    """Add the steps from batches of instances to finished files.

    Returns:
        Facts about the files, and the counts of all records.
    """
    beam = _import_beam()
    plan = (
        batches
        | "keys" >> beam.Map(count_keys)
        | "all keys" >> beam.CombineGlobally(add_histograms)
        | "plan" >> beam.Map(make_plan, recipe)
    )
    encoded = (
        batches
        | "cut" >> beam.FlatMap(cut_batch, beam.pvalue.AsSingleton(plan))
        | "parts" >> beam.GroupByKey()
        | "encode"
        >> beam.FlatMap(
            encode_part,
            beam.pvalue.AsSingleton(plan),
            beam.pvalue.AsSingleton(directory),
            recipe,
        ).with_outputs("counts", main="pieces")
    )
    shards = (
        encoded.pieces
        | "shards" >> beam.GroupByKey()
        | "write" >> beam.Map(write_shard, recipe)
    )
    counts = (
        encoded.counts
        | "all counts" >> beam.CombineGlobally(add_counts)
        | "name counts" >> beam.Map(lambda counts: ("records", counts))
    )
    return shards, counts


def count_keys(batch: Batch) -> np.ndarray:
    """Count instances by the first bits of their keys, int64 [2^16]."""
    first = batch[0]["key"] >> np.uint64(64 - _HISTOGRAM_BITS)
    return np.bincount(first.astype(np.int64), minlength=1 << _HISTOGRAM_BITS)


def add_histograms(histograms: Iterable[np.ndarray]) -> np.ndarray:
    """Add up what `count_keys` returned."""
    total = np.zeros(1 << _HISTOGRAM_BITS, np.int64)
    for histogram in histograms:
        total += histogram
    return total


def add_counts(counts: Iterable[statistics.Counts]) -> statistics.Counts:
    """Add up counts."""
    return functools.reduce(statistics.add, counts, {})


def make_plan(histogram: np.ndarray, recipe: Recipe) -> Plan:
    """Divide the records among parts and files.

    Example:
        3 keys in the first half of all keys, 5 in the second, two parts, two
        files: firsts = [0, 3], bounds = [0, 4, 8]

    Args:
        histogram: From `add_histograms`.
        recipe: Number of files and length of the records.

    Raises:
        errors.UserError: There are fewer instances than files.
    """
    total, num_files = int(histogram.sum()), len(recipe.outputs)
    writer_options.refuse_few_instances(num_files, total, {}, recipe.wanted)
    size = max(1, _PART_POSITIONS // recipe.wanted.pairs.max_seq_length)
    bits = min(_HISTOGRAM_BITS, max(1, (total // size).bit_length()))
    sizes = histogram.reshape(1 << bits, -1).sum(1)
    bounds = assemble.divide_evenly(total, num_files)
    return Plan((np.cumsum(sizes) - sizes).tolist(), bounds)


def cut_batch(batch: Batch, plan: Plan) -> Iterator[tuple[int, Batch]]:
    """Yield number of the part and instances, for each part of a batch.

    Args:
        batch: Instances sorted by key.
        plan: The parts.
    """
    rows, tokens = batch
    width = np.uint64(2**64 // len(plan.firsts))
    part_of = (rows["key"] // width).astype(np.int64)
    starts = np.flatnonzero(np.diff(part_of, prepend=-1)).tolist()
    for begin, end in itertools.pairwise([*starts, len(rows)]):
        chosen = rows[begin:end].copy()
        first, last = int(chosen["begin"][0]), chosen[-1]
        stop = int(last["begin"]) + int(last["first"]) + int(last["second"])
        chosen["begin"] -= np.uint64(first)
        yield int(part_of[begin]), (chosen, tokens[first:stop].copy())


def merge_batches(batches: Iterable[Batch]) -> Batch:
    """Make one batch of several, sorted by key."""
    # By key already here: runners hand them over in any order.
    found = sorted(batches, key=lambda batch: int(batch[0]["key"][0]))
    sizes = [len(tokens) for _, tokens in found]
    shifts = np.cumsum([0, *sizes[:-1]]).astype(np.uint64)
    rows = np.concatenate([rows for rows, _ in found])
    rows["begin"] += np.repeat(shifts, [len(rows) for rows, _ in found])
    tokens = np.concatenate([tokens for _, tokens in found])
    return rows[np.argsort(rows["key"], kind="stable")], tokens


def encode_part(
    numbered: tuple[int, Iterable[Batch]],
    plan: Plan,
    directory: Directory,
    recipe: Recipe,
) -> Iterator[Any]:
    """Yield the records of a part for each file; this is a generator.

    Args:
        numbered: Number of the part, and its instances.
        plan: Where the records go.
        directory: Says where words start.
        recipe: What the workers need.

    Yields:
        (number of the file, (number of the part, bytes)); at the end, as the
        output "counts", what `statistics.count` returned.
    """
    from apache_beam import pvalue

    number, batches = numbered
    assembler = _make_assembler(recipe._replace(rule=directory.rule))
    values, counts = assembler.make_values(*merge_batches(batches))
    framed = tfrecord.frame_batch(
        tfrecord.encode_batch(assembler.layout, values)
    )
    first = plan.firsts[number]
    for file, begin, end in assemble.divide(first, len(framed), plan.bounds):
        yield file, (number, b"".join(framed[begin:end]))
    yield pvalue.TaggedOutput("counts", counts)


@functools.lru_cache(1)  # Once in each process.
def _make_assembler(recipe: Recipe) -> assemble.Assembler:
    return writer_options.make_assembler(recipe.wanted, _load_table(recipe))


def write_shard(
    numbered: tuple[int, Iterable[tuple[int, bytes]]], recipe: Recipe
) -> tuple[str, tuple[int, int, str]]:
    """Write a record file; it appears under its name when it is complete.

    A runner may do this twice at the same time.

    Args:
        numbered: Number of the file; its pieces with the numbers of the parts.
        recipe: Names of the files.

    Returns:
        "shard", and number, bytes and SHA-256 of the file.
    """
    number, pieces = numbered
    path = recipe.outputs[number]
    content = b"".join(piece for _, piece in sorted(pieces))
    if path.endswith(".gz"):
        content = _pack(content)
    with files.replace_atomically(path, repeated=True) as stream:
        stream.write(content)
    digest = hashlib.sha256(content).hexdigest()
    return "shard", (number, len(content), digest)


def _pack(content: bytes) -> bytes:
    """Return what the local writer's `shards` makes of some bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()


def write_manifests(facts: Iterable[tuple[str, Any]], recipe: Recipe) -> None:
    """Write manifest and data card beside the finished files.

    Args:
        facts: What the steps found, by name: "file" of each input, "shard" of
            each output; once "text", "kept", "rule", "paired", "records".
        recipe: What was wanted.
    """
    wanted, outputs = recipe.wanted, recipe.outputs
    tokenizer = _load_tokenizer(wanted.vocabulary)
    found: dict[str, list[Any]] = {}
    for name, value in facts:
        found.setdefault(name, []).append(value)
    inputs = sorted(found["file"], key=lambda file: file[0])
    shards = sorted(found["shard"])
    (text,), (kept,), (counts,) = found["text"], found["kept"], found["records"]
    (paired,), (rule,) = found["paired"], found["rule"]
    cut = sum(times for _, _, times in inputs)
    text = {**text, "documents_cut": cut, **paired}
    if wanted.drop_duplicates:
        text["duplicate_documents"] = text["documents"] - kept
    written = record_manifest.Written(
        outputs,
        [digest for _, _, digest in shards],
        counts,
        [facts for _, facts, _ in inputs],
        text,
    )
    manifest = record_manifest.make(wanted, tokenizer, rule, written)
    versions = {
        **manifest.versions,
        "apache_beam": metadata.version("apache-beam"),
    }
    whole = dataclasses.replace(manifest, versions=versions)
    record_manifest.write(whole, written)


if __name__ == "__main__":
    # By its own name: workers find functions there, and not in `__main__`.
    module = importlib.import_module("data_prep.beam_pretraining_data")
    options.run_script(module.run, module.BeamOptions)
