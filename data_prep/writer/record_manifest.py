"""The manifest and the data card that describe finished records."""

import dataclasses
import os
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

import albert_tf
from albert_tf.common import files, options
from albert_tf.data import manifests
from albert_tf.text import tokenization
from data_prep.writer import (
    assemble,
    data_card,
    same_job,
    statistics,
    writer_options,
)


@dataclasses.dataclass(frozen=True)
class Written:
    """The output of a writer, and where it comes from."""

    outputs: Sequence[str]  # The record files.
    digests: Sequence[str]  # SHA-256 of each.
    counts: statistics.Counts  # Of the records.
    inputs: Sequence[dict[str, Any]]  # Path, size and sha256 of each text file.
    corpus: dict[str, int]  # Counts of the text.


def make(
    wanted: writer_options.CreatePretrainingDataOptions,
    tokenizer: tokenization.AnyTokenizer,
    rule: str,
    written: Written,
) -> manifests.Manifest:
    """Describe finished records; `rule` says which pieces start a word."""
    length = wanted.pairs.max_seq_length
    return manifests.Manifest(
        shards=tuple(os.path.basename(path) for path in written.outputs),
        shard_bytes=tuple(map(files.size, written.outputs)),
        shard_sha256=tuple(written.digests),
        num_examples=written.counts["instances"],
        max_seq_length=length,
        max_predictions_per_seq=wanted.masks.record_predictions,
        kind=wanted.records,
        has_masks=wanted.writes_masks,
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
            **same_job.versions(wanted),
        },
    )


def write(whole: manifests.Manifest, written: Written) -> list[str]:
    """Write manifest and data card to each folder; return their paths."""
    paths = []
    for outputs, manifest in split(written.outputs, whole):
        paths.append(data_card.write(outputs[0], manifest, written.counts))
        paths.append(manifests.write(outputs, manifest))
    return paths


def split(
    outputs: Sequence[str], manifest: manifests.Manifest
) -> list[tuple[list[str], manifests.Manifest]]:
    """Return, for each folder, its record files and their own manifest.

    Its counts and distributions are those of all files together.
    """
    bounds = assemble.divide_evenly(manifest.num_examples, len(outputs))
    sizes = np.diff(bounds)
    parts = []
    for folder in dict.fromkeys(map(os.path.dirname, outputs)):
        places = [
            i for i, p in enumerate(outputs) if os.path.dirname(p) == folder
        ]
        part = dataclasses.replace(
            manifest,
            shards=tuple(manifest.shards[i] for i in places),
            shard_bytes=tuple(manifest.shard_bytes[i] for i in places),
            shard_sha256=tuple(manifest.shard_sha256[i] for i in places),
            num_examples=int(sizes[places].sum()),
        )
        parts.append(([outputs[i] for i in places], part))
    return parts
