"""Build instances from documents, and store them in random order.

Stage 2 of the writer. One unit of work is some passes over blocks of documents.
Its instances are written sorted by their random keys, so that stage 3 can read
each part of the final order from adjacent bytes.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.common import ragged, random_streams
from data_prep.writer import checksums, segment_pairs, token_blocks

# Purposes of random draws; each has seeds of its own, derived from the seed.
PAIRS, INSTANCES = range(2)

ROW = np.dtype(
    [
        ("key", "u8"),  # Records are sorted by it; it is the seed of the masks.
        ("begin", "u8"),  # Where the tokens of the instance begin.
        ("first", "u2"),  # Number of tokens of the first segment,
        ("second", "u2"),  # and of the second one, which follows it.
        ("label", "i1"),
        ("single_sentence", "u1"),  # Whether the chunk was a single sentence.
        ("document", "u4"),  # Of the text, from 0; passages have another.
    ]
)

# Counts of a unit: documents without an instance, once for each pass, and
# chunks without one; tokens of all segments before truncation to
# `max_seq_length`, and tokens that it dropped.
COUNTS = "unused_documents", "unused_chunks", "tokens_paired", "tokens_cut"

# About how many draws an instance needs; a wrong number costs only time.
_USUAL_DRAWS = 16

# Files of a unit: plain arrays, so that any part of them can be read alone.
_ROWS, _TOKENS = ".rows", ".tokens"


class Unit(NamedTuple):
    """A unit of work: some passes over some blocks."""

    number: int  # Place among all units.
    blocks: range
    passes: range


class Built(NamedTuple):
    """The instances of a unit, sorted by their keys."""

    rows: np.ndarray  # `ROW` [n].
    tokens: np.ndarray  # The tokens of all instances, concatenated.
    counts: Mapping[str, int]  # By the names of `COUNTS`.


@dataclasses.dataclass(frozen=True)
class InstanceBuilder:
    """Builds the instances of units."""

    corpus: token_blocks.StoredCorpus
    options: segment_pairs.PairOptions
    word_start: np.ndarray  # bool [vocabulary], whether a piece starts a word.
    seed: int  # Of all draws.

    def build(self, unit: Unit) -> Built:
        """Return the instances of a unit.

        Every draw depends on the seed, the number of the document, the pass,
        and the number of the instance among those of this document and pass.
        """
        counts = dict.fromkeys(COUNTS, 0)
        slices: list[segment_pairs.Slice] = []
        blocks = [np.zeros(0, ROW)]
        for number in unit.blocks:
            block = self.corpus.block(number)
            rows = self._build_block(number, block, unit.passes, slices, counts)
            blocks.append(rows)
        ordered = sort_by_key(
            np.concatenate(blocks), slices, block.tokens.dtype
        )
        counts["tokens_paired"] = len(ordered[1]) + counts["tokens_cut"]
        return Built(*ordered, counts)

    def _build_block(
        self,
        number: int,
        block: token_blocks.TokenBlock,
        passes: range,
        slices: list[segment_pairs.Slice],
        counts: dict[str, int],
    ) -> np.ndarray:
        """Return `ROW` [n] of a block; append to `slices`, add to `counts`."""
        first = self.corpus.first_document(number)
        documents = range(first, first + len(block))
        rows: list[tuple[int, ...]] = []
        sizes: list[int] = []  # Instances of each document and pass.
        for index, draws in self._open_streams(block, documents, passes):
            num_before = len(rows)
            for pair in segment_pairs.make_pairs(
                self.corpus, index, self.options, draws, self.word_start
            ):
                if pair is None:
                    counts["unused_chunks"] += 1
                    continue
                segment_a, segment_b, label, is_single, tokens_cut = pair
                slices += (segment_a, segment_b)
                lengths = (
                    segment_a.end - segment_a.begin,
                    segment_b.end - segment_b.begin,
                )
                rows.append((0, 0, *lengths, label, is_single, index))
                counts["tokens_cut"] += tokens_cut
            sizes.append(len(rows) - num_before)
        counts["unused_documents"] += sizes.count(0)
        table = np.array(rows, ROW)
        each = np.array(sizes, np.int64)
        seeds = np.repeat(self._keys(INSTANCES, documents, passes), each)
        numbers = ragged.concat_ranges(np.zeros_like(each), each)
        table["key"] = random_streams.derive_array(seeds, numbers)
        return table

    def _keys(
        self, purpose: int, documents: range, passes: range
    ) -> np.ndarray:
        """Return a seed for each document and pass, uint64 [n]."""
        seed = random_streams.derive(self.seed, purpose)
        seeds = random_streams.derive_array(
            np.array([[seed]], np.uint64), np.array(documents)[:, None]
        )
        return random_streams.derive_array(seeds, np.array(passes)).ravel()

    def _open_streams(
        self, block: token_blocks.TokenBlock, documents: range, passes: range
    ) -> Iterator[tuple[int, random_streams.Stream]]:
        """Yield each document, once a pass, with a random stream of its own."""
        ends = block.sentence_ends[block.document_ends - 1]
        lengths = np.diff(ends, prepend=0)
        # An instance has a few draws and one for each token that is cut off.
        draws = 4 + lengths * _USUAL_DRAWS // self.options.max_seq_length
        streams = random_streams.open_streams(
            self._keys(PAIRS, documents, passes), np.repeat(draws, len(passes))
        )
        for index in documents:
            for _ in passes:
                yield index, next(streams)


def sort_by_key(
    rows: np.ndarray, slices: list[segment_pairs.Slice], dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Sort `ROW` [n] by key; concatenate their tokens, two slices for each."""
    order = np.argsort(rows["key"], kind="stable")
    segments = [
        part.tokens[part.begin : part.end]
        for row in order.tolist()
        for part in slices[2 * row : 2 * row + 2]
    ]
    tokens = np.concatenate([np.zeros(0, dtype), *segments])
    rows = rows[order]
    lengths = rows["first"].astype(np.int64) + rows["second"]
    rows["begin"] = np.cumsum(lengths) - lengths
    return rows, tokens


def paths(prefix: str) -> list[str]:
    return [prefix + _ROWS, prefix + _TOKENS]


def save(prefix: str, built: Built) -> list[checksums.Checksum]:
    return [
        checksums.write(path, array.tobytes())
        for path, array in zip(paths(prefix), built[:2], strict=True)
    ]


def count_rows(prefix: str) -> int:
    return os.path.getsize(prefix + _ROWS) // ROW.itemsize


def count_keys(prefix: str, bits: int) -> np.ndarray:
    """Count the instances of a unit by the first bits of their keys."""
    keys = np.fromfile(prefix + _ROWS, ROW)["key"]
    bins = (keys >> np.uint64(64 - bits)).astype(np.int64)
    return np.bincount(bins, minlength=2**bits)


def load_rows(
    prefix: str, begin: int, end: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Read neighbouring instances of a unit: `ROW` [n], and their tokens.

    The `begin` of a row is counted from the first of these tokens.
    """
    rows = np.fromfile(
        prefix + _ROWS, ROW, count=end - begin, offset=begin * ROW.itemsize
    )
    if not len(rows):
        return rows, np.zeros(0, dtype)
    start, last = int(rows[0]["begin"]), rows[-1]
    stop = int(last["begin"]) + int(last["first"]) + int(last["second"])
    tokens = np.fromfile(
        prefix + _TOKENS,
        dtype,
        count=stop - start,
        offset=start * dtype.itemsize,
    )
    rows["begin"] -= np.uint64(start)
    return rows, tokens
