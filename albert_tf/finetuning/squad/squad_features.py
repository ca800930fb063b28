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
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts, tfrecord
from albert_tf.finetuning import overlaps, packing
from albert_tf.finetuning.squad import squad_data
from albert_tf.text import tokenization

FIRST_UNIQUE_ID = 1_000_000_000
NUM_SPECIAL = 3  # [CLS], [SEP], [SEP].
# Bytes of the number at the end of a message.
_NUMBER = 5
_BLOCK = 1024  # Windows that become arrays together; bounds the memory.


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="doc_stride max_query_length")
class WindowOptions:
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


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A paragraph in pieces.

    Attributes:
        ids: int32 [pieces].
        starts: int32 [pieces], number of the first character of each piece in
            the paragraph, the space before a word included.
        ends: int32 [pieces], number of the last character plus 1.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(frozen=True)
class Windows:
    """All windows of some questions, in order.

    Attributes:
        paragraphs: For each question its paragraph; equal ones are one object.
        queries: For each question its first `max_query_length` ids.
        question: int32 [windows], row of the question.
        begin: int32 [windows], number of the first piece of the paragraph.
        length: int32 [windows], pieces of the paragraph in the window.
        cut: Rows of the questions that were longer than `max_query_length`.
    """

    paragraphs: Sequence[Pieces]
    queries: Sequence[np.ndarray]
    question: np.ndarray
    begin: np.ndarray
    length: np.ndarray
    cut: Sequence[int]

    def __len__(self) -> int:
        return len(self.question)

    @functools.cached_property
    def first(self) -> np.ndarray:
        """Position of the first piece of the paragraph, int32 [windows]."""
        lengths = np.fromiter(map(len, self.queries), np.int32)
        return lengths[self.question] + 2

    @functools.cached_property
    def spans(self) -> list[slice]:
        edges = np.searchsorted(
            self.question, np.arange(len(self.queries) + 1)
        ).tolist()
        return [slice(*pair) for pair in itertools.pairwise(edges)]

    def pairs(self, block: slice) -> Iterator[packing.Pair]:
        """Yield the pieces of question and window, for some windows."""
        columns = self.question, self.begin, self.length
        for row, begin, length in zip(
            *(column[block].tolist() for column in columns), strict=True
        ):
            pieces = self.paragraphs[row].ids[begin : begin + length]
            yield self.queries[row], pieces


def make_windows(
    questions: Sequence[squad_data.Question],
    tokenizer: tokenization.AnyTokenizer,
    options: WindowOptions,
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
    longest = options.max_query_length
    cut = [row for row, ids in enumerate(queries) if len(ids) > longest]
    queries = [ids[:longest] for ids in queries]
    paragraphs: list[Pieces] = []
    rows: list[tuple[int, int, int]] = []
    known: dict[str, Pieces] = {}
    for row, (question, query) in enumerate(
        zip(questions, queries, strict=True)
    ):
        if question.context not in known:
            known[question.context] = Pieces(
                *tokenizer.encode_with_offsets(question.context)
            )
        pieces = known[question.context]
        paragraphs.append(pieces)
        limit = max_seq_length - len(query) - NUM_SPECIAL
        rows += [
            (row, begin, length)
            for begin, length in overlaps.split(
                len(pieces.ids), limit, options.doc_stride
            )
        ]
    question_rows, begins, lengths = np.array(rows, np.int32).reshape(-1, 3).T
    return Windows(paragraphs, queries, question_rows, begins, lengths, cut)


def find_answers(
    windows: Windows, questions: Sequence[squad_data.Question]
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
        By the names of `layouts.squad_layout`, arrays [n, ...] for the next n
        windows, n at most 1024.
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
        tfrecord.unframed(record)[:-_NUMBER] + number[-_NUMBER:]
        for record, number in zip(framed, encoded, strict=True)
    ]
    return tfrecord.frame_batch(messages)
