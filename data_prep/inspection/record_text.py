"""Show records as lines of text, and what training draws from passages."""

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import layouts, marks, masking
from albert_tf.text import tokenization
from albert_tf.training import pretraining_drawer, pretraining_options
from data_prep.inspection import record_statistics
from data_prep.writer import statistics

_SHOWN_VALUES = 20  # Of each feature, for records of other layouts.
# What marks of passages say.
_MARKS = {
    "words": marks.WORD,
    "sentences": marks.SENTENCE,
    "documents": marks.DOCUMENT,
    "upper-case letters": marks.UPPER,
    "pieces that the document has elsewhere, too": marks.ELSEWHERE,
    "pieces that continue a phrase": marks.PHRASE,
    "pieces that continue an entity": marks.ENTITY,
    "pieces of responses": marks.RESPONSE,
}


def _is_byte(word_and_start: tuple[str, bool]) -> bool:
    word, start = word_and_start
    return not start and re.fullmatch("<0x[0-9A-F]{2}>", word) is not None


class PieceText:
    """Writes ids as text, with or without a vocabulary."""

    def __init__(self, tokenizer: tokenization.AnyTokenizer | None) -> None:
        self._pieces = None if tokenizer is None else tokenizer.pieces
        self._is_sentencepiece = isinstance(tokenizer, tokenization.Tokenizer)

    def word_and_start(self, id_: int) -> tuple[str, bool]:
        """Return what to show for an id, and whether a space comes before it.

        Example:
            "▁paris" is ("paris", True), "s" is ("s", False) in SentencePiece;
            "##ing" is ("ing", False), "rain" is ("rain", True) in WordPiece.
        """
        if self._pieces is None:
            return str(id_), True
        if id_ >= len(self._pieces):  # It stands for a span.
            return f"<{id_}>", True
        piece = self._pieces[id_]
        if piece in tokenization.SPECIAL_PIECES:
            return piece, True
        if self._is_sentencepiece:
            return piece.removeprefix("▁"), piece.startswith("▁")
        return piece.removeprefix("##"), not piece.startswith("##")

    def join(
        self, ids: Sequence[int], labels: Mapping[int, int], mask_id: int
    ) -> str:
        """Join ids to a text such as "[CLS] to [paris→MASK] we go[es→KEPT]".

        `labels` has, by index in `ids`, the ids to be predicted there.
        """
        text = ""
        originals = [labels.get(index, id_) for index, id_ in enumerate(ids)]
        for index, (word, has_space) in enumerate(self._words(originals)):
            if index in labels:
                id_ = ids[index]
                current = f"RANDOM:{self._words([id_])[0][0] or '▁'}"
                if id_ in (mask_id, labels[index]):
                    current = "MASK" if id_ == mask_id else "KEPT"
                word = f"[{word or '▁' * has_space}→{current}]"
            text += f" {word}" if has_space and text else word
        return text

    def _words(self, ids: Sequence[int]) -> list[tuple[str, bool]]:
        """Return `word_and_start` of each id.

        Byte pieces: the first byte of a character is replaced by the character,
        its other bytes by nothing.
        """
        pieces = [self.word_and_start(id_) for id_ in ids]
        start = 0
        for is_byte, run in itertools.groupby(pieces, _is_byte):
            words = [word for word, _ in run]
            if is_byte:
                whole = bytes(int(word[3:5], 16) for word in words)
                for part in re.finditer(rb".[\x80-\xbf]*", whole, re.DOTALL):
                    span = slice(start + part.start(), start + part.end())
                    shown = part[0].decode(errors="replace")
                    if not (part[0][1:] or shown.isprintable()):
                        shown = "\ufffd"
                    other_bytes = [("", False)] * (len(part[0]) - 1)
                    pieces[span] = [(shown, False), *other_bytes]
            start += len(words)
        return pieces


def instance_lines(
    features: record_statistics.Features,
    row: int,
    text: PieceText,
    special: record_statistics.SpecialIds,
) -> list[str]:
    """Return one record of a batch as lines of text."""
    record = {name: values[row : row + 1] for name, values in features.items()}
    length = int(record_statistics.lengths(record)[0])
    first = int(record_statistics.first_lengths(record)[0])
    ids = record["input_ids"][0].tolist()
    labels: dict[int, int] = {}
    predictions = "none in the record"
    if record_statistics.PREDICTIONS <= record.keys():
        _, positions, predicted = record_statistics.predictions(record)
        labels = dict(zip(positions.tolist(), predicted.tolist(), strict=True))
        rate = len(positions) / max(length, 1)
        predictions = f"{len(positions)} ({rate:.1%})"
    label = int(record["next_sentence_labels"][0, 0])
    single = "none: a single segment"
    meaning = {
        0: "the segments are in their order" if first < length else single,
        1: "the segments are exchanged, or B is a random one",
        layouts.NO_LABEL: single,
    }.get(label, "not one of 0, 1 and -1")
    in_second = {position - first: id_ for position, id_ in labels.items()}
    return [
        f"  tokens: {length} of {len(ids)}, A: {first}, B: {length - first}; "
        f"predictions: {predictions}",
        f"  sentence-order label: {label} ({meaning})",
        wrap("A", text.join(ids[:first], labels, special.mask_id)),
        wrap("B", text.join(ids[first:length], in_second, special.mask_id)),
    ]


