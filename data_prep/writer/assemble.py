"""Turn stored instances into records, in the final order.

Stage 3 of the writer. The records are sorted by the random keys of the
instances. A part is a range of keys: its instances are collected from all
units, sorted, masked and encoded together.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data import drawing, layouts, marks, masking, tfrecord
from data_prep.writer import instances, statistics, token_blocks

# Positions that are masked and encoded at once: many for NumPy's speed, few
# enough for the CPU's caches.
_POSITIONS_AT_ONCE = 1 << 19


class Part(NamedTuple):
    """Consecutive records of the final order."""

    number: int  # Index among all parts.
    first_record: int
    num_records: int


class Encoded(NamedTuple):
    """The records of a part."""

    part: Part
    framed: bytes  # All records, as in a file.
    ends: np.ndarray  # int64 [n], where each record ends in them.
    counts: statistics.Counts  # For manifest and data card.


def make_parts(counts: np.ndarray) -> list[Part]:
    """Make a part of each range of keys.

    `counts`, int [units, parts], has the keys of each unit in each range.
    """
    totals = counts.sum(axis=0).tolist()
    ends = itertools.accumulate(totals)
    return [
        Part(number, end - total, total)
        for number, (total, end) in enumerate(zip(totals, ends, strict=True))
    ]


def divide_evenly(num_records: int, num_files: int) -> list[int]:
    """Return the index of the first record of each file; then `num_records`."""
    return [num_records * file // num_files for file in range(num_files + 1)]


def divide(
    first: int, count: int, bounds: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield each file that some consecutive records belong to, and which.

    Example:
        first = 3, count = 4, bounds = [0, 5, 10]
        result = (0, 0, 2), (1, 2, 4)

    That is the index of the file, and begin and end of its records, counted
    from `first`. The `bounds` are of `divide_evenly`.
    """
    begin = 0
    file = bisect.bisect_right(bounds, first) - 1
    while begin < count:
        end = min(count, bounds[file + 1] - first)
        yield file, begin, end
        begin, file = end, file + 1


