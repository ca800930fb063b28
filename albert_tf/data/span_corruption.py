"""Span corruption: spans of a text are replaced, and are what is predicted.

Source: T5, Raffel et al., arXiv 1910.10683, section 3.1.4; the released
program's random_spans_noise_mask and random_spans_helper.
"""

import dataclasses

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import drawing, layouts, masking

# The last ids of the model, which are no pieces: each stands for a span.
SENTINELS = 100
# Share of the pieces that is hidden, and pieces of a span, on average.
DENSITY, MEAN_LENGTH = 0.15, 3.0
# Purposes of draws.
_HIDDEN, _KEPT = 30, 31


def count_spans(hidden: int) -> int:
    """Return how many spans the hidden pieces form; half goes to even."""
    return max(1, round(hidden / MEAN_LENGTH))


def count_hidden(length: int) -> int:
    """Return how many of 2 pieces or more are hidden; half goes to even."""
    return max(1, round(length * DENSITY))


@dataclasses.dataclass(frozen=True)
class SpanDrawer:
    """Replaces spans by sentinels, and lists them.

    Both lists end in [SEP]; the text begins with [CLS], and its other [SEP] are
    left out. So it is shorter than it was, and has one segment. The masker says
    how many pieces are hidden at most.
    """

    masker: masking.Masker
    max_seq_length: int
    drops: tuple[str, ...] = ()

    @property
    def target_length(self) -> int:
        """Tokens of the longest target."""
        most = self.masker.num_predictions
        return most + count_spans(most) + 1

    @property
    def makes(self) -> layouts.Layout:
        """See `Drawer`; `target_ids` are padded with 0, as the text is."""
        sequence = (self.max_seq_length,)
        names = "input_ids", "input_mask", "segment_ids"
        return (
            *(layouts.Feature(name, sequence, "int64") for name in names),
            layouts.Feature("target_ids", (self.target_length,), "int64"),
        )

    def draw(
        self, records: drawing.Arrays, keys: np.ndarray, step: int | None = None
    ) -> dict[str, np.ndarray]:
        """See `Drawer`; a text of one piece has no target."""
        vocabulary, ids = self.masker.vocabulary, records["input_ids"]
        ordinary = records["input_mask"] > 0
        ordinary &= (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
        texts, mask = np.zeros_like(ids), np.zeros_like(ids, np.int64)
        targets = np.zeros([len(ids), self.target_length], ids.dtype)
        for row in np.flatnonzero(ordinary.any(1)).tolist():
            pieces = ids[row, ordinary[row]]
            text, target = self._corrupt(pieces, int(keys[row]))
            text = [vocabulary.cls_id, *text, vocabulary.sep_id]
            texts[row, : len(text)] = text
            mask[row, : len(text)] = 1
            targets[row, : len(target)] = target
        return {
            "input_ids": texts,
            "input_mask": mask,
            "segment_ids": np.zeros_like(texts),
            "target_ids": targets,
        }

    def _corrupt(
        self, pieces: np.ndarray, key: int
    ) -> tuple[list[int], list[int]]:
        """Return text and target; the target ends in [SEP].

        Example:
            a b c d e f with c and f hidden, 100 sentinels, 500 ids:
            a b 499 d e 498; 499 c 498 f [SEP]
        """
        if len(pieces) < 2:
            return pieces.tolist(), []
        hidden = min(count_hidden(len(pieces)), self.masker.num_predictions)
        spans = count_spans(hidden)
        parts = [
            cut(total, spans, random_streams.derive(key, purpose))
            for total, purpose in (
                (len(pieces) - hidden, _KEPT),
                (hidden, _HIDDEN),
            )
        ]
        ends = np.cumsum(np.stack(parts, 1).ravel())
        text, target = [], []
        last = self.masker.vocabulary.size + SENTINELS - 1
        for number, part in enumerate(np.split(pieces, ends[:-1])):
            if number % 2:
                text.append(last - number // 2)
                target += [last - number // 2, *part.tolist()]
            else:
                text += part.tolist()
        return text, [*target, self.masker.vocabulary.sep_id]


def cut(total: int, parts: int, key: int) -> np.ndarray:
    """Return the lengths of parts, at least 1 each; all are equally likely."""
    draws = random_streams.uniform(
        np.array([key], np.uint64), np.arange(total - 1)
    )
    places = np.sort(np.argsort(draws)[: parts - 1]) + 1
    return np.diff(places, prepend=0, append=total)
