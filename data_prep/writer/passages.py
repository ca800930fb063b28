"""Pack sentences into passages: records that hold text and nothing drawn.

Stage 2 of the writer, with `--records=passages`. A token of a block is the id
and, in its lowest bits, the `marks`.

Source: FULL-SENTENCES and DOC-SENTENCES of RoBERTa, Liu et al., arXiv
1907.11692, section 4.2; fairseq, token_block_utils_fast.pyx, break modes
complete and complete_doc.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import layouts, marks, masking
from data_prep.writer import instances, segment_pairs, token_blocks


@dataclasses.dataclass(frozen=True)
class PassageBuilder:
    """Builds the passages of units."""

    corpus: token_blocks.StoredCorpus
    vocabulary: masking.Vocabulary
    limit: int  # Pieces of a passage, at most.
    cross_documents: bool  # Where both are in one block.
    # Whether the marks of the blocks say where words start.
    has_word_starts: bool
    seed: int  # Of the order of records.

    def build(self, unit: instances.Unit) -> instances.Built:
        slices: list[segment_pairs.Slice] = []
        blocks = [np.zeros(0, instances.ROW)]
        for number in unit.blocks:
            blocks.append(self._build_block(number, slices))
        rows, tokens = instances.sort_by_key(
            np.concatenate(blocks), slices, self._dtype
        )
        counts = dict.fromkeys(instances.COUNTS, 0)
        counts["tokens_paired"] = len(tokens)
        return instances.Built(rows, tokens, counts)

    @property
    def _dtype(self) -> np.dtype:
        return token_blocks.token_dtype(self.vocabulary.size << marks.BITS)

    def _build_block(
        self, number: int, slices: list[segment_pairs.Slice]
    ) -> np.ndarray:
        """Return `instances.ROW` [n] of a block; append two slices for each."""
        block = self.corpus.block(number)
        if not len(block.document_ends):  # All were duplicates, or empty.
            return np.zeros(0, instances.ROW)
        first = self.corpus.first_document(number)
        tokens, bounds, documents = self._mark_starts(block)
        # A sentence that is cut starts no other document.
        is_first = np.diff(documents, prepend=-1) > 0
        spans = list(pack(bounds, is_first, self.limit, self.cross_documents))
        begins = np.array([begin for begin, _ in spans], np.int64)
        ends = np.array([end for _, end in spans], np.int64)
        document = documents[np.searchsorted(bounds, begins, "right") - 1]
        _mark_elsewhere(tokens, bounds, documents, begins)
        tokens = tokens.astype(self._dtype)
        rows = np.zeros(len(spans), instances.ROW)
        rows["first"] = ends - begins
        rows["label"] = layouts.NO_LABEL
        # A number of the pieces, which other calls of the writer give no other
        # document; 31 bits, because training reads int32.
        text = dataclasses.replace(block, tokens=block.tokens >> marks.BITS)
        prints = text.fingerprints().view(np.uint32).reshape(len(block), -1)
        rows["document"] = prints[document, 0] >> 1
        # Of the document, and of the passage among those that begin in it.
        seed = random_streams.derive(self.seed, instances.INSTANCES)
        keys = np.full(len(rows), seed, np.uint64)
        keys = random_streams.derive_array(keys, first + document)
        index = np.arange(len(rows)) - np.searchsorted(document, document)
        rows["key"] = random_streams.derive_array(keys, index)
        for begin, end in spans:
            whole = segment_pairs.Slice(tokens, begin, end)
            slices += (whole, segment_pairs.Slice(tokens, end, end))
        return rows

    def _mark_starts(
        self, block: token_blocks.TokenBlock
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mark where words, sentences and documents start.

        Returns:
            Tokens, with a [SEP] before each document if passages cross them;
            int64 [parts + 1], where each sentence or part of one begins in
            them, the [SEP] included; int64 [parts], indices of the documents.
        """
        tokens = block.tokens.astype(np.int64)
        if not self.has_word_starts:
            starts = self.vocabulary.boundaries[tokens >> marks.BITS]
            tokens |= starts * np.int64(marks.WORD)
        begins = np.append(0, block.sentence_ends)
        first_sentences = np.append(0, block.document_ends[:-1])
        tokens[begins[:-1]] |= marks.SENTENCE | marks.WORD
        tokens[begins[first_sentences]] |= marks.DOCUMENT
        num_sentences = np.diff(block.document_ends, prepend=0)
        documents = np.repeat(np.arange(len(num_sentences)), num_sentences)
        if self.cross_documents:
            separator = self.vocabulary.sep_id << marks.BITS
            tokens = np.insert(tokens, begins[first_sentences], separator)
            begins[1:] += documents + 1
        is_first = np.isin(np.arange(len(documents)), first_sentences)
        bounds, documents_of_parts = [0], []
        for sentence, end in enumerate(begins[1:].tolist()):
            # A separator is left out where it would begin a passage.
            room = self.limit + (self.cross_documents and is_first[sentence])
            while end - bounds[-1] > room:
                bounds.append(_end_of_part(tokens, bounds[-1], room))
                documents_of_parts.append(documents[sentence])
                room = self.limit
            bounds.append(end)
            documents_of_parts.append(documents[sentence])
        return tokens, np.array(bounds), np.array(documents_of_parts)


