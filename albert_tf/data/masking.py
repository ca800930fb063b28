"""Mask runs of one to a few words, in many sequences at once.

N-gram masking (ALBERT §4.1; in the original, create_pretraining_data.
create_masked_lm_predictions). The writer masks with it, and so does training on
records that hold no masks. All sequences of a batch are processed together, but
the result for one depends on its tokens and its seed only: batches of any size
give the same masks.

Dimensions: n sequences, S positions, W words, P predictions. Flat positions are
indices of the array of all n * S positions, ascending.
"""

import dataclasses
import re
import string
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.common import ragged, random_streams, ranges
from albert_tf.common.options import checked, option, shown

# BERT's replacement rule, kept by ALBERT: of the chosen pieces 80 % become
# [MASK], half of the others stay and half become a random piece.
_MASK_PROB = 0.8
_KEEP_PROB = 0.5

# Purposes of draws; each has its own random stream in every sequence.
_ORDER, _LENGTH, _REPLACE, _PIECE, _MOVED_ORDER, _MOVED_LENGTH, _MOVE = range(7)

# The original's list of characters that do not make a piece a word start; its
# author left out these four, so that they do.
_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")
_INSIDE_WORD = _PUNCTUATION | frozenset(string.ascii_lowercase)
# SentencePiece's pieces for single bytes, parts of characters without a piece.
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_JOINING = ("Mn", "Mc", "Me", "Cf")  # Categories of Unicode.
# Blocks of Unicode of scripts without spaces between words: Thai, Lao, Tibetan;
# Myanmar; Khmer; kana; Chinese characters; those of half width.
WITHOUT_SPACES = (
    ("\u0e00", "\u0fff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u3040", "\u30ff"),
    ("\u31f0", "\u31ff"),
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\uff66", "\uff9f"),
    ("\U00020000", "\U0003ffff"),
)


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="max_predictions_per_seq masked_lm_prob ngram")
class MaskingOptions:
    """How many pieces are masked and in what runs."""

    max_predictions_per_seq: int = option(
        20, "Most pieces to predict in one sequence.", within=ranges.TOKENS
    )
    masked_lm_prob: float = option(
        0.15,
        "Share of the pieces to predict; 0 switches masking off.",
        within=ranges.SHARE,
    )
    ngram: int = option(
        3,
        "Longest run of words that is masked at once.",
        within=ranges.Range(1, 100),
    )
    favor_shorter_ngram: bool = option(
        True,
        "True: runs of n words have a probability proportional to 1/n. False: "
        "the same probabilities in reverse order.",
    )
    do_whole_word_mask: bool = option(
        True, "Mask whole words instead of single pieces."
    )
    stop_ngrams_at_sep: bool = option(
        False,
        "Let runs end where a segment ends. The original lets them go on "
        "behind the [SEP].",
    )
    do_permutation: bool = option(
        False,
        "Also exchange some unmasked pieces with each other and predict them; "
        "the records then hold twice --max_predictions_per_seq.",
        needs="masking_time=writing",
    )

    @property
    def record_predictions(self) -> int:
        return self.max_predictions_per_seq * (2 if self.do_permutation else 1)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The properties of the pieces that masking needs.

    Attributes:
        size: Number of pieces, special ones included; replacements are drawn
            from all of them.
        boundaries: uint8 [size], 1 for pieces that start a word, [CLS], [SEP].
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    boundaries: np.ndarray

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str],
        *,
        cls_id: int,
        sep_id: int,
        mask_id: int,
        starts_word: Callable[[str], bool],
    ) -> "Vocabulary":
        """Make the tables of a vocabulary, with one of `WORD_START_RULES`."""
        boundaries = np.array([starts_word(piece) for piece in pieces], "u1")
        boundaries[[cls_id, sep_id]] = 1
        return cls(len(pieces), cls_id, sep_id, mask_id, boundaries)


def has_no_spaces(character: str) -> bool:
    """Tell whether a character's script puts no spaces between words.

    Example:
        True for "天", "カ" and "ไ"; False for "ü", "한" and "。"
    """
    return any(low <= character <= high for low, high in WITHOUT_SPACES)


