"""The data card, which describes a set of records: Markdown and a picture."""

import io

import numpy as np

from albert_tf.common import files, imports
from albert_tf.data import manifests, masking
from data_prep.writer import statistics

figures = imports.later("matplotlib.figure")

CARD_ENDING = ".card.md"
PICTURE_ENDING = ".card.png"

_SOME_UNSPACED = 0.01  # Above this share of the letters, the card says so.


def write(
    path: str, manifest: manifests.Manifest, counts: statistics.Counts
) -> str:
    """Write card and picture beside the first record file, the path."""
    name = manifest.shards[0] + PICTURE_ENDING
    with files.replace_atomically(path + PICTURE_ENDING) as stream:
        stream.write(_draw(manifest, counts))
    content = [
        f"# {manifest.shards[0]}\n",
        *(f"- {x}" for x in lines(manifest)),
    ]
    content += [f"\n![distributions]({name})\n", "## Input\n"]
    content += ["| File | Bytes | SHA-256 |", "| --- | ---: | --- |"]
    content += [
        f"| {f['path']} | {f['size']:,} | {f['sha256'][:16]}… |"
        for f in manifest.inputs
    ]
    for title, values in (
        ("Corpus", manifest.corpus),
        ("Records", manifest.summary),
        ("Options", manifest.options),
        ("Versions", manifest.versions),
    ):
        content += [f"\n## {title}\n", "| Name | Value |", "| --- | --- |"]
        content += [f"| {k} | {_text(v)} |" for k, v in values.items()]
    files.write_text(path + CARD_ENDING, "\n".join(content) + "\n")
    return path + CARD_ENDING


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


def lines(manifest: manifests.Manifest) -> list[str]:
    """Return the most important facts, one a line."""
    corpus, summary = manifest.corpus, manifest.summary
    is_passages = manifest.kind == "passages"
    passes = 1 if is_passages else manifest.options["dupe_factor"]
    facts = [
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
        facts += [
            f"cut off to fit: {summary['share_of_tokens_cut']:.1%} of the "
            "tokens",
            f"sentence-order label 1: {summary['share_of_label_1']:.1%} of "
            "those with a label; without one: "
            f"{summary['share_without_label']:.1%}",
            "chunks of a single sentence: "
            f"{summary['share_of_single_sentence_chunks']:.1%}",
        ]
    facts += _words(manifest)
    bad = {n: corpus.get(n, 0) for n in ("lines_skipped", "lines_replaced")}
    if any(bad.values()):
        facts.append(
            f"bad lines: {bad['lines_skipped']:,} skipped, "
            f"{bad['lines_replaced']:,} replaced"
        )
    if "predictions_per_instance" in summary:
        facts += [
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
    return facts


def _words(manifest: manifests.Manifest) -> list[str]:
    """Describe the words of the masks, and the share of unknown pieces."""
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
    shown: dict[str, np.ndarray] = {
        "tokens of an instance": counts["lengths"],
        "tokens of a segment": counts["segment_lengths"],
    }
    if "run_lengths" in counts:
        shown["words of a masked run"] = counts["run_lengths"]
    figure = figures.Figure(figsize=(4.2 * len(shown), 2.6))
    for place, (title, values) in enumerate(shown.items(), 1):
        axes = figure.add_subplot(1, len(shown), place, title=title)
        edges = np.arange(len(values) + 1) - 0.5
        axes.stairs(values / max(1, values.sum()), edges, fill=True)
    if "run_lengths" in counts:
        chances = np.diff(
            masking.cumulative_lengths(
                manifest.options["ngram"],
                manifest.options["favor_shorter_ngram"],
            ),
            prepend=0,
        )
        axes.plot(np.arange(1, len(chances) + 1), chances, "_", label="p(n)")
        axes.legend()
    stored = io.BytesIO()
    figure.savefig(stored, format="png")
    return stored.getvalue()
