"""Show passages as lines of text, and what training draws from them.

What their marks say is counted.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import layouts, marks, masking
from albert_tf.text import tokenization
from albert_tf.training import pretraining_drawer, pretraining_options
from data_prep.inspection import record_text
from data_prep.writer import statistics

_NAMES = {
    "words": marks.WORD,
    "sentences": marks.SENTENCE,
    "documents": marks.DOCUMENT,
    "upper-case letters": marks.UPPER,
    "pieces that the document has elsewhere, too": marks.ELSEWHERE,
    "pieces that continue a phrase": marks.PHRASE,
    "pieces that continue an entity": marks.ENTITY,
    "pieces of responses": marks.RESPONSE,
}


def is_passage(example: Mapping[str, Any]) -> bool:
    """Tell whether a record, from `examples.decode`, is a passage."""
    found: list[Any]
    found = [example.get(f.name) for f in layouts.passage_layout(3)]
    if not all(getattr(f, "dtype", None) == np.int64 for f in found):
        return False
    tokens, bits, document = (len(values) for values in found)
    return tokens == bits > 0 and document == 1


def count(example: Mapping[str, Any]) -> statistics.Counts:
    """Count a passage; `marks` has a number for each of the marks."""
    found = [
        np.count_nonzero(example["marks"] & bit) for bit in _NAMES.values()
    ]
    return {
        "passages": 1,
        "pieces": len(example["tokens"]),
        "marks": np.array(found, np.int64),
    }


def passage_lines(
    example: Mapping[str, Any], text: record_text.PieceText
) -> list[str]:
    """Return a passage as lines, a sentence each.

    What a document continues with has no new line before it.
    """
    tokens = example["tokens"].tolist()
    starts = np.flatnonzero(example["marks"] & marks.SENTENCE)
    bounds = [0, *starts[starts > 0].tolist(), len(tokens)]
    found = [
        f"  document: {example['document'][0]}, tokens: {len(tokens)}, "
        f"sentences: {len(bounds) - 1}"
    ]
    for begin, end in zip(bounds[:-1], bounds[1:], strict=True):
        sentence = text.join(tokens[begin:end], {}, -1)
        found += textwrap.wrap(
            sentence, 80, initial_indent="  - ", subsequent_indent="    "
        )
    return found


def lines(counts: statistics.Counts) -> list[str]:
    pieces, total = counts["pieces"], counts["passages"]
    marked = zip(_NAMES, counts["marks"].tolist(), strict=True)
    return [
        f"passages: {total:,} of {pieces / total:.1f} pieces on average",
        *(
            f"  {name}: {number:,}, {number / max(1, pieces):.1%} of the pieces"
            for name, number in marked
        ),
    ]


def draw(
    passages: Sequence[Mapping[str, Any]],
    recipe: pretraining_options.RecipeOptions,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int | None = None,
) -> dict[str, np.ndarray]:
    """Return an example of each passage.

    Without a length, that of the records, no passage loses its end.
    """
    length = max_seq_length
    if length is None:  # With [CLS] and the [SEP] of three segments.
        length = max(len(passage["tokens"]) for passage in passages) + 4
    drawer = pretraining_drawer.make(
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
    keys = np.arange(len(passages), dtype=np.uint64)
    keys = random_streams.derive_array(keys, 0)
    return {**arrays, **drawer.draw(arrays, keys)}


def drawn_lines(
    drawn: Mapping[str, np.ndarray],
    row: int,
    text: record_text.PieceText,
    mask_id: int,
    tasks: Sequence[str],
) -> list[str]:
    """Return an example, of one of the tasks if there are any, as lines."""
    one = {name: values[row] for name, values in drawn.items()}
    ids = one["input_ids"][one["input_mask"] > 0].tolist()
    found = []
    if tasks:
        label, number = (
            int(one[name][0])
            for name in ("next_sentence_labels", "sentence_task")
        )
        known = "none" if label == layouts.NO_LABEL else label
        found.append(f"  {tasks[number]}, label: {known}")
    if "target_ids" in one:
        target = one["target_ids"][one["target_ids"] > 0].tolist()
        return [
            *found,
            record_text.wrap("drawn", text.join(ids, {}, mask_id)),
            record_text.wrap("target", text.join(target, {}, mask_id)),
        ]
    places = one["masked_lm_positions"][one["masked_lm_weights"] > 0]
    labels = dict(
        zip(places.tolist(), one["masked_lm_ids"].tolist(), strict=False)
    )
    if "ranks" in one:
        ids = one["query_ids"][: len(ids)].tolist()
        order = sorted(labels, key=lambda place: one["ranks"][place])
        asked = [text.word_and_start(labels[place])[0] for place in order]
        words = ", ".join(word or "▁" for word in asked)
        found.append(record_text.wrap("order", words))
    drawn_text = text.join(ids, labels, mask_id)
    return [*found, record_text.wrap("drawn", drawn_text)]
