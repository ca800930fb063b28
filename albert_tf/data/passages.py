"""Examples drawn from passages: segments, a label, masked pieces.

Dimensions: n passages, C pieces of one, S positions. Marked ids are ids with
the bits of `marks` below them: `id << marks.BITS | flags`.
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
        mask_stages: Level of `marks.LEVELS` whose units are masked as a whole,
            by step. Default: words.
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
        """See `Drawer`; `marks` are those of positions, 0 where one is masked.

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
        self, records: drawing.Batch, seeds: np.ndarray, step: int | None = None
    ) -> drawing.Batch:
        """See `Drawer`; partners are other passages of the batch."""
        lengths = np.count_nonzero(records["tokens"], axis=1)
        marked = records["tokens"].astype(np.int64) << marks.BITS
        marked |= records["marks"]
        passages = [
            ids[:length] for ids, length in zip(marked, lengths, strict=True)
        ]
        partners = self._partners(passages, records["document"])
        size, length = len(passages), self.masks.max_seq_length
        marked_ids = np.zeros((size, length), np.int64)
        segments = np.zeros((size, length), np.int64)
        labels = np.full((size, 1), layouts.NO_LABEL)
        tasks = np.zeros((size, 1), np.int64)
        task_numbers = self._task_numbers(step)
        vocabulary = self.masks.masker.vocabulary
        for row in np.flatnonzero(lengths).tolist():
            draws = random_streams.Stream(
                random_streams.derive(int(seeds[row]), _ARRANGE)
            )
            segments_of_row, ids, labels[row], tasks[row] = self._arrange(
                passages[row],
                [of_task[row] for of_task in partners],
                draws,
                task_numbers,
            )
            marked_ids[row, 0] = vocabulary.cls_id << marks.BITS
            begin = 1
            for segment, id_ in zip(segments_of_row, ids, strict=True):
                end = begin + len(segment)
                marked_ids[row, begin:end] = segment
                marked_ids[row, end] = vocabulary.sep_id << marks.BITS
                segments[row, begin : end + 1] = min(id_, self.num_segments - 1)
                begin = end + 1
        if self.task_embeddings:
            segments += self.num_segments * tasks * (marked_ids > 0)
        return self._masked_features(marked_ids, seeds, step) | {
            "segment_ids": segments,
            "next_sentence_labels": labels,
            "sentence_task": tasks,
        }

    def _task_numbers(self, step: int | None) -> list[int]:
        """Return indices of tasks, each repeated: "1/2" gives [0, 1, 1]."""
        if step is None or not self.task_stages:
            return list(range(len(self.tasks)))
        weights = stages.value_at(self.task_stages, step).split("/")
        return [n for n, w in enumerate(weights) for _ in range(int(w))]

    def _partners(
        self, passages: Sequence[np.ndarray], documents: np.ndarray
    ) -> list[list[np.ndarray]]:
        """Return each passage's partner, or nothing, for each task."""
        counts = np.array([*map(arrangements.count_sentences, passages)])
        partners = []
        for name in self.tasks:
            task = arrangements.ARRANGEMENTS[name]
            rows = find_partners(documents, counts >= task.least_sentences)
            nothing = passages[0][:0]
            partners.append([passages[n] if n >= 0 else nothing for n in rows])
        return partners

    def _arrange(
        self,
        marked_ids: np.ndarray,
        partners: Sequence[np.ndarray],
        draws: random_streams.Stream,
        task_numbers: Sequence[int],
    ) -> tuple[list[np.ndarray], list[int], int, int]:
        """Draw a task; return segments, segment ids, label, and its index."""
        if not task_numbers:
            return [marked_ids], [0], layouts.NO_LABEL, 0
        number = task_numbers[draws.randint(0, len(task_numbers) - 1)]
        task = arrangements.ARRANGEMENTS[self.tasks[number]]
        # Room for the [SEP] of each segment.
        room = self.masks.max_seq_length - 1 - task.most_segments
        both = marked_ids[:room], partners[number][:room]
        passage = arrangements.Passage(*both, draws, room, self.markers)
        segments, label = task.arrange(passage)
        ids = list(range(len(segments)))
        if task.by_speaker:
            ids = [int((s & marks.RESPONSE).any()) for s in segments]
        return segments, ids, label, number

    def _masked_features(
        self, marked_ids: np.ndarray, seeds: np.ndarray, step: int | None
    ) -> dict[str, np.ndarray]:
        """Mask some pieces of marked ids [n, S]; return the features of all."""
        vocabulary = self.masks.masker.vocabulary
        ids = marked_ids >> marks.BITS
        flags = marked_ids & (1 << marks.BITS) - 1
        special = (ids == vocabulary.cls_id) | (ids == vocabulary.sep_id)
        word_starts = unit_starts = special | (flags & marks.WORD > 0)
        if self.mask_stages:
            level = stages.value_at(self.mask_stages, step)
            unit_starts = special | marks.unit_starts(level, flags)
            # A segment may begin inside a phrase: its rest is a unit, too.
            unit_starts[:, 1:] |= special[:, :-1]
        input_mask = (ids > 0).astype(np.int64)
        masked = self.masks.masked_features(
            ids, input_mask.sum(1), unit_starts.astype(np.uint8), seeds
        )
        # Masked pieces do not count in the losses on marks.
        rows, columns = np.nonzero(masked["masked_lm_weights"])
        flags[rows, masked["masked_lm_positions"][rows, columns]] = 0
        return masked | {
            "input_mask": input_mask,
            "token_boundary": word_starts,
            "marks": flags,
        }


def find_partners(documents: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Return for each passage the next one of another document, int64 [n].

    The first follows the last; -1: there is none.

    Example:
        documents 7, 7, 8, all candidates: 2, 2, 0; of one document: -1, -1, -1

    Passages that are not a candidate, bool [n], have no partner and are none.
    """
    partners = np.full(len(documents), -1)
    candidates = np.flatnonzero(candidate).tolist()
    partner = -1
    # Backwards, twice around, so that the last passages see the first.
    ring = candidates * 2
    for row, next_row in zip(ring[-2::-1], ring[:0:-1], strict=True):
        if documents[next_row] != documents[row]:
            partner = next_row
        partners[row] = partner
    return partners
