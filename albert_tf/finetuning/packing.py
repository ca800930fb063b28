"""Texts to the ids of sequences, and tasks whose records are such sequences."""

import abc
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import base
from albert_tf.text import tokenization

# The features of a packed sequence.
NAMES = ("input_ids", "input_mask", "segment_ids")
_BATCH = 256  # Examples that are featurized together.
# A remark about examples.
EMPTY = "examples have an empty text, or one that cleaning empties."

Pieces = Sequence[int] | np.ndarray
Pair = tuple[Pieces, Pieces]


@dataclasses.dataclass(frozen=True)
class TextExample:
    """One text, or two or three that belong together, with a label.

    Attributes:
        texts: Of a pair both. Of a triplet a text, one that is closer and one
            that is farther.
        label: Index of the right label, or the right number; of tables with
            several labels their indices; None where it is not known.
    """

    guid: Any  # See `rows.key_of`.
    texts: tuple[str, ...]
    label: Any = None


def max_pieces(second: Pieces, max_seq_length: int) -> int:
    """Return how many pieces fit together with `[CLS]` and `[SEP]`."""
    return max_seq_length - (3 if len(second) else 2)


def pack(
    pairs: Iterable[Pair],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Build `[CLS] first [SEP] second [SEP]` for each pair, cut and padded.

    While the two are too long, the last piece of the longer one goes; of the
    second when they are equal. Without a second text: `[CLS] first [SEP]`.

    Example, max_seq_length 8, [CLS] 2, [SEP] 3:
        first  = [11, 12, 13], second = [21, 22, 23]
        input_ids   = [2, 11, 12, 13, 3, 21, 22, 3]
        input_mask  = [1,  1,  1,  1, 1,  1,  1, 1]
        segment_ids = [0,  0,  0,  0, 0,  1,  1, 1]

    Source: original release, classifier_utils.convert_single_example.

    Returns:
        The features `NAMES`, int64 [pairs, max_seq_length], padded with 0.
    """
    pairs = list(pairs)
    packed = np.zeros([3, len(pairs), max_seq_length], np.int64)
    for row, (first, second) in enumerate(pairs):
        limit = max_pieces(second, max_seq_length)
        front, back = len(first), len(second)
        while front + back > limit:
            if front > back:
                front -= 1
            else:
                back -= 1
        middle = stop = front + 2
        ids, mask, segments = packed[:, row]
        ids[0] = tokenizer.cls_id
        ids[1 : middle - 1] = first[:front]
        ids[middle - 1] = tokenizer.sep_id
        if back:
            stop = middle + back + 1
            ids[middle : stop - 1] = second[:back]
            ids[stop - 1] = tokenizer.sep_id
        mask[:stop] = 1
        segments[middle:stop] = 1
    return dict(zip(NAMES, packed, strict=True))


class PackedTask(base.Task):
    """A task whose records have one sequence or several."""

    @abc.abstractmethod
    def pieces(
        self, examples: Sequence[base.Example]
    ) -> list[tuple[base.Example, Sequence[int], Sequence[int]]]:
        """Return the pieces of both texts of each sequence, with its example.

        The sequences of a record, as many as the layout says, come in a row.
        """

    @abc.abstractmethod
    def label_ids(self, examples: Sequence[base.Example]) -> np.ndarray:
        """Return the labels as records have them, [examples, ...]."""

    def featurize(
        self, examples: Sequence[base.Example], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        layout = self.layout(split)
        shape = layout[0].shape
        cut: list[base.Example] = []
        empty: list[base.Example] = []
        for start in range(0, len(examples), _BATCH):
            part = self.pieces(examples[start : start + _BATCH])
            for example, *pair in part:  # Several may be of one example.
                longest = max_pieces(pair[1], self.max_seq_length)
                if sum(map(len, pair)) > longest and example not in cut[-1:]:
                    cut.append(example)
                if not any(map(len, pair)) and example not in empty[-1:]:
                    empty.append(example)
            pairs = ((first, second) for _, first, second in part)
            packed = pack(pairs, self.tokenizer, self.max_seq_length)
            owners = [example for example, *_ in part[:: math.prod(shape[:-1])]]
            values: dict[str, Any] = {
                **{k: rows.reshape(-1, *shape) for k, rows in packed.items()},
                "label_ids": self.label_ids(owners),
                "is_real_example": np.ones(len(owners), np.int64),
            }
            yield {feature.name: values[feature.name] for feature in layout}
        self.remark(
            f"examples are longer than `max_seq_length={self.max_seq_length}` "
            "and cut.",
            [example.guid for example in cut],
        )
        self.remark(EMPTY, [example.guid for example in empty])
