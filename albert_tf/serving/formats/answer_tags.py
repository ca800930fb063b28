"""A part of answer.py, copied beside it: spans of a text of any length."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import overlaps, probabilities, tag_spans
from albert_tf.text import words


class Task:
    """How requests become pieces, and outputs for these answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._labels = about["max_seq_length"], about["labels"]
        self._tokenizer = tokenizer

    def lay_out(self, text: str) -> tuple[list[tuple[list[int]]], Any]:
        """Return the pieces of each window, and what the answer needs."""
        ids, starts, ends = self._tokenizer.encode_with_offsets(text)
        edges = (edge.tolist() for edge in words.ranges(text))
        places = [*zip(*edges, strict=True)]
        pieces = tag_spans.find_pieces(places, starts, ends)
        limit = self._longest - overlaps.NUM_SPECIAL
        stride = overlaps.stride(self._longest)
        windows = overlaps.split(len(ids), limit, stride)
        rows = [(ids[i : i + n].tolist(),) for i, n in windows]
        return rows, (text, places, pieces, windows, len(ids))

    def conclude(
        self, rest: Any, found: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each window."""
        text, places, pieces, windows, total = rest
        chances = np.zeros([total, len(self._labels)])
        counts = overlaps.max_context(windows)
        for (begin, n), best, outputs in zip(
            windows, counts, found, strict=True
        ):
            values = probabilities.softmax(outputs["logits"][1 : n + 1])
            chances[begin : begin + n][best] = values[best]
        first, goes_on = pieces
        tags = tag_spans.tags_of_words(chances, first, goes_on, self._labels)
        sizes = (len(character.encode()) for character in text)
        byte = [0, *itertools.accumulate(sizes)]
        spans = []
        for span in tag_spans.spans(text, places, tags):
            for name in ("start", "end"):
                span[f"{name}_byte"] = byte[span[name]]
            spans.append(dict(sorted(span.items())))
        return {"spans": spans}
