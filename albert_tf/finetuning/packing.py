"""Two texts to the ids of one sequence."""

from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.text import tokenization

# The features of a packed sequence.
NAMES = ("input_ids", "input_mask", "segment_ids")


def max_pieces(second: Sequence[int], max_seq_length: int) -> int:
    """Return how many pieces fit together with `[CLS]` and `[SEP]`."""
    return max_seq_length - (3 if second else 2)


def pack_all(
    pairs: Iterable[Sequence[Sequence[int]]],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Do what `pack` does for each pair; return int64 [pairs, S]."""
    rows = [pack(one, two, tokenizer, max_seq_length) for one, two in pairs]
    return {name: np.stack([row[name] for row in rows]) for name in NAMES}


def pack(
    first: Sequence[int],
    second: Sequence[int],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Build `[CLS] first [SEP] second [SEP]`, cut and padded to full length.

    While the two are too long, the last piece of the longer one goes; of the
    second when they are equal. Without a second text: `[CLS] first [SEP]`.

    Example, max_seq_length 8, [CLS] 2, [SEP] 3:
        first  = [11, 12, 13], second = [21, 22, 23]
        input_ids   = [2, 11, 12, 13, 3, 21, 22, 3]
        input_mask  = [1,  1,  1,  1, 1,  1,  1, 1]
        segment_ids = [0,  0,  0,  0, 0,  1,  1, 1]

    Source: original release, classifier_utils.convert_single_example.

    Returns:
        The features `NAMES`, int64 [max_seq_length], padded with 0.
    """
    first, second = list(first), list(second)
    limit = max_pieces(second, max_seq_length)
    while len(first) + len(second) > limit:
        (first if len(first) > len(second) else second).pop()
    front = [tokenizer.cls_id, *first, tokenizer.sep_id]
    back = [*second, tokenizer.sep_id] if second else []
    packed = np.zeros([3, max_seq_length], np.int64)
    packed[0, : len(front) + len(back)] = front + back
    packed[1, : len(front) + len(back)] = 1
    packed[2, len(front) : len(front) + len(back)] = 1
    return dict(zip(NAMES, packed, strict=True))
