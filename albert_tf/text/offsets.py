"""Offsets of the characters of cleaned text in the original text.

offset_ops.py and tokenization_ops.py have the same as TensorFlow operations.
NumPy and SentencePiece alone are imported: exports for other runtimes may have
a copy of this file.
"""

import functools
import itertools
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
import sentencepiece

from albert_tf.text import cleaning

WORD_START = "▁"  # U+2581, SentencePiece's mark for "a space stood here".


def cleaned_ranges(
    text: str, *, lower: bool, keep_accents: bool
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return where each character of `preprocess_text` comes from.

    Of a run of white space the first plain space counts, or the first
    character if there is none.

    Example, uncased:
        "É\t ½" is cleaned to "e 1⁄2"
        starts = [0, 2, 3, 3, 3], ends = [1, 3, 4, 4, 4]

    Returns:
        Start and end in `text`, int64 [cleaned characters].
    """
    units: Sequence[str] = _composed_units(text) if keep_accents else text
    widths = np.ones(len(units), np.int64)
    if not text.isascii():
        for index, unit in enumerate(units):
            if not unit.isascii():
                folded = cleaning.fold_characters(
                    unit, lower=lower, keep_accents=keep_accents
                )
                widths[index] = len(folded)
    if text != cleaning.collapse_spaces(text):
        _collapse_widths(units, widths)
    ends = np.cumsum(np.fromiter(map(len, units), np.int64, len(units)))
    starts = np.append(0, ends)[:-1]
    return np.repeat(starts, widths), np.repeat(ends, widths)


def _collapse_widths(units: Sequence[str], widths: np.ndarray) -> None:
    """Keep one character of each run of white space, none at the ends."""
    for is_space, group in itertools.groupby(
        range(len(units)), lambda index: units[index].isspace()
    ):
        if not is_space:
            continue
        run = list(group)
        widths[run] = 0
        if run[0] > 0 and run[-1] < len(units) - 1:
            plain = (
                i for i in run if cleaning.fold_characters(units[i]) == " "
            )
            widths[next(plain, run[0])] = 1


def _composed_units(text: str) -> list[str]:
    """Cut a text where composing its characters (NFKC) has no effect.

    Example:
        "e" and a combining acute accent stay together, "ab" is cut.
    """
    units: list[str] = []
    for character in text:
        if units and _composes(units[-1], character):
            units[-1] += character
        else:
            units.append(character)
    return units


def _composes(unit: str, character: str) -> bool:
    """Tell whether composition may join a character to the unit before it."""
    if character.isascii() or unit.isspace():
        return False
    if unicodedata.combining(character):
        return True
    nfkc = functools.partial(unicodedata.normalize, "NFKC")
    return nfkc(unit + character) != nfkc(unit) + nfkc(character)


def normalized_ranges(
    processor: sentencepiece.SentencePieceProcessor,
    cleaned: str,
    starts: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each character of the normalized text comes from.

    SentencePiece normalizes text before it cuts it: it puts "▁" for each space
    and before the text, and may replace or drop characters.

    Args:
        cleaned: Its input.
        starts: Where its characters begin in the original text, int64
            [cleaned characters].
        ends: Where they end there.

    Returns:
        Start and end in the original text, int64 [normalized characters].
    """
    if not len(starts):
        return starts, ends
    normalized = processor.normalize(cleaned)
    if normalized == WORD_START + cleaned.replace(" ", WORD_START):
        return np.append(0, starts), np.append(0, ends)
    normalized, first = processor.normalize(cleaned, with_offsets=True)
    begin = np.array(first[: len(normalized)], np.int64)
    # A character ends where the next one with another origin begins.
    later = np.append(begin, len(cleaned))
    end = later[np.searchsorted(later, begin, "right")]
    is_kept = [
        cleaned[place : place + 1] == character
        for place, character in zip(begin.tolist(), normalized, strict=True)
    ]
    end = np.where(is_kept, begin + 1, end)
    starts, ends = starts[begin], ends[end - 1]
    if normalized.startswith(WORD_START) and not cleaned.startswith(" "):
        starts[0] = ends[0] = 0
    return starts, ends


class Aligner:
    """Cuts texts as `tokenization.Tokenizer` does, with offsets of pieces.

    Attributes:
        lengths: Characters of each piece, int64 [pieces].
    """

    def __init__(
        self,
        processor: sentencepiece.SentencePieceProcessor,
        new_ids: Mapping[int, Sequence[int]],
        new_lengths: Mapping[int, Sequence[int]],
        *,
        lower: bool,
        keep_accents: bool,
    ) -> None:
        """Keep the vocabulary.

        Args:
            new_ids: What replaces some pieces.
            new_lengths: How many characters these have in the text.
        """
        self._processor = processor
        self._new_ids, self._new_lengths = new_ids, new_lengths
        self._folding = {"lower": lower, "keep_accents": keep_accents}
        size = processor.vocab_size()
        pieces = processor.id_to_piece(list(range(size)))
        self.lengths = np.fromiter(map(len, pieces), np.int64, size)
        for id_ in filter(processor.is_byte, range(size)):
            byte = int(pieces[id_].strip("<>"), 16)
            # One that continues a character does not count.
            self.lengths[id_] = not 0x80 <= byte < 0xC0

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `tokenization.Tokenizer.encode_with_offsets`."""
        if len(text) <= cleaning.LONGEST_PART:
            return self._encode(text)
        columns = []
        begin = 0
        for part in cleaning.split_parts(text):
            ids, starts, ends = self._encode(part)
            columns.append((ids, starts + begin, ends + begin))
            begin += len(part)
        ids, starts, ends = map(np.concatenate, zip(*columns, strict=True))
        return ids, starts, ends

    def _encode(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cleaned = cleaning.preprocess_text(text, **self._folding)
        ids = self._processor.encode(cleaned)
        lengths = self.lengths[ids].tolist()
        if self._processor.unk_id() in ids:
            # Their lengths are those of the pieces as text.
            pieces = self._processor.encode(cleaned, out_type=str)
            for index, id_ in enumerate(ids):
                if id_ == self._processor.unk_id():
                    lengths[index] = len(pieces[index])
        if not self._new_ids.keys().isdisjoint(ids):
            pairs = [*zip(ids, lengths, strict=True)]
            ids = [new for i, _ in pairs for new in self._new_ids.get(i, (i,))]
            lengths = [
                new for i, n in pairs for new in self._new_lengths.get(i, (n,))
            ]
        starts, ends = normalized_ranges(
            self._processor, cleaned, *cleaned_ranges(text, **self._folding)
        )
        sizes = np.array(lengths, np.int64)
        stop = np.cumsum(sizes)
        if ids and stop[-1] != len(starts):
            raise AssertionError(f"{stop[-1]} characters, not {len(starts)}")
        piece_starts = np.append(starts, len(text))[stop - sizes]
        piece_ends = np.where(
            sizes == 0, piece_starts, np.append(ends, 0)[stop - 1]
        )
        return (
            np.array(ids, np.int32),
            piece_starts.astype(np.int32),
            piece_ends.astype(np.int32),
        )