def wrap(name: str, text: str) -> str:
    """Return a named text in lines of 80 characters."""
    return textwrap.fill(
        text,
        80,
        initial_indent=f"  {name}: ",
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def other_lines(features: Mapping[str, Any], text: PieceText) -> list[str]:
    """Return a record of any layout, from `examples.decode`, as lines."""
    lines = []
    for name, content in sorted(features.items()):
        values = list(content)
        shown = ", ".join(
            f"{value:g}" if isinstance(value, np.floating) else str(value)
            for value in values[:_SHOWN_VALUES]
        )
        more = ", ..." if len(values) > _SHOWN_VALUES else ""
        lines.append(f"  {name} [{len(values)}]: {shown}{more}")
        if name == "input_ids":
            mask = features.get("input_mask", ())
            length = int(np.count_nonzero(mask)) or len(values)
            lines.append(wrap("  text", text.join(values[:length], {}, -1)))
    return lines


def is_passage(example: Mapping[str, Any]) -> bool:
    """Tell whether a record, from `examples.decode`, is a passage."""
    features: list[Any]
    features = [example.get(f.name) for f in layouts.passage_layout(3)]
    if not all(getattr(f, "dtype", None) == np.int64 for f in features):
        return False
    tokens, bits, document = (len(values) for values in features)
    return tokens == bits > 0 and document == 1


def count_passage(example: Mapping[str, Any]) -> statistics.Counts:
    """Count a passage; `marks` counts its pieces with each mark of `_MARKS`."""
    counts = [
        np.count_nonzero(example["marks"] & bit) for bit in _MARKS.values()
    ]
    return {
        "passages": 1,
        "pieces": len(example["tokens"]),
        "marks": np.array(counts, np.int64),
    }


def passage_lines(example: Mapping[str, Any], text: PieceText) -> list[str]:
    """Return a passage as lines, a sentence each.

    The first line may be the end of a sentence.
    """
    tokens = example["tokens"].tolist()
    starts = np.flatnonzero(example["marks"] & marks.SENTENCE)
    bounds = [0, *starts[starts > 0].tolist(), len(tokens)]
    lines = [
        f"  document: {example['document'][0]}, tokens: {len(tokens)}, "
        f"sentences: {len(bounds) - 1}"
    ]
    for begin, end in zip(bounds[:-1], bounds[1:], strict=True):
        sentence = text.join(tokens[begin:end], {}, -1)
        lines += textwrap.wrap(
            sentence, 80, initial_indent="  - ", subsequent_indent="    "
        )
    return lines


def count_lines(counts: statistics.Counts) -> list[str]:
    pieces, total = counts["pieces"], counts["passages"]
    marked = zip(_MARKS, counts["marks"].tolist(), strict=True)
    return [
        f"passages: {total:,} of {pieces / total:.1f} pieces on average",
        *(
            f"  {name}: {number:,}, {number / max(1, pieces):.1%} of the pieces"
            for name, number in marked
        ),
    ]


def draw_examples(
    passages: Sequence[Mapping[str, Any]],
    recipe: pretraining_options.RecipeOptions,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int | None = None,
) -> dict[str, np.ndarray]:
    """Draw an example from each passage, as training does.

    Without `max_seq_length`, that of the records, no passage is cut.
    """
    length = max_seq_length
    if length is None:  # With [CLS] and the [SEP] of three segments.
        length = max(len(passage["tokens"]) for passage in passages) + 4
    drawer = pretraining_drawer.make_drawer(
        recipe,
        masking.MaskingOptions(max_predictions_per_seq=length // 6 + 2),
        tokenizer,
        records="passages",
        max_seq_length=length,
        num_segments=2,
    )
    arrays = {
        name: np.stack(
            [np.resize([*p[name], *[0] * length], length - 2) for p in passages]
        )
        for name in ("tokens", "marks")
    }
    arrays["document"] = np.array([p["document"][0] for p in passages])
    seeds = np.arange(len(passages), dtype=np.uint64)
    seeds = random_streams.derive_array(seeds, 0)
    return {**arrays, **drawer.draw(arrays, seeds)}


def drawn_lines(
    drawn: Mapping[str, np.ndarray],
    row: int,
    text: PieceText,
    mask_id: int,
    tasks: Sequence[str],
) -> list[str]:
    """Return row `row` of drawn examples as lines, with its task if any."""
    example = {name: values[row] for name, values in drawn.items()}
    ids = example["input_ids"][example["input_mask"] > 0].tolist()
    lines = []
    if tasks:
        label, number = (
            int(example[name][0])
            for name in ("next_sentence_labels", "sentence_task")
        )
        shown_label = "none" if label == layouts.NO_LABEL else label
        lines.append(f"  {tasks[number]}, label: {shown_label}")
    if "target_ids" in example:
        target = example["target_ids"][example["target_ids"] > 0].tolist()
        return [
            *lines,
            wrap("drawn", text.join(ids, {}, mask_id)),
            wrap("target", text.join(target, {}, mask_id)),
        ]
    positions = example["masked_lm_positions"][example["masked_lm_weights"] > 0]
    labels = dict(
        zip(positions.tolist(), example["masked_lm_ids"].tolist(), strict=False)
    )
    if "ranks" in example:
        ids = example["query_ids"][: len(ids)].tolist()
        order = sorted(labels, key=lambda p: example["ranks"][p])
        targets = [text.word_and_start(labels[p])[0] for p in order]
        words = ", ".join(word or "▁" for word in targets)
        lines.append(wrap("order", words))
    drawn_text = text.join(ids, labels, mask_id)
    return [*lines, wrap("drawn", drawn_text)]
