"""Show passages as lines of text, and count what their marks say."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.data import layouts, marks
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