def joins_what_precedes(text: str) -> bool:
    """Tell whether a text begins with a character that never begins a word.

    These are vowel signs and other marks, joiners, variation selectors and
    further format characters.

    DIFFERS: in the original they are words of their own.
    """
    return text != "" and unicodedata.category(text[0]) in _JOINING


def english_starts_word(piece: str) -> bool:
    """Tell whether a SentencePiece piece begins a word of English text.

    Pieces with other letters than a to z count as words of their own.

    Source: the original's create_pretraining_data.is_start_piece.

    Example:
        "▁rain", "<unk>", "!", "19", "'s", "é" and "が" start a word;
        "ing", "s", ".com" and "ing." continue one.

    DIFFERS: text that the vocabulary does not know arrives here as the piece
    <unk>, which starts a word; the original looks at the unknown characters,
    and lets, for example, an unknown "``" continue the word before it.
    A byte of a character without a piece, which the original's vocabularies do
    not have, continues the word before it.
    """
    if piece.startswith("▁") or piece in _PUNCTUATION:
        return True
    if piece.startswith("<"):
        return not _BYTE.fullmatch(piece)
    return not _INSIDE_WORD.issuperset(piece.lower())


def marker_starts_word(piece: str) -> bool:
    """Tell whether a SentencePiece piece begins a word of any alphabet.

    Words begin at SentencePiece's own mark; special pieces and single signs
    that are no letters or digits are words of their own. In scripts without
    spaces between words every piece is a word.

    Example:
        "▁дождь", "▁", "<unk>", "[MASK]", "!" and "天气" start a word; "ями",
        "s", "<0xE5>" and the vowel sign "ि" continue one.
    """
    if _BYTE.fullmatch(piece) or joins_what_precedes(piece):
        return False
    if piece.startswith(("▁", "<", "[")) or has_no_spaces(piece[:1]):
        return True
    return len(piece) == 1 and not piece.isalnum()


# Value of --word_start_rule to the rule. Records of the original, some of them
# of text with marks, are repeated with `english_starts_word` alone.
WORD_START_RULES: dict[str, Callable[[str], bool]] = {
    "english": lambda piece: (
        english_starts_word(piece) and not joins_what_precedes(piece)
    ),
    "marker": marker_starts_word,
    # "rain", "今", "," and "[UNK]" start a word; "##ing" continues one.
    "wordpiece": lambda piece: (
        not piece.startswith("##") and not joins_what_precedes(piece)
    ),
}


@dataclasses.dataclass(frozen=True)
class MaskedBatch:
    """Sequences with some of their pieces masked; padding is 0 everywhere.

    Attributes:
        input_ids: int32 [n, S], pieces after masking.
        token_boundary: uint8 [n, S], 1 for [CLS], [SEP], word-start pieces.
        positions: int32 [n, P], where something is to be predicted, ascending.
        labels: int32 [n, P], the original ids at these positions.
        counts: int32 [n], predictions of each sequence.
        run_lengths: int64 [N + 1], how many runs of 0 to N words were chosen.
    """

    input_ids: np.ndarray
    token_boundary: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    run_lengths: np.ndarray


