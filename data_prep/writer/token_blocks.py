"""Tokenized documents, in files of bounded size.

Stage 1 of the writer: blocks of text lines (corpus.py) become arrays of tokens
on the disk, for the later stages. A block holds whole documents only.
"""

import bisect
import dataclasses
import functools
import hashlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import strict_json
from albert_tf.data import marks
from albert_tf.text import tokenization
from data_prep.vocabulary import letters
from data_prep.writer import checksums, segment_pairs, units, word_starts

# Blocks that a process keeps in memory for random second segments.
_BLOCKS_IN_MEMORY = 16
# Lines that are encoded at a time: the tokenizers return lists, which need many
# times the memory of the text.
_LINES_AT_ONCE = 8192


@dataclasses.dataclass(frozen=True)
class TokenBlock:
    """Documents as arrays."""

    tokens: np.ndarray  # uint16 or uint32 [T], of all documents.
    sentence_ends: np.ndarray  # int64 [sentences], places in `tokens`.
    document_ends: np.ndarray  # int64 [documents], places in `sentence_ends`.
    counts: dict[str, int]  # Of documents, tokens and so on.

    def __len__(self) -> int:
        return len(self.document_ends)

    def document(self, index: int) -> segment_pairs.Document:
        """Return a document, with its sentences as positions in `tokens`."""
        first = int(self.document_ends[index - 1]) if index else 0
        ends = self.sentence_ends[first : self.document_ends[index]].tolist()
        begin = int(self.sentence_ends[first - 1]) if first else 0
        return segment_pairs.Document(self.tokens, [begin, *ends])

    def fingerprints(self) -> np.ndarray:
        """Return 16 bytes of each document, equal for equal documents."""
        prints = np.empty(len(self), "V16")
        for index in range(len(self)):
            tokens, bounds = self.document(index)
            # Documents with the same text in other sentences differ.
            lengths = np.diff(bounds).astype(np.uint32)
            content = hashlib.blake2b(lengths.tobytes(), digest_size=16)
            content.update(tokens[bounds[0] : bounds[-1]].tobytes())
            prints[index] = content.digest()
        return prints

    def select(self, keep: np.ndarray) -> "TokenBlock":
        """Return the block with some of its documents, bool [documents]."""
        documents = [self.document(i) for i in np.flatnonzero(keep).tolist()]
        sentence_lengths = [np.diff(bounds) for _, bounds in documents]
        empty = np.zeros(0, np.int64)
        pieces = [t[bounds[0] : bounds[-1]] for t, bounds in documents]
        return TokenBlock(
            np.concatenate([self.tokens[:0], *pieces]),
            np.cumsum(np.concatenate([empty, *sentence_lengths])),
            np.cumsum(np.array([len(s) for s in sentence_lengths], np.int64)),
            self.counts,
        )


