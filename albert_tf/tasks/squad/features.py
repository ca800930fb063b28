"""SQuAD questions to windows over their paragraphs, and windows to records.

The second step of a SQuAD run. A paragraph that is too long for one sequence
is divided into overlapping windows:

    [CLS] question [SEP] window [SEP] padding

A paragraph is cut into pieces once for all of its questions, and the tokenizer
says which characters each piece comes from. So the time grows with the length
of the text.

Source: the original's squad_utils.convert_examples_to_features.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts, tfrecord
from albert_tf.finetuning import packing
from albert_tf.tasks.squad import data, portable
from albert_tf.tasks.squad.portable import NUM_SPECIAL, Pieces, Windows
from albert_tf.text import tokenization

FIRST_UNIQUE_ID = 1_000_000_000
# Bytes of the number at the end of a message.
_NUMBER = 5
_BLOCK = 1024  # Windows that become arrays together; bounds the memory.


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="doc_stride max_query_length")
class PassageWindows:
    """How questions and paragraphs are cut."""

    doc_stride: int = option(
        128,
        "Pieces from the start of one window to the start of the next.",
        within=ranges.TOKENS,
    )
    max_query_length: int = option(
        64,
        "Pieces of a question; longer ones are cut, and counted.",
        within=ranges.TOKENS,
    )

    def check_length(self, max_seq_length: int) -> None:
        if max_seq_length <= self.max_query_length + NUM_SPECIAL:
            raise errors.UserError(
                f"`max_seq_length={max_seq_length}` leaves no tokens for the "
                f"paragraph beside `max_query_length={self.max_query_length}` "
                f"and {NUM_SPECIAL} special tokens. Use a smaller "
                "`max_query_length`, or longer sequences where the model has "
                "the positions; the original has 384 and 64."
            )


def squad_layout(max_seq_length: int, *, is_training: bool) -> layouts.Layout:
    """Return the features of a window over a paragraph.

    Source: the original's squad_utils.FeatureWriter.

    Returns:
        `unique_ids` scalar, counts the windows from 1,000,000,000 on;
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0;
        `p_mask` [S], 1 where no answer may begin or end: question, markers but
        [CLS], padding; in training also the scalars `start_positions`,
        `end_positions`, positions of the answer's first and last piece, 0 where
        the window holds none, and `is_impossible`, 1 for these windows.
    """
    sequence = (max_seq_length,)
    feature, last = layouts.Feature, max_seq_length - 1
    inputs = (
        feature("unique_ids", (), "int64"),
        *layouts.sequences(sequence),
        feature("p_mask", sequence, "int64", 1, 0, 1),
    )
    if not is_training:
        return inputs
    return (
        *inputs,
        feature("start_positions", (), "int64", None, 0, last),
        feature("end_positions", (), "int64", None, 0, last),
        feature("is_impossible", (), "int64", None, 0, 1),
    )


def make_windows(
    questions: Sequence[data.Question],
    tokenizer: tokenization.AnyTokenizer,
    options: PassageWindows,
    max_seq_length: int,
) -> Windows:
    """Cut questions and paragraphs into pieces and lay windows over them.

    DIFFERS: the original aligns pieces and characters by a longest common
    subsequence, for each question anew, and drops a question whose paragraph it
    cannot align (Korean, for one). Here every question has its windows; the
    only paragraph without one has no pieces, as one of control characters.
    """
    ids, sizes = tokenizer.encode_flat([q.text for q in questions])
    edges = [0, *np.cumsum(sizes).tolist()]
    queries = [ids[begin:end] for begin, end in itertools.pairwise(edges)]
    paragraphs = {
        context: Pieces(*tokenizer.encode_with_offsets(context))
        for context in dict.fromkeys(q.context for q in questions)
    }
    return portable.make_windows(
        queries,
        [paragraphs[question.context] for question in questions],
        max_seq_length=max_seq_length,
        **dataclasses.asdict(options),
    )


def find_answers(
    windows: Windows, questions: Sequence[data.Question]
) -> dict[str, np.ndarray]:
    """Say where the answer to learn of each question stands.

    A window that does not hold the whole answer is kept and points to [CLS], as
    one of a question without an answer does.

    Returns:
        For records, [windows] each: `start_positions` and `end_positions`
        int32, of the first and the last piece of the answer; `is_impossible`
        int8, 1 where it is not there.
    """
    spans = np.full([len(questions), 2], -1, np.int64)
    for row, (question, pieces) in enumerate(
        zip(questions, windows.paragraphs, strict=True)
    ):
        answer = question.learnt
        if answer and len(pieces.ids):
            spans[row] = find_pieces(pieces, answer.start, answer.end)
    start, end = spans[windows.question].T
    holds = (start >= windows.begin) & (end < windows.begin + windows.length)
    shift = windows.first - windows.begin
    return {
        "start_positions": np.where(holds, start + shift, 0).astype(np.int32),
        "end_positions": np.where(holds, end + shift, 0).astype(np.int32),
        "is_impossible": (~holds).view(np.int8),
    }


def find_pieces(pieces: Pieces, start: int, end: int) -> tuple[int, int]:
    """Return the first and the last piece of a range of characters.

    Example, with the pieces "▁two", "▁words" of "two words":
        find_pieces(pieces, 4, 9) = (1, 1)
        find_pieces(pieces, 1, 5) = (0, 1)
    """
    last = len(pieces.ids) - 1
    begin = min(int(np.searchsorted(pieces.ends, start, "right")), last)
    stop = int(np.searchsorted(pieces.starts, end, "left")) - 1
    return begin, max(begin, stop)


def make_features(
    windows: Windows,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    positions: Mapping[str, np.ndarray] | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Turn windows into the values of records, block by block.

    Example, [CLS] 2, [SEP] 3, a question of the piece 11, a window of the
    pieces 21 and 22, max_seq_length 7:
        input_ids   = [2, 11, 3, 21, 22, 3, 0]
        input_mask  = [1,  1, 1,  1,  1, 1, 0]
        segment_ids = [0,  0, 0,  1,  1, 1, 0]
        p_mask      = [0,  1, 1,  0,  0, 1, 1]

    Yields:
        By the names of `squad_layout`, arrays [n, ...] for the next n windows,
        n at most 1024.
    """
    for begin in range(0, len(windows), _BLOCK):
        block = slice(begin, min(begin + _BLOCK, len(windows)))
        first = windows.first[block, None]
        position = np.arange(max_seq_length)
        is_window = position >= first
        is_window &= position < first + windows.length[block, None]
        more = (positions or {}).items()
        yield {
            "unique_ids": FIRST_UNIQUE_ID + np.arange(block.start, block.stop),
            **packing.pack(windows.pairs(block), tokenizer, max_seq_length),
            "p_mask": (~is_window & (position > 0)).view(np.int8),
            **{name: column[block] for name, column in more},
        }


def renumber(framed: Sequence[bytes], first: int) -> list[bytes]:
    """Give records, whose `unique_ids` count from `FIRST_UNIQUE_ID`, others.

    `first` records stand before them in the whole file.
    """
    # The number is the end of a message: its name comes last in the alphabet,
    # and its length in bytes does not depend on its value.
    layout = (layouts.Feature("unique_ids", (), "int64"),)
    numbers = FIRST_UNIQUE_ID + first + np.arange(len(framed), dtype=np.int64)
    encoded = tfrecord.encode_batch(layout, {"unique_ids": numbers})
    messages = [
        tfrecord.unframe(record)[:-_NUMBER] + number[-_NUMBER:]
        for record, number in zip(framed, encoded, strict=True)
    ]
    return tfrecord.frame_batch(messages)
