"""Span corruption: sentinels replace spans of a text, which are the targets.

Source: T5, Raffel et al., arXiv 1910.10683, section 3.1.4; the released
program's random_spans_noise_mask and random_spans_helper.
"""

import dataclasses

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import drawing, layouts, masking

# The last ids of the model, which are no pieces: each stands for a span.
SENTINELS = 100
# Fraction of the pieces that is masked, and pieces of a span, on average.
DENSITY, MEAN_LENGTH = 0.15, 3.0
# Purposes of draws.
_HIDDEN, _KEPT = 30, 31


def count_spans(num_masked: int) -> int:
    """Return how many spans the masked pieces form; half goes to even."""
    return max(1, round(num_masked / MEAN_LENGTH))


def count_masked(length: int) -> int:
    """Return how many of `length` pieces, 2 or more, are masked."""
    return max(1, round(length * DENSITY))


@dataclasses.dataclass(frozen=True)
class SpanDrawer:
    """Replaces spans by sentinels, and lists the spans as targets.

    Text and targets end in [SEP]; the text begins with [CLS], and its other
    [SEP] are left out. So it is shorter than it was, and has one segment. The
    masker says how many pieces are masked at most.
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
        self, records: drawing.Batch, seeds: np.ndarray, step: int | None = None
    ) -> dict[str, np.ndarray]:
        """See `Drawer`; a text of one piece has no target."""
        vocabulary, ids = self.masker.vocabulary, records["input_ids"]
        ordinary = records["input_mask"] > 0
        ordinary &= (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
        texts, mask = np.zeros_like(ids), np.zeros_like(ids, np.int64)
        targets = np.zeros([len(ids), self.target_length], ids.dtype)
        for row in np.flatnonzero(ordinary.any(1)).tolist():
            pieces = ids[row, ordinary[row]]
            text, target = self._corrupt(pieces, int(seeds[row]))
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
        self, pieces: np.ndarray, seed: int
    ) -> tuple[list[int], list[int]]:
        """Return text and target; the target ends in [SEP].

        Example:
            a b c d e f with c and f masked, 100 sentinels, 500 ids:
            a b 499 d e 498; 499 c 498 f [SEP]
        """
        if len(pieces) < 2:
            return pieces.tolist(), []
        num_masked = min(count_masked(len(pieces)), self.masker.num_predictions)
        num_spans = count_spans(num_masked)
        lengths = [
            divide(total, num_spans, random_streams.derive(seed, purpose))
            for total, purpose in (
                (len(pieces) - num_masked, _KEPT),
                (num_masked, _HIDDEN),
            )
        ]
        ends = np.cumsum(np.stack(lengths, 1).ravel())
        text, target = [], []
        last = self.masker.vocabulary.size + SENTINELS - 1
        for index, part in enumerate(np.split(pieces, ends[:-1])):
            if index % 2:
                text.append(last - index // 2)
                target += [last - index // 2, *part.tolist()]
            else:
                text += part.tolist()
        return text, [*target, self.masker.vocabulary.sep_id]


def divide(total: int, num_parts: int, seed: int) -> np.ndarray:
    """Return the lengths of random parts, 1 or more, all equally likely."""
    draws = random_streams.uniform(
        np.array([seed], np.uint64), np.arange(total - 1)
    )
    cuts = np.sort(np.argsort(draws)[: num_parts - 1]) + 1
    return np.diff(cuts, prepend=0, append=total)