def _end_of_part(tokens: np.ndarray, begin: int, limit: int) -> int:
    """Return the end of the part of a long sentence that starts at `begin`.

    It is the last word start within the limit, or the limit if there is none.

    DIFFERS: fairseq keeps sentences of any length whole.
    """
    # A separator before the sentence is not a part on its own.
    word_marks = tokens[begin + 2 : begin + limit + 1] & marks.WORD
    starts = np.flatnonzero(word_marks)
    return begin + (int(starts[-1]) + 2 if len(starts) else limit)


def pack(
    bounds: Sequence[int] | np.ndarray,
    is_first: Sequence[bool] | np.ndarray,
    limit: int,
    cross_documents: bool,
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each passage: as many sentences as fit.

    Example:
        sentences of 5, 4 and 2 pieces, limit 6: (0, 5), (5, 11)

    Args:
        bounds: int [sentences + 1], where they begin and where the last ends.
        is_first: bool [sentences], whether they begin a document. If passages
            cross documents, such a sentence begins with a separator, which is
            left out where it would begin a passage.
    """
    begin = -1
    for start, end, first in zip(
        bounds[:-1], bounds[1:], is_first, strict=True
    ):
        is_full = end - begin > limit or (first and not cross_documents)
        if begin < 0 or is_full:
            if begin >= 0:
                yield begin, int(start)
            begin = int(start) + int(first and cross_documents)
    if begin >= 0:
        yield begin, int(bounds[-1])


def _mark_elsewhere(
    tokens: np.ndarray,
    bounds: np.ndarray,
    documents: np.ndarray,
    begins: np.ndarray,
) -> None:
    """Set `marks.ELSEWHERE` for pieces that also occur in the document outside.

    Args:
        tokens: int64 [T], changed in place.
        bounds, documents: See `PassageBuilder._mark_starts`.
        begins: int64 [passages].
    """
    positions = np.arange(len(tokens))
    passage = np.searchsorted(begins, positions, "right")
    document = np.repeat(documents, np.diff(bounds))
    ids = tokens >> marks.BITS
    num_ids = int(ids.max(initial=0)) + 1

    def count(groups: np.ndarray) -> np.ndarray:
        """Return how often each piece occurs in its group, int [T]."""
        _, groups_of_positions, counts = np.unique(
            groups * num_ids + ids, return_inverse=True, return_counts=True
        )
        return np.asarray(counts[groups_of_positions])

    document_in_passage = passage * (len(bounds) + 1) + document
    tokens[count(document) > count(document_in_passage)] |= marks.ELSEWHERE
