"""The manifest and the data card that describe finished records.

The card is Markdown and a picture.
"""

import dataclasses
import io
import os
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

import albert_tf
from albert_tf.common import files, imports, markdown, options
from albert_tf.data import manifests, masking
from albert_tf.text import tokenization
from data_prep.writer import assemble, same_job, statistics, writer_options

figures = imports.later("matplotlib.figure")

_SOME_UNSPACED = 0.01  # Above this share of the letters, the card says so.


@dataclasses.dataclass(frozen=True)
class Written:
    """The output of a writer, and where it comes from."""

    outputs: Sequence[str]  # The record files.
    digests: Sequence[str]  # SHA-256 of each.
    counts: statistics.Counts  # Of the records.
    inputs: Sequence[dict[str, Any]]  # Path, size and sha256 of each text file.
    corpus: dict[str, int]  # Counts of the text.


def make(
    settings: writer_options.CreatePretrainingDataOptions,
    tokenizer: tokenization.AnyTokenizer,
    rule: str,
    written: Written,
) -> manifests.Manifest:
    """Make the manifest of all records; `rule` says where words start."""
    length = settings.pairs.max_seq_length
    return manifests.Manifest(
        shards=tuple(os.path.basename(path) for path in written.outputs),
        shard_bytes=tuple(map(files.size, written.outputs)),
        shard_sha256=tuple(written.digests),
        num_examples=written.counts["instances"],
        max_seq_length=length,
        max_predictions_per_seq=settings.masks.record_predictions,
        kind=settings.records,
        has_masks=settings.writes_masks,
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.fingerprint,
        random_seed=settings.random_seed,
        options=options.to_dict(settings),
        word_start_rule=rule,
        inputs=tuple(written.inputs),
        corpus=written.corpus,
        summary=statistics.summarize(written.counts, length, written.corpus),
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "albert_tf": albert_tf.__version__,
            **same_job.versions(settings),
        },
    )


def write(whole: manifests.Manifest, written: Written) -> list[str]:
    """Write manifest and data card to each folder; return their paths."""
    paths = []
    for outputs, manifest in divide_by_folder(written.outputs, whole):
        paths.append(_write_card(outputs[0], manifest, written.counts))
        paths.append(manifests.write(outputs, manifest))
    return paths


def divide_by_folder(
    paths: Sequence[str], manifest: manifests.Manifest
) -> list[tuple[list[str], manifests.Manifest]]:
    """Return, for each folder, its shards and a manifest of them.

    Shards and `num_examples` are those of the folder, all counts of all shards.
    """
    bounds = assemble.divide_evenly(manifest.num_examples, len(paths))
    num_records = np.diff(bounds)
    results = []
    for folder in dict.fromkeys(map(os.path.dirname, paths)):
        shards = [
            i for i, p in enumerate(paths) if os.path.dirname(p) == folder
        ]
        part = dataclasses.replace(
            manifest,
            shards=tuple(manifest.shards[i] for i in shards),
            shard_bytes=tuple(manifest.shard_bytes[i] for i in shards),
            shard_sha256=tuple(manifest.shard_sha256[i] for i in shards),
            num_examples=int(num_records[shards].sum()),
        )
        results.append(([paths[i] for i in shards], part))
    return results


def _write_card(
    path: str, manifest: manifests.Manifest, counts: statistics.Counts
) -> str:
    """Write card and picture beside the first shard, `path`."""
    with files.replace_atomically(f"{path}.card.png") as stream:
        stream.write(_draw(manifest, counts))
    content = [
        f"# {manifest.shards[0]}\n",
        *(f"- {line}" for line in summary_lines(manifest)),
        f"\n![distributions]({manifest.shards[0]}.card.png)\n",
        "## Input\n",
        markdown.table(
            ("File", "Bytes", "SHA-256"),
            [
                (x["path"], f"{x['size']:,}", f"{x['sha256'][:16]}…")
                for x in manifest.inputs
            ],
        ),
    ]
    for title, values in (
        ("Corpus", manifest.corpus),
        ("Records", manifest.summary),
        ("Options", manifest.options),
        ("Versions", manifest.versions),
    ):
        rows = [(k, _to_text(v)) for k, v in values.items()]
        content += [
            f"## {title}\n",
            markdown.table(("Name", "Value"), rows, has_numbers=False),
        ]
    files.write_text(f"{path}.card.md", "\n".join(content))
    return f"{path}.card.md"


