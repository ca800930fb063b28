"""Examples drawn from passages: segments, a label, hidden pieces.

Dimensions in comments: n passages, C pieces of one, S positions.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import arrangements, drawing, layouts, marks, stages

# Purpose of the draws; those of the masker are below 10.
_ARRANGE = 10


@dataclasses.dataclass(frozen=True)
class PassageDrawer:
    """Makes an example of each passage.

    Attributes:
        tasks: Names of `ARRANGEMENTS`; each example has one of them. Without
            any, the whole passage is one segment.
        num_segments: Segment ids that an example may have; further segments
            have the last one.
        task_stages: How often each task is drawn, such as "1/3", by step.
            Later tasks are not. Evaluation and default: all equally often.
        mask_stages: What is hidden at once, by step. Default: words.
        task_embeddings: Whether each task has `num_segments` ids of its own,
            one task after the other.
    """

    masks: drawing.Masks
    tasks: Sequence[str]
    num_segments: int
    task_stages: Sequence[stages.Stage] = ()
    mask_stages: Sequence[stages.Stage] = ()
    markers: arrangements.Markers = dataclasses.field(default_factory=dict)
    task_embeddings: bool = False
    drops: tuple[str, ...] = ("tokens", "document")

    @property
    def makes(self) -> layouts.Layout:
        """See `Drawer`; `marks` are those of positions, 0 where one is hidden.

        `sentence_task`, [1], is the number of the task.
        """
        length, masker = self.masks.max_seq_length, self.masks.masker
        layout = layouts.pretraining_layout(length, masker.num_predictions)
        return (
            *layout,
            layouts.Feature("marks", (length,), "int64"),
            layouts.Feature("sentence_task", (1,), "int64"),
        )

    def draw(
        self, records: drawing.Arrays, keys: np.ndarray, step: int | None = None
    ) -> drawing.Arrays:
        """See `Drawer`; partners are other passages of the batch."""
        lengths = np.count_nonzero(records["tokens"], axis=1)
        marked = records["tokens"].astype(np.int64) << marks.BITS
        marked |= records["marks"]
        rows = [
            row[:length] for row, length in zip(marked, lengths, strict=True)
        ]
        partners = self._partners(rows, records["document"])
        size, length = len(rows), self.masks.max_seq_length
        pieces = np.zeros((size, length), np.int64)
        segments = np.zeros((size, length), np.int64)
        labels = np.full((size, 1), layouts.NO_LABEL)
        numbers = np.zeros((size, 1), np.int64)
        task_numbers = self._drawn_tasks(step)
        vocabulary = self.masks.masker.vocabulary
        for row in np.flatnonzero(lengths).tolist():
            draws = random_streams.Stream(
                random_streams.derive(int(keys[row]), _ARRANGE)
            )
            parts, ids, labels[row], numbers[row] = self._arrange(
                rows[row],
                [of_task[row] for of_task in partners],
                draws,
                task_numbers,
            )
            pieces[row, 0] = vocabulary.cls_id << marks.BITS
            begin = 1
            for part, id_ in zip(parts, ids, strict=True):
                end = begin + len(part)
                pieces[row, begin:end] = part
                pieces[row, end] = vocabulary.sep_id << marks.BITS
                segments[row, begin : end + 1] = min(id_, self.num_segments - 1)
                begin = end + 1
        if self.task_embeddings:
            segments += self.num_segments * numbers * (pieces > 0)
        return self._hide(pieces, keys, step) | {
            "segment_ids": segments,
            "next_sentence_labels": labels,
            "sentence_task": numbers,
        }

    def _drawn_tasks(self, step: int | None) -> list[int]:
        """Return the numbers of tasks, each as often as its share."""
        if step is None or not self.task_stages:
            return list(range(len(self.tasks)))
        shares = stages.at(self.task_stages, step).split("/")
        return [n for n, s in enumerate(shares) for _ in range(int(s))]

    def _partners(
        self, rows: Sequence[np.ndarray], documents: np.ndarray
    ) -> list[list[np.ndarray]]:
        """Return each passage's partner, or nothing, for each task."""
        sentences = np.array([arrangements.count_sentences(r) for r in rows])
        partners = []
        for name in self.tasks:
            task = arrangements.ARRANGEMENTS[name]
            is_fine = sentences >= task.least_sentences
            places = find_partners(documents, is_fine)
            partners.append(
                [rows[n] if n >= 0 else rows[0][:0] for n in places]
            )
        return partners

    def _arrange(
        self,
        pieces: np.ndarray,
        partners: Sequence[np.ndarray],
        draws: random_streams.Stream,
        task_numbers: Sequence[int],
    ) -> tuple[list[np.ndarray], list[int], int, int]:
        """Return segments, their ids, label and number of a drawn task."""
        if not task_numbers:
            return [pieces], [0], layouts.NO_LABEL, 0
        number = task_numbers[draws.randint(0, len(task_numbers) - 1)]
        task = arrangements.ARRANGEMENTS[self.tasks[number]]
        # Room for the [SEP] of each segment.
        room = self.masks.max_seq_length - 1 - task.most_segments
        both = pieces[:room], partners[number][:room]
        passage = arrangements.Passage(*both, draws, room, self.markers)
        parts, label = task.arrange(passage)
        ids = list(range(len(parts)))
        if task.by_speaker:
            ids = [int((part & marks.RESPONSE).any()) for part in parts]
        return parts, ids, label, number

    def _hide(
        self, pieces: np.ndarray, keys: np.ndarray, step: int | None
    ) -> dict[str, np.ndarray]:
        """Return the features that follow from pieces [n, S]; hide some."""
        vocabulary = self.masks.masker.vocabulary
        ids, mark_bits = pieces >> marks.BITS, pieces & (1 << marks.BITS) - 1
        special = (ids == vocabulary.cls_id) | (ids == vocabulary.sep_id)
        starts = units = special | (mark_bits & marks.WORD > 0)
        if self.mask_stages:
            level = stages.at(self.mask_stages, step)
            units = special | marks.unit_starts(level, mark_bits)
            units[:, 1:] |= special[:, :-1]
        real = (ids > 0).astype(np.int64)
        hidden = self.masks.hide(ids, real.sum(1), units.astype(np.uint8), keys)
        rows, columns = np.nonzero(hidden["masked_lm_weights"])
        mark_bits[rows, hidden["masked_lm_positions"][rows, columns]] = 0
        return hidden | {
            "input_mask": real,
            "token_boundary": starts,
            "marks": mark_bits,
        }


def find_partners(documents: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return the next passage of another document, the first after the last.

    Example:
        documents 7, 7, 8, all real: 2, 2, 0; of one document: -1, -1, -1

    It is -1 where there is none, int64 [n]. Passages that are not `real`, bool
    [n], have no partner and are none.
    """
    partners = np.full(len(documents), -1)
    places = np.flatnonzero(real).tolist()
    following = -1
    ring = places * 2
    for here, after in zip(ring[-2::-1], ring[:0:-1], strict=True):
        if documents[after] != documents[here]:
            following = after
        partners[here] = following
    return partners
