"""Long texts in windows: each is learnt with the label of its text.

The outputs for the windows of a text are pooled when it is scored or predicted,
not in training. So a long text is learnt as often as it has windows.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.common import ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import overlaps
from albert_tf.finetuning.glue.glue_data import TextExample

FIRST, MEAN, MAX = "first", "mean", "max"


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="windows window_stride")
class WindowOptions:
    """What is done with texts that are longer than a sequence."""

    windows: str = option(
        FIRST,
        "What is read of a text that is longer than --max_seq_length. first: "
        "its beginning. mean, max: all of it, in windows, of whose outputs "
        "for each label (logits) the mean or the largest counts. Scores and "
        "--class_weights count texts, not windows.",
        choices=(FIRST, MEAN, MAX),
    )
    window_stride: int | None = option(
        None,
        "Pieces from the start of one window to that of the next. Default: "
        "half a window.",
        within=ranges.Range(1, 10**6),
        needs="windows=mean|max",
    )

    @property
    def is_divided(self) -> bool:
        return self.windows != FIRST

    def stride(self, max_seq_length: int) -> int:
        """Return the pieces from the start of one window to the next."""
        return self.window_stride or overlaps.stride(max_seq_length)


def divide(
    task: Any, examples: Sequence[TextExample]
) -> list[list[Sequence[int]]]:
    """Return the pieces of each window of each text; one window at least."""
    limit = task.max_seq_length - overlaps.NUM_SPECIAL
    stride = task.options.long.stride(task.max_seq_length)
    texts = [example.texts[0] for example in examples]
    return [
        [
            ids[begin : begin + length]
            for begin, length in overlaps.split(len(ids), limit, stride)
            or ((0, 0),)
        ]
        for ids in task.tokenizer.encode_batch(texts)
    ]


def pool(outputs: np.ndarray, counts: Sequence[int], how: str) -> np.ndarray:
    """Return the mean or the largest outputs of the windows of each text.

    Example:
        pool([[0, 1], [4, 3], [5, 5]], [2, 1], "mean") = [[2, 2], [5, 5]]
    """
    sizes = np.array(counts, np.int64)
    starts = sizes.cumsum() - sizes
    if how == MAX:
        return np.maximum.reduceat(outputs, starts)
    sums = np.add.reduceat(outputs, starts)
    return sums / sizes.astype(outputs.dtype)[:, None]
