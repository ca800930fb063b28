"""Pieces to `[CLS] first [SEP] second [SEP]`, and tasks of such records."""

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
    """Return how many pieces fit beside `[CLS]` and one or two `[SEP]`."""
    return max_seq_length - (3 if len(second) else 2)


def pack(
    pairs: Iterable[Pair],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Build `[CLS] first [SEP] second [SEP]` for each pair, cut and padded.

    Until two texts fit, the longer one, of equal ones the second, loses its
    last piece. Without a second text: `[CLS] first [SEP]`.

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
        num_first, num_second = len(first), len(second)
        while num_first + num_second > limit:
            if num_first > num_second:
                num_first -= 1
            else:
                num_second -= 1
        second_start = length = num_first + 2
        ids, mask, segments = packed[:, row]
        ids[0] = tokenizer.cls_id
        ids[1 : second_start - 1] = first[:num_first]
        ids[second_start - 1] = tokenizer.sep_id
        if num_second:
            length = second_start + num_second + 1
            ids[second_start : length - 1] = second[:num_second]
            ids[length - 1] = tokenizer.sep_id
        mask[:length] = 1
        segments[second_start:length] = 1
    return dict(zip(NAMES, packed, strict=True))


class PackedTask(base.Task):
    """A task whose records have one sequence or several."""

    @abc.abstractmethod
    def pieces(
        self, examples: Sequence[base.Example]
    ) -> list[tuple[base.Example, Sequence[int], Sequence[int]]]:
        """Return the example and the pieces of both texts of each sequence.

        Those of a record, as many as the layout says, follow each other.
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
            sequences = self.pieces(examples[start : start + _BATCH])
            for example, *pair in sequences:  # Several may be of one example.
                limit = max_pieces(pair[1], self.max_seq_length)
                if sum(map(len, pair)) > limit and example not in cut[-1:]:
                    cut.append(example)
                if not any(map(len, pair)) and example not in empty[-1:]:
                    empty.append(example)
            pairs = ((first, second) for _, first, second in sequences)
            packed = pack(pairs, self.tokenizer, self.max_seq_length)
            each = math.prod(shape[:-1])  # Sequences of a record.
            record_examples = [example for example, *_ in sequences[::each]]
            values: dict[str, Any] = {
                **{k: rows.reshape(-1, *shape) for k, rows in packed.items()},
                "label_ids": self.label_ids(record_examples),
                "is_real_example": np.ones(len(record_examples), np.int64),
            }
            yield {feature.name: values[feature.name] for feature in layout}
        self.remark(
            f"examples are longer than `max_seq_length={self.max_seq_length}` "
            "and cut.",
            [example.guid for example in cut],
        )
        self.remark(EMPTY, [example.guid for example in empty])