@dataclasses.dataclass(frozen=True)
class Assembler:
    """Makes records from instances."""

    prefixes: tuple[str, ...]  # Files of the units.
    counts: np.ndarray  # See `make_parts`.
    max_seq_length: int
    vocabulary: masking.Vocabulary
    masker: masking.Masker | None  # None if training masks.
    layout: layouts.Layout
    # Bits of a token below the id: 1 says where words start; `marks.BITS` are
    # those of passages.
    mark_bits: int = 0

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """Rows of each unit before the end of each part, int [units, parts]."""
        return np.cumsum(self.counts, axis=1)

    def encode(self, part: Part) -> Encoded:
        rows, tokens = self._collect(part)
        framed: list[bytes] = []
        counts: statistics.Counts = {}
        size = max(1, _POSITIONS_AT_ONCE // self.max_seq_length)
        for begin in range(0, max(1, len(rows)), size):
            values, batch_counts = self._make_features(
                rows[begin : begin + size], tokens
            )
            encoded = tfrecord.encode_batch(self.layout, values)
            framed += tfrecord.frame_batch(encoded)
            counts = statistics.add(counts, batch_counts)
        ends = np.cumsum([len(record) for record in framed], dtype=np.int64)
        return Encoded(part, b"".join(framed), ends, counts)

    def _collect(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """Gather the instances of a part from all units, sorted by key."""
        counts = self.counts[:, part.number]
        begins = self._ends[:, part.number] - counts
        dtype = token_blocks.token_dtype(self.vocabulary.size << self.mark_bits)
        collected = [
            instances.load_rows(prefix, begin, begin + count, dtype)
            for prefix, begin, count in zip(
                self.prefixes, begins.tolist(), counts.tolist(), strict=True
            )
        ]
        collected = [(rows, tokens) for rows, tokens in collected if len(rows)]
        num_tokens = 0
        for rows, tokens in collected:
            rows["begin"] += np.uint64(num_tokens)
            num_tokens += len(tokens)
        empty = np.zeros(0, instances.ROW), np.zeros(0, dtype)
        rows = np.concatenate([empty[0], *(rows for rows, _ in collected)])
        tokens = np.concatenate([empty[1], *(t for _, t in collected)])
        return rows[np.argsort(rows["key"], kind="stable")], tokens

    def _make_features(
        self, rows: np.ndarray, tokens: np.ndarray
    ) -> tuple[dict[str, np.ndarray], statistics.Counts]:
        """Return features of the layout, [n, ...], masked, and their counts."""
        if self.mark_bits == marks.BITS:
            return self._make_passage_features(rows, tokens)
        ids, starts = tokens, None
        if self.mark_bits:
            ids, starts = tokens >> 1, tokens & 1
        sequences, segments, lengths = self._to_sequences(rows, ids)
        real = np.arange(self.max_seq_length) < lengths[:, None]
        boundary = self.vocabulary.boundaries.take(sequences)
        if starts is not None:  # The segmenter's; [CLS] and [SEP] count as 1.
            starts_word = self._to_sequences(rows, starts)[0] == 1
            starts_word |= sequences == self.vocabulary.cls_id
            starts_word |= sequences == self.vocabulary.sep_id
            boundary = starts_word.astype(np.uint8)
        boundary *= real
        values = {
            "input_mask": real.astype(np.uint8),
            "segment_ids": segments,
            "next_sentence_labels": rows["label"].astype(np.int32)[:, None],
        }
        counts = statistics.count(rows, lengths, self.max_seq_length)
        if self.masker is None:
            values |= {"input_ids": sequences, "token_boundary": boundary}
            return values, counts
        masked = self.masker.mask(sequences, lengths, rows["key"], boundary)
        lists = masked.positions, masked.labels, masked.counts
        values |= {
            "input_ids": masked.input_ids,
            "token_boundary": masked.token_boundary,
            **drawing.prediction_features(*lists),
        }
        mask_id = self.vocabulary.mask_id
        return values, counts | statistics.count_masked(masked, mask_id)

    def _make_passage_features(
        self, rows: np.ndarray, tokens: np.ndarray
    ) -> tuple[dict[str, np.ndarray], statistics.Counts]:
        """Return features of `layouts.passage_layout`, and their counts."""
        lengths = rows["first"].astype(np.int64)
        positions = np.arange(self.max_seq_length - 2)
        source = rows["begin"].astype(np.int64)[:, None] + positions
        marked_ids = tokens.take(source, mode="clip").astype(np.int64)
        marked_ids *= positions < lengths[:, None]
        values = {
            "tokens": marked_ids >> marks.BITS,
            "marks": marked_ids & (1 << marks.BITS) - 1,
            "document": rows["document"].astype(np.int64),
        }
        return values, statistics.count(rows, lengths + 2, self.max_seq_length)

    def _to_sequences(
        self, rows: np.ndarray, tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return int32 [n, S] tokens, uint8 [n, S] segments, int64 [n] lengths.

        `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` where the second is empty.
        """
        first = rows["first"].astype(np.int64)
        second = rows["second"].astype(np.int64)
        lengths = first + second + np.where(second, 3, 2)
        positions = np.arange(self.max_seq_length)
        first_sep = first + 1  # The first [SEP].
        is_second = positions > first_sep[:, None]
        real = positions < lengths[:, None]
        # The segments lie one behind the other, after [CLS] and around [SEP].
        source = (rows["begin"].astype(np.int64) - 1)[:, None] + positions
        source -= is_second
        sequences = tokens.take(source, mode="clip").astype(np.int32)
        sequences *= real
        rows_index = np.arange(len(rows))
        sequences[:, 0] = self.vocabulary.cls_id
        sequences[rows_index, first_sep] = self.vocabulary.sep_id
        sequences[rows_index, lengths - 1] = self.vocabulary.sep_id
        return sequences, (is_second & real).astype(np.uint8), lengths