def token_dtype(vocab_size: int) -> np.dtype:
    """Return the smallest type of numbers that holds every piece id."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)


@dataclasses.dataclass(frozen=True)
class Marking:
    """Which `marks` pieces of passages get, beside words and letters.

    Attributes:
        units: Phrases and entities by kind, see `units.KINDS`.
        speakers: Whether lines begin with "Q" or "R" and a tab.
    """

    units: Mapping[str, units.Units]
    speakers: bool = False


def tokenize(
    lines: Sequence[str],
    tokenizer: tokenization.AnyTokenizer,
    line_counts: dict[str, int],
    segmenter: str = word_starts.NONE,
    marking: Marking | None = None,
) -> TokenBlock:
    """Tokenize the lines of a block, and divide them into documents.

    A line that is empty after cleaning ends a document. Other lines that yield
    no piece are left out without ending the document. Documents without
    sentences are left out.

    Source: the original's create_pretraining_data.create_training_instances.

    The `line_counts` of the reader are stored with the block. With a
    segmenter, tokens are twice the ids, plus 1 where a word starts. For
    passages they hold `marks`: of words, if there is a segmenter, of
    upper-case letters, phrases and entities.
    """
    bits = mark_bits(segmenter, marking is not None)
    line_counts = dict(line_counts)
    ids, lengths, token_marks = (
        _encode_marked(lines, tokenizer, segmenter, marking, line_counts)
        if bits
        else (*_encode(lines, tokenizer), 0)
    )
    tokens = ids.astype(np.int64) << bits | token_marks
    without_pieces = np.flatnonzero(lengths == 0).tolist()
    empty = [
        line for line in without_pieces if not tokenizer.clean(lines[line])
    ]
    sentence_lengths = lengths[lengths > 0]
    num_sentences = _count_sentences(lengths, empty)
    counts = {
        **line_counts,
        "documents": len(num_sentences),
        "documents_of_one_sentence": int((num_sentences == 1).sum()),
        "sentences": len(sentence_lengths),
        "tokens": len(tokens),
        "lines_without_pieces": len(without_pieces) - len(empty),
        "unknown_pieces": int((ids == tokenizer.unk_id).sum()),
        **letters.count(lines),
    }
    return TokenBlock(
        tokens.astype(token_dtype(tokenizer.vocab_size << bits)),
        np.cumsum(sentence_lengths),
        np.cumsum(num_sentences),
        counts,
    )


def _count_sentences(lengths: np.ndarray, empty: Sequence[int]) -> np.ndarray:
    """Count the sentences of each document, int64 [documents].

    Args:
        lengths: int64 [lines], pieces of each line.
        empty: Indices of the lines after which a new document begins.
    """
    is_empty = np.isin(np.arange(len(lengths)), empty)
    document_of = np.cumsum(is_empty)[lengths > 0]
    counts = np.bincount(document_of) if len(document_of) else document_of
    return counts[counts > 0]


def mark_bits(segmenter: str, with_marks: bool) -> int:
    """Return how many low bits of a token are marks, not id."""
    if with_marks:
        return marks.BITS
    return int(segmenter != word_starts.NONE)


def _encode(
    lines: Sequence[str], tokenizer: tokenization.AnyTokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """Return int32 [all pieces] ids; int64 [lines], how many each line has."""
    encoded = [
        tokenizer.encode_flat(lines[start : start + _LINES_AT_ONCE])
        for start in range(0, max(1, len(lines)), _LINES_AT_ONCE)
    ]
    ids, lengths = map(np.concatenate, zip(*encoded, strict=True))
    return ids, lengths


def _encode_marked(
    lines: Sequence[str],
    tokenizer: tokenization.AnyTokenizer,
    segmenter: str,
    marking: Marking | None,
    line_counts: dict[str, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the results of `_encode`, and `marks`, int64 [all pieces].

    The phrases and entities in the text are counted in `line_counts`.
    """
    cut = None if segmenter == word_starts.NONE else word_starts.load(segmenter)
    ids, marks_of_lines = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for line in lines:
        speaker = ""
        if marking is not None and marking.speakers:
            speaker, line = line[:1], line[2:]
        line_ids, begins, ends = tokenizer.encode_with_offsets(line)
        line_marks = np.zeros(len(line_ids), np.int64)
        if cut is not None:
            pieces_of_line = tokenizer.ids_to_pieces(line_ids.tolist())
            pieces = pieces_of_line, begins, ends
            line_marks += word_starts.mark_pieces(line, pieces, cut)
        if marking is not None:
            # A single "▁" belongs to the piece after it.
            first = word_starts.next_visible(line)[begins]
            is_upper = np.array(
                [line[p : p + 1].isupper() for p in first], bool
            )
            line_marks |= marks.UPPER * is_upper
            line_marks |= marks.RESPONSE * (speaker == "R")
            for kind, unit_list in marking.units.items():
                spans = unit_list.find(line)
                line_counts[kind] = line_counts.get(kind, 0) + len(spans)
                inside = units.mark_continued(spans, len(line))
                line_marks |= units.KINDS[kind] * inside[first]
        ids.append(line_ids)
        marks_of_lines.append(line_marks)
    lengths = np.array([len(line_ids) for line_ids in ids[1:]], np.int64)
    return np.concatenate(ids), lengths, np.concatenate(marks_of_lines)


def save(block: TokenBlock, path: str) -> checksums.Checksum:
    counts = np.frombuffer(strict_json.dumps(block.counts).encode(), np.uint8)
    # Not directly to the file: for a full disk `np.save` does not name the
    # reason.
    content = io.BytesIO()
    for array in (
        block.tokens,
        block.sentence_ends,
        block.document_ends,
        counts,
    ):
        np.save(content, array)
    return checksums.write(path, content.getvalue())


def load(path: str) -> TokenBlock:
    with open(path, "rb") as stream:
        tokens, sentence_ends, document_ends, counts = (
            np.load(stream) for _ in range(4)
        )
    return TokenBlock(
        tokens,
        sentence_ends,
        document_ends,
        strict_json.loads(counts.tobytes()),
    )


class StoredCorpus:
    """All documents of all blocks; some blocks are kept in memory."""

    def __init__(self, paths: Sequence[str], documents: Sequence[int]) -> None:
        self._paths = tuple(paths)
        self._ends = list(itertools.accumulate(documents))
        self._documents = tuple(documents)
        self._load = functools.lru_cache(_BLOCKS_IN_MEMORY)(load)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Pickle without the cache."""
        return StoredCorpus, (self._paths, self._documents)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def first_document(self, block: int) -> int:
        return self._ends[block - 1] if block else 0

    def block(self, index: int) -> TokenBlock:
        return self._load(self._paths[index])

    def __getitem__(self, index: int) -> segment_pairs.Document:
        block = bisect.bisect_right(self._ends, index)
        return self.block(block).document(index - self.first_document(block))


def drop_duplicates(paths: Sequence[str]) -> Iterator[tuple[int, TokenBlock]]:
    """Yield the index of each block with duplicates, and it without them.

    Duplicates are documents that equal an earlier one, compared by hashes of
    16 bytes. After an interruption, when some blocks have no duplicates any
    more, the result is the same.
    """
    fingerprints = [load(path).fingerprints() for path in paths]
    keep = np.zeros(sum(map(len, fingerprints)), bool)
    # The first of equal ones.
    keep[np.unique(np.concatenate(fingerprints), return_index=True)[1]] = True
    ends = np.cumsum([len(block) for block in fingerprints])
    for index, keep_in_block in enumerate(np.split(keep, ends[:-1])):
        if not keep_in_block.all():
            yield index, load(paths[index]).select(keep_in_block)
