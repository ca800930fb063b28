"""The data card, which describes a set of records: Markdown and a picture.

The picture is drawn with Pillow: loading matplotlib would take longer than
writing a small corpus.
"""

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from albert_tf.common import files
from albert_tf.data import manifests, masking
from data_prep.writer import statistics

CARD_ENDING = ".card.md"
PICTURE_ENDING = ".card.png"

_PANEL = 420, 260  # Pixels.
_MARGIN = 40
_BARS = 40
_SOME_UNSPACED = 0.01  # Above this share of the letters, the card says so.
_INK, _BAR, _WANTED = "#222222", "#4878a8", "#d08030"


def write(
    path: str, manifest: manifests.Manifest, counts: statistics.Counts
) -> str:
    """Write card and picture beside a record file.

    Args:
        path: The first record file.
        manifest: The content of the card.
        counts: The content of the picture.

    Returns:
        The path of the card.
    """
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
    passes = manifest.options["dupe_factor"]
    found = [
        f"documents: {corpus['documents']:,} with {corpus['sentences']:,} "
        f"sentences and {corpus['tokens']:,} tokens; "
        f"{corpus['documents_of_one_sentence']:,} of a single sentence",
        "too short to use, on average of a pass: "
        f"{corpus['unused_documents'] / passes:,.1f} documents that gave no "
        f"instance, {corpus['unused_chunks'] / passes:,.1f} chunks left out",
        f"instances: {manifest.num_examples:,} of "
        f"{summary['tokens_per_instance']:.1f} tokens; padding is "
        f"{summary['share_of_padding']:.1%} of the records",
        f"cut off to fit: {summary['share_of_tokens_cut']:.1%} of the tokens",
        f"sentence-order label 1: {summary['share_of_label_1']:.1%} of those "
        f"with a label; without one: {summary['share_without_label']:.1%}",
        "chunks of a single sentence: "
        f"{summary['share_of_single_sentence_chunks']:.1%}",
    ]
    found += _words(manifest)
    bad = {n: corpus.get(n, 0) for n in ("lines_skipped", "lines_replaced")}
    if any(bad.values()):
        found.append(
            f"bad lines: {bad['lines_skipped']:,} skipped, "
            f"{bad['lines_replaced']:,} replaced"
        )
    if "predictions_per_instance" in summary:
        found += [
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
    return found


def _words(manifest: manifests.Manifest) -> list[str]:
    """Describe the words of the masks, and the share of unknown pieces."""
    corpus, rule = manifest.corpus, manifest.word_start_rule
    if "letters" not in corpus:  # Written by an earlier version.
        return []
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
    """Return a PNG with one panel for each distribution."""
    panels: list[tuple[str, np.ndarray, Sequence[float] | None]] = [
        ("tokens of an instance", counts["lengths"], None),
        ("tokens of a segment", counts["segment_lengths"], None),
    ]
    if "run_lengths" in counts:
        options = manifest.options
        wanted = np.diff(
            masking.cumulative_lengths(
                options["ngram"], options["favor_shorter_ngram"]
            ),
            prepend=0,
        )
        title = "words of a masked run (orange: p(n), before fitting)"
        panels.append((title, counts["run_lengths"][1:], wanted.tolist()))
    picture = Image.new("RGB", (_PANEL[0] * len(panels), _PANEL[1]), "white")
    for place, (title, values, reference) in enumerate(panels):
        _draw_panel(
            ImageDraw.Draw(picture), place * _PANEL[0], title, values, reference
        )
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _draw_panel(
    draw: ImageDraw.ImageDraw,
    left: int,
    title: str,
    values: np.ndarray,
    reference: Sequence[float] | None,
) -> None:
    """Draw one histogram as shares; the axis begins at 0, or 1 for runs."""
    first = 0 if reference is None else 1
    width = -(-len(values) // _BARS)
    padded = np.zeros(-(-len(values) // width) * width)
    padded[: len(values)] = values
    bars = padded.reshape(-1, width).sum(1) / max(1, values.sum())
    top = max(bars.max(), max(reference or [0]), 1e-9)
    height, inner = _PANEL[1] - 2 * _MARGIN, _PANEL[0] - 2 * _MARGIN
    base, step = _PANEL[1] - _MARGIN, inner / len(bars)

    def level(share: float) -> float:
        return base - height * share / top

    for index, share in enumerate(bars):
        x = left + _MARGIN + index * step
        draw.rectangle((x, level(share), x + 0.8 * step, base), fill=_BAR)
        if reference is not None:
            y = level(reference[index])
            draw.line((x, y, x + 0.8 * step, y), fill=_WANTED, width=3)
    draw.line((left + _MARGIN, base, left + _PANEL[0] - _MARGIN, base), _INK)
    draw.text((left + _MARGIN, 12), title, fill=_INK)
    draw.text((left + 4, level(top) - 6), f"{top:.0%}", fill=_INK)
    draw.text((left + _MARGIN, base + 6), str(first), fill=_INK)
    last = str(first + len(values) - 1)
    draw.text((left + _PANEL[0] - _MARGIN - 20, base + 6), last, fill=_INK)