class Masker:
    """Masks batches of sequences; holds what is the same for all of them."""

    def __init__(self, options: MaskingOptions, vocabulary: Vocabulary) -> None:
        self._options = options
        self.vocabulary = vocabulary
        self._cumulative = cumulative_lengths(
            options.ngram, options.favor_shorter_ngram
        )

    @property
    def num_predictions(self) -> int:
        """Width P of the outputs."""
        return self._options.record_predictions

    def most_predictions(self, lengths: np.ndarray) -> np.ndarray:
        """Return how many pieces to mask at most, int [n]; half goes to even.

        `lengths`, int [n], count the tokens of each sequence.
        """
        desired = np.rint(lengths * self._options.masked_lm_prob).astype(int)
        return np.minimum(
            self._options.max_predictions_per_seq, np.maximum(1, desired)
        )

    def mask(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        seeds: np.ndarray,
        boundary: np.ndarray | None = None,
    ) -> MaskedBatch:
        """Mask some pieces of every sequence.

        Example:
            [CLS] ▁it ▁rain s [SEP] ▁we ▁stay [SEP], so a budget of one piece;
            the random order of words begins with ▁rain: its two pieces do not
            fit. The next is ▁we, run length 1:
            input_ids = [CLS] ▁it ▁rain s [SEP] [MASK] ▁stay [SEP]
            positions = [5], labels = [▁we]
            token_boundary = [1, 1, 1, 0, 1, 1, 1, 1]

        Args:
            tokens: int [n, S], [CLS] and [SEP] included, padded with 0.
            lengths: int [n], tokens of each sequence.
            seeds: uint64 [n], see `random_streams`.
            boundary: uint8 [n, S], 1 where a word starts, as records say it;
                by default the vocabulary says it.

        Returns:
            The batch. With `masked_lm_prob` 0 nothing is masked.
        """
        real = np.arange(tokens.shape[1]) < lengths[:, None]
        if boundary is None:
            boundary = self.vocabulary.boundaries[tokens] * real
        input_ids = tokens.astype(np.int32)  # A copy.
        predicted = np.zeros(0, np.int64)
        run_lengths = np.zeros(self._options.ngram + 1, np.int64)
        if self._options.masked_lm_prob > 0:
            words = Candidates.find(
                tokens, real, boundary, self.vocabulary, self._options
            )
            budget = self.most_predictions(lengths)
            predicted, run_lengths = self._edit(words, budget, seeds, input_ids)
        positions, labels, counts = to_lists(
            predicted, tokens, self._options.record_predictions
        )
        return MaskedBatch(
            input_ids, boundary, positions, labels, counts, run_lengths
        )

    def _edit(
        self,
        words: "Candidates",
        budget: np.ndarray,
        seeds: np.ndarray,
        input_ids: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Replace pieces of chosen words, and exchange those of others.

        Args:
            budget: int [n], pieces to choose for each of the two steps.
            input_ids: int32 [n, S], changed in place.

        Returns:
            int64 [k], flat positions to be predicted; and how many runs of each
            length were chosen for replacement.
        """
        choice = _RunChoice(words, self._cumulative, seeds, _ORDER, _LENGTH)
        chosen, run_lengths = choice.run(budget)
        predicted = words.positions(chosen)
        self._replace(input_ids, predicted, seeds)
        if self._options.do_permutation:
            streams = _MOVED_ORDER, _MOVED_LENGTH
            other = _RunChoice(words, self._cumulative, seeds, *streams, chosen)
            moved = words.positions(other.run(budget)[0])
            _exchange(input_ids, moved, seeds)
            predicted = np.sort(np.concatenate([predicted, moved]))
        return predicted, run_lengths

    def _replace(
        self, input_ids: np.ndarray, chosen: np.ndarray, seeds: np.ndarray
    ) -> None:
        """Make each chosen piece [MASK], itself or a random piece, in place.

        `chosen` are flat positions, int64 [k].
        """
        rows, columns = np.divmod(chosen, input_ids.shape[1])
        decide, draw = (
            random_streams.derive_array(seeds, purpose)[rows]
            for purpose in (_REPLACE, _PIECE)
        )
        # Two draws of one stream: which of the three, and which of the last.
        first = random_streams.uniform(decide, 2 * columns)
        second = random_streams.uniform(decide, 2 * columns + 1)
        pieces = random_streams.uniform(draw, columns) * self.vocabulary.size
        original = input_ids[rows, columns]
        other = np.where(second < _KEEP_PROB, original, pieces.astype(np.int32))
        input_ids[rows, columns] = np.where(
            first < _MASK_PROB, self.vocabulary.mask_id, other
        )


def cumulative_lengths(ngram: int, favor_shorter: bool) -> np.ndarray:
    """Return the cumulative distribution of run lengths 1 to `ngram`.

    Source: ALBERT §4.1, p(n) = (1/n) / (1/1 + ... + 1/N).

    Example:
        ngram = 3 has p = 6/11, 3/11, 2/11; result = [0.545, 0.818, 1.0]

    Without `favor_shorter`, p is reversed.
    """
    weights = 1.0 / np.arange(1, ngram + 1)
    if not favor_shorter:
        weights = weights[::-1]
    cumulative: np.ndarray = weights.cumsum() / weights.sum()
    cumulative[-1] = 1.0
    return cumulative


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The words of a batch of sequences that may be masked.

    Attributes:
        counts: int [n], words of each sequence.
        pieces_before: int32 [n, W + 1], pieces before each word; then all.
        ends: int [n, W], index of the word before which a run that begins here
            has to end.
        flat_positions: int64 [k], those of the pieces of all words.
        first: int64 [n], where the pieces of each sequence begin in that.
    """

    counts: np.ndarray
    pieces_before: np.ndarray
    ends: np.ndarray
    flat_positions: np.ndarray
    first: np.ndarray

    @classmethod
    def find(
        cls,
        tokens: np.ndarray,
        real: np.ndarray,
        boundary: np.ndarray,
        vocabulary: Vocabulary,
        options: MaskingOptions,
    ) -> "Candidates":
        """Group the pieces of sequences into words.

        Example:
            [CLS] ▁it ▁rain s [SEP] ▁we ▁stay [SEP]
            pieces_before = [0, 1, 3, 4, 5], flat_positions = [1, 2, 3, 5, 6]

        As in the original, a continuation piece joins the word before it even
        across the [SEP] between the segments.

        Args:
            real: bool [n, S], False for padding.
            boundary: uint8 [n, S], 1 where a word starts.
        """
        is_sep = tokens == vocabulary.sep_id
        is_piece = real & ~is_sep & (tokens != vocabulary.cls_id)
        flat = np.flatnonzero(is_piece)
        num_pieces = np.count_nonzero(is_piece, axis=1)
        first = np.cumsum(num_pieces) - num_pieces
        if options.do_whole_word_mask:
            is_start = boundary.ravel()[flat] == 1
            # The first candidate opens a word, whatever it is.
            is_start[first[num_pieces > 0]] = True
        else:
            is_start = np.ones(len(flat), bool)
        starts = np.flatnonzero(is_start)  # Of words, in `flat`.
        words_before = np.searchsorted(starts, np.append(first, len(flat)))
        counts = np.diff(words_before)
        n, width = len(tokens), max(1, int(counts.max(initial=0)))
        before = np.tile(num_pieces.astype(np.int32)[:, None], width + 1)
        is_word = np.arange(width + 1) < counts[:, None]
        before[is_word] = starts - np.repeat(first, counts)
        ends = np.broadcast_to(counts[:, None], (n, width))
        if options.stop_ngrams_at_sep:
            # Of each word, how many [SEP] of the batch are before it.
            seps = is_sep.ravel().cumsum()[flat[starts]]
            stops = np.searchsorted(seps, seps, "right")
            # Without a [SEP] at its end, a sequence ends a segment, too.
            stops = np.minimum(stops, np.repeat(words_before[1:], counts))
            ends = ends.copy()
            ends[is_word[:, :-1]] = stops - np.repeat(words_before[:-1], counts)
        return cls(counts, before, ends, flat, first)

    def count_pieces(
        self, rows: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """Count the pieces of runs of words, from start to before end."""
        before = self.pieces_before
        return np.subtract(before[rows, end], before[rows, start])

    def positions(self, chosen: np.ndarray) -> np.ndarray:
        """Return the flat positions, int64, of chosen words, bool [n, W]."""
        rows, words = np.nonzero(chosen)
        begins = self.first[rows] + self.pieces_before[rows, words]
        lengths = self.count_pieces(rows, words, words + 1)
        return self.flat_positions[ragged.concat_ranges(begins, lengths)]


class _RunChoice:
    """Chooses runs of words until the budgets are used up.

    Every sequence goes through its words in random order (the first steps of a
    Fisher-Yates shuffle). At each it draws a length, shortens the run word by
    word until its pieces fit the rest of the budget, and takes it if it fits
    and no word of it is chosen already.
    """

    def __init__(
        self,
        words: Candidates,
        cumulative: np.ndarray,
        seeds: np.ndarray,
        order_stream: int,
        length_stream: int,
        taken: np.ndarray | None = None,
    ) -> None:
        """Begin with nothing chosen; words `taken`, bool [n, W], cannot be."""
        self._words = words
        self._cumulative = cumulative
        n, width = words.ends.shape
        # Wider than the words, so that runs may be looked up beyond the last.
        self._chosen = np.zeros([n, width + len(cumulative)], bool)
        self._blocked = self._chosen.copy()
        if taken is not None:
            self._blocked[:, :width] = taken
        # Columns from the current step on hold the words not drawn yet.
        self._order = np.tile(np.arange(width, dtype=np.int32), (n, 1))
        self._order_seeds = random_streams.derive_array(seeds, order_stream)
        self._length_seeds = random_streams.derive_array(seeds, length_stream)

    def run(self, budget: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Choose words of at most as many pieces as the budget, int [n].

        Return the words, bool [n, W], and how many runs of each length.
        """
        longest, counts = len(self._cumulative), self._words.counts
        used = np.zeros(len(budget), int)
        run_lengths = np.zeros(longest + 1, np.int64)
        active = np.flatnonzero(counts > 0)
        step = 0
        while len(active):
            start, end = self._draw(active, step)
            room = budget[active] - used[active]
            num_pieces = self._words.count_pieces(active, start, end)
            # Runs that do not fit are shortened, down to one word.
            while (too_long := (num_pieces > room) & (end - start > 1)).any():
                end = end - too_long
                num_pieces = self._words.count_pieces(active, start, end)
            fits = (num_pieces <= room) & self._is_free(active, start, end)
            self._take(active[fits], start[fits], end[fits])
            used[active] += num_pieces * fits
            taken = (end - start)[fits]
            run_lengths += np.bincount(taken, minlength=longest + 1)
            step += 1
            going_on = (used[active] < budget[active]) & (step < counts[active])
            active = active[going_on]
        return self._chosen[:, : self._order.shape[1]], run_lengths

    def _draw(
        self, rows: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return first word and end of the next run of some rows, int [k]."""
        num_left = self._words.counts[rows] - step
        draw = random_streams.uniform(self._order_seeds[rows], step)
        column = step + (draw * num_left).astype(np.int64)
        start = self._order[rows, column]
        self._order[rows, column] = self._order[rows, step]
        draw = random_streams.uniform(self._length_seeds[rows], step)
        length = np.searchsorted(self._cumulative, draw, "right") + 1
        return start, np.minimum(start + length, self._words.ends[rows, start])

    def _is_free(
        self, rows: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """Tell whether no word of the runs is blocked, bool [k]."""
        free = np.ones(len(rows), bool)
        for offset in range(len(self._cumulative)):
            inside = start + offset < end
            free &= ~(inside & self._blocked[rows, start + offset])
        return free

    def _take(
        self, rows: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> None:
        """Choose the words of the runs, and block them for later ones."""
        for offset in range(len(self._cumulative)):
            inside = start + offset < end
            words = rows[inside], start[inside] + offset
            self._chosen[words] = True
            self._blocked[words] = True


def _exchange(ids: np.ndarray, moved: np.ndarray, seeds: np.ndarray) -> None:
    """Exchange pieces of each row at random, in place.

    `moved` are the flat positions that take part, int64 [k].
    """
    rows, columns = np.divmod(moved, ids.shape[1])
    draws = random_streams.derive_array(
        random_streams.derive_array(seeds, _MOVE)[rows], columns
    )
    # Within each row, in the order of the draws.
    source = np.lexsort([draws, rows])
    ids[rows, columns] = ids[rows[source], columns[source]]


def to_lists(
    predicted: np.ndarray, tokens: np.ndarray, num_predictions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions and labels, int32 [n, P], and counts, int32 [n].

    They are those of `MaskedBatch`, made from flat positions, int64 [k].
    """
    rows, columns = np.divmod(predicted, tokens.shape[1])
    counts = np.bincount(rows, minlength=len(tokens)).astype(np.int32)
    slot = ragged.concat_ranges(np.zeros_like(counts), counts)
    positions = np.zeros([len(tokens), num_predictions], np.int32)
    labels = positions.copy()
    positions[rows, slot] = columns
    labels[rows, slot] = tokens[rows, columns]
    return positions, labels, counts