def _to_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_to_text, value))
    return str(value)


def summary_lines(manifest: manifests.Manifest) -> list[str]:
    """Return the most important statistics for card and log, one a line."""
    corpus, summary = manifest.corpus, manifest.summary
    is_passages = manifest.kind == "passages"
    passes = 1 if is_passages else manifest.options["dupe_factor"]
    lines = [
        f"documents: {corpus['documents']:,} with {corpus['sentences']:,} "
        f"sentences and {corpus['tokens']:,} tokens; "
        f"{corpus['documents_of_one_sentence']:,} of a single sentence, "
        f"{corpus.get('duplicate_documents', 0):,} left out as duplicates",
        "too short to use, on average of a pass: "
        f"{corpus['unused_documents'] / passes:,.1f} documents that gave no "
        f"instance, {corpus['unused_chunks'] / passes:,.1f} chunks left out",
        f"instances: {manifest.num_examples:,} of "
        f"{summary['tokens_per_instance']:.1f} tokens; padding is "
        f"{summary['share_of_padding']:.1%} of the records",
    ]
    if not is_passages:
        lines += [
            f"cut off to fit: {summary['share_of_tokens_cut']:.1%} of the "
            "tokens",
            f"sentence-order label 1: {summary['share_of_label_1']:.1%} of "
            "those with a label; without one: "
            f"{summary['share_without_label']:.1%}",
            "chunks of a single sentence: "
            f"{summary['share_of_single_sentence_chunks']:.1%}",
        ]
    lines += _word_lines(manifest)
    bad = {n: corpus.get(n, 0) for n in ("lines_skipped", "lines_replaced")}
    if any(bad.values()):
        lines.append(
            f"bad lines: {bad['lines_skipped']:,} skipped, "
            f"{bad['lines_replaced']:,} replaced"
        )
    if "predictions_per_instance" in summary:
        lines += [
            f"predicted pieces: {summary['share_of_tokens_predicted']:.1%} of "
            f"the tokens, {summary['predictions_per_instance']:.1f} an "
            f"instance; masked {summary['share_masked']:.1%}, kept "
            f"{summary['share_kept']:.1%}, replaced "
            f"{summary['share_replaced']:.1%}",
            "accuracy of always predicting the most frequent piece: "
            f"{summary['share_of_most_frequent_label']:.1%}",
            "loss of knowing only how frequent pieces are: "
            f"{summary['entropy_of_labels']:.3f}",
        ]
    return lines


def _word_lines(manifest: manifests.Manifest) -> list[str]:
    """Describe the rule for words in masks, and the rate of unknown pieces."""
    corpus, rule = manifest.corpus, manifest.word_start_rule
    letters = max(1, corpus["letters"])
    unspaced = corpus["letters_without_spaces"] / letters
    words = f"words by the rule {rule}"
    if rule not in masking.WORD_START_RULES:
        words = f"words by the segmenter {rule}"
    elif unspaced > _SOME_UNSPACED:
        words += (
            f"; {unspaced:.1%} of the letters are of scripts without spaces, "
            "in which every piece is a word (--word_segmenter=none)"
        )
    unknown = corpus["unknown_pieces"] / max(1, corpus["tokens"])
    return [words, f"unknown pieces: {unknown:.3%} of the tokens"]


def _draw(manifest: manifests.Manifest, counts: statistics.Counts) -> bytes:
    """Return a PNG with one histogram for each distribution."""
    histograms: dict[str, np.ndarray] = {
        "tokens of an instance": counts["lengths"],
        "tokens of a segment": counts["segment_lengths"],
    }
    if "run_lengths" in counts:
        histograms["words of a masked run"] = counts["run_lengths"]
    figure = figures.Figure(figsize=(4.2 * len(histograms), 2.6))
    for column, (title, values) in enumerate(histograms.items(), 1):
        axes = figure.add_subplot(1, len(histograms), column, title=title)
        edges = np.arange(len(values) + 1) - 0.5
        axes.stairs(values / max(1, values.sum()), edges, fill=True)
    if "run_lengths" in counts:
        expected = np.diff(
            masking.cumulative_lengths(
                manifest.options["ngram"],
                manifest.options["favor_shorter_ngram"],
            ),
            prepend=0,
        )
        axes.plot(np.arange(1, len(expected) + 1), expected, "_", label="p(n)")
        axes.legend()
    stored = io.BytesIO()
    figure.savefig(stored, format="png")
    return stored.getvalue()
