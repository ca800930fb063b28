"""Hide runs of one to a few words of a sequence and keep them as labels.

Step 4 of the walk: n-gram masking (ALBERT §4.1; in the original,
create_pretraining_data.create_masked_lm_predictions). All draws come in the
original's order from two generators, so that equally seeded generators give
the original's records.
"""

import bisect
import dataclasses
import itertools
import random
import string
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf import errors
from albert_tf.options import option

# BERT's replacement rule, kept by ALBERT: of the chosen pieces 80 % become
# [MASK], half of the others stay and half become a random piece.
_MASK_PROB = 0.8
_KEEP_PROB = 0.5

# The original's list of characters that do not make a piece a word start; its
# author left out these four, so that they do.
_MARKS = frozenset(string.punctuation) - frozenset("'<=>")
_INSIDE_WORD = _MARKS | frozenset(string.ascii_lowercase)


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """How many pieces are hidden and in what runs."""

    max_predictions_per_seq: int = option(
        20, "Most pieces to predict in one sequence."
    )
    masked_lm_prob: float = option(
        0.15, "Share of the pieces to predict; 0 switches masking off."
    )
    ngram: int = option(3, "Longest run of words that is masked at once.")
    favor_shorter_ngram: bool = option(
        True,
        "True: runs of n words have a probability proportional to 1/n. False: "
        "the same probabilities in reverse order.",
    )
    do_whole_word_mask: bool = option(
        True, "Mask whole words instead of single pieces."
    )
    do_permutation: bool = option(
        False,
        "Also exchange some unmasked pieces with each other and predict them; "
        "the records then hold twice --max_predictions_per_seq.",
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: A value is out of range.
        """
        if self.max_predictions_per_seq < 1:
            raise errors.UserError(
                f"--max_predictions_per_seq={self.max_predictions_per_seq} is "
                "too small. At least 1 is needed. Use 20, or "
                "--masked_lm_prob=0 to switch masking off."
            )
        if not 0 <= self.masked_lm_prob <= 1:
            raise errors.UserError(
                f"--masked_lm_prob={self.masked_lm_prob} is not a probability. "
                "Allowed are 0 to 1. Use 0.15, the original's value."
            )
        if self.ngram < 1:
            raise errors.UserError(
                f"--ngram={self.ngram} is too small. Runs have at least 1 "
                "word. Use 3, the original's value."
            )

    @property
    def record_predictions(self) -> int:
        """Length of the prediction lists in a record."""
        return self.max_predictions_per_seq * (2 if self.do_permutation else 1)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What masking needs to know about the pieces.

    Attributes:
        size: Number of pieces, special ones included; replacements are drawn
            from all of them.
        cls_id: Id of [CLS].
        sep_id: Id of [SEP].
        mask_id: Id of [MASK].
        boundaries: For each id, 1 if the piece starts a word or is [CLS] or
            [SEP], else 0.
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    boundaries: bytes

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
        """Make the tables of a vocabulary.

        Args:
            pieces: All pieces in the order of their ids.
            cls_id: Id of [CLS].
            sep_id: Id of [SEP].
            mask_id: Id of [MASK].
            starts_word: `sentencepiece_starts_word` or
                `wordpiece_starts_word`, by the kind of vocabulary.
        """
        boundaries = bytearray(starts_word(piece) for piece in pieces)
        boundaries[cls_id] = boundaries[sep_id] = 1
        return cls(len(pieces), cls_id, sep_id, mask_id, bytes(boundaries))


def wordpiece_starts_word(piece: str) -> bool:
    """Tell whether a WordPiece piece begins a word.

    Source: the original's create_pretraining_data.is_start_piece.

    Example:
        "rain", "今", "," and "[UNK]" start a word; "##ing" continues one.
    """
    return not piece.startswith("##")


def sentencepiece_starts_word(piece: str) -> bool:
    """Tell whether a SentencePiece piece begins a word.

    Source: the original's create_pretraining_data.is_start_piece.

    Example:
        "▁rain", "<unk>", "!", "19", "'s", "é" and "が" start a word;
        "ing", "s", ".com" and "ing." continue one.

    DIFFERS: text that the vocabulary does not know arrives here as the piece
    <unk>, which starts a word; the original looks at the unknown characters,
    and lets, for example, an unknown "``" continue the word before it.
    """
    if piece.startswith(("▁", "<")) or piece in _MARKS:
        return True
    return not _INSIDE_WORD.issuperset(piece.lower())


@dataclasses.dataclass(frozen=True)
class MaskedSequence:
    """A sequence with some of its pieces hidden.

    Attributes:
        input_ids: [T] piece ids after masking, without padding.
        positions: [n] where something is to be predicted, ascending.
        labels: [n] the original ids at these positions.
        token_boundary: [T] 1 for [CLS], [SEP] and pieces that start a word.
    """

    input_ids: list[int]
    positions: list[int]
    labels: list[int]
    token_boundary: list[int]


class Masker:
    """Masks sequences; holds the tables that are the same for all of them."""

    def __init__(self, options: MaskingOptions, vocabulary: Vocabulary) -> None:
        """Compute the distribution of run lengths.

        Args:
            options: How much to hide.
            vocabulary: Table of word starts and special ids.
        """
        self._options = options
        self._vocabulary = vocabulary
        self._cumulative = cumulative_lengths(
            options.ngram, options.favor_shorter_ngram
        )

    def mask(
        self,
        tokens: Sequence[int],
        rng: random.Random,
        length_rng: np.random.RandomState,
    ) -> MaskedSequence:
        """Hide some pieces of one sequence.

        Example:
            tokens = [CLS] ▁it ▁rain s [SEP] ▁we ▁stay [SEP], so a budget of
            one piece; the shuffled runs begin with the one at ▁rain: its two
            pieces do not fit. The next begins at ▁we, length 1, draw 0.3:
            input_ids = [CLS] ▁it ▁rain s [SEP] [MASK] ▁stay [SEP]
            positions = [5], labels = [▁we]
            token_boundary = [1, 1, 1, 0, 1, 1, 1, 1]

        Args:
            tokens: [T] piece ids, [CLS] and both [SEP] included, no padding.
            rng: Draws the order of the runs and the replacements.
            length_rng: Draws the lengths of the runs, one uniform number each.

        Returns:
            The sequence and its labels. With `masked_lm_prob` 0 nothing is
            drawn and nothing is hidden.
        """
        boundaries = self._vocabulary.boundaries
        output = list(tokens)
        token_boundary = [boundaries[token] for token in tokens]
        if self._options.masked_lm_prob == 0:
            return MaskedSequence(output, [], [], token_boundary)
        words = find_words(
            tokens, self._vocabulary, self._options.do_whole_word_mask
        )
        order = list(range(len(words)))
        shuffle(order, rng)
        runs = Runs(words, self._budget(len(tokens)), self._cumulative)
        chosen = runs.choose(order, frozenset(), length_rng)
        for position in chosen:
            self._replace(output, position, rng)
        # The original shuffles again even when nothing follows.
        shuffle(order, rng)
        if self._options.do_permutation:
            moved = sorted(runs.choose(order, frozenset(chosen), length_rng))
            _permute(output, moved, rng)
            chosen += moved
        chosen.sort()
        labels = [tokens[position] for position in chosen]
        return MaskedSequence(output, chosen, labels, token_boundary)

    def _budget(self, length: int) -> int:
        """Return how many pieces of a sequence of `length` to predict."""
        share = round(length * self._options.masked_lm_prob)
        return min(self._options.max_predictions_per_seq, max(1, share))

    def _replace(
        self, output: list[int], position: int, rng: random.Random
    ) -> None:
        """Decide about one chosen piece: [MASK], itself or a random piece."""
        if rng.random() < _MASK_PROB:
            output[position] = self._vocabulary.mask_id
        elif rng.random() >= _KEEP_PROB:
            output[position] = rng.randint(0, self._vocabulary.size - 1)


def cumulative_lengths(ngram: int, favor_shorter: bool) -> list[float]:
    """Return the cumulative distribution of run lengths 1..`ngram`.

    Source: ALBERT §4.1, p(n) = (1/n) / (1/1 + ... + 1/N).

    Example:
        ngram = 3 has p = 6/11, 3/11, 2/11; result = [0.545, 0.818, 1.0]

    Args:
        ngram: Longest run, in words.
        favor_shorter: False reverses p.
    """
    weights = 1.0 / np.arange(1, ngram + 1)
    weights /= weights.sum()
    if not favor_shorter:
        weights = weights[::-1]
    # The same arithmetic as np.random.choice(..., p=weights).
    cumulative = weights.cumsum()
    cumulative /= cumulative[-1]
    return [float(value) for value in cumulative]


def find_words(
    tokens: Sequence[int], vocabulary: Vocabulary, whole_words: bool
) -> list[list[int]]:
    """Group the positions of a sequence into candidates for masking.

    Example:
        tokens = [CLS] ▁it ▁rain s [SEP] ▁we ▁stay [SEP]
        result = [[1], [2, 3], [5], [6]]

    As in the original, a continuation piece joins the word before it even
    across the [SEP] between the segments (D3 of the specification).

    Args:
        tokens: [T] piece ids; [CLS] and [SEP] are no candidates.
        vocabulary: Table of word starts.
        whole_words: False makes every piece its own candidate.

    Returns:
        Lists of positions, all ascending.
    """
    special = (vocabulary.cls_id, vocabulary.sep_id)
    boundaries = vocabulary.boundaries
    words: list[list[int]] = []
    for position, token in enumerate(tokens):
        if boundaries[token] or not whole_words or not words:
            if token not in special:
                words.append([position])
        else:
            words[-1].append(position)
    return words


@dataclasses.dataclass(frozen=True)
class Runs:
    """The runs of neighbouring words of one sequence.

    Attributes:
        words: Positions of each word.
        budget: Most pieces to choose.
        cumulative: Cumulative distribution of the number of words of a run.
    """

    words: list[list[int]]
    budget: int
    cumulative: list[float]

    def choose(
        self,
        order: Sequence[int],
        taken: frozenset[int],
        length_rng: np.random.RandomState,
    ) -> list[int]:
        """Choose runs until the budget is used up.

        Args:
            order: The words at which runs begin, in the order of trying.
            taken: Positions that may not be chosen.
            length_rng: One uniform number is drawn for each run tried, also
                for those that are then passed over.

        Returns:
            Positions in the order in which they were chosen.
        """
        chosen: list[int] = []
        seen = set(taken)
        for start in order:
            if len(chosen) >= self.budget:
                break
            # Equal to the legacy np.random.choice over 1..N with p.
            draw = length_rng.random_sample()
            length = bisect.bisect_right(self.cumulative, draw) + 1
            run = self._fitting(start, length, self.budget - len(chosen))
            if run and seen.isdisjoint(run):
                chosen += run
                seen.update(run)
        return chosen

    def _fitting(self, start: int, length: int, room: int) -> list[int]:
        """Return a run shortened, word by word, to `room` pieces, or []."""
        for end in range(start + length, start, -1):
            run = list(itertools.chain.from_iterable(self.words[start:end]))
            if len(run) <= room:
                return run
        return []


def _permute(
    output: list[int], positions: Sequence[int], rng: random.Random
) -> None:
    """Exchange the pieces at ascending `positions` with each other."""
    sources = list(positions)
    rng.shuffle(sources)
    pieces = [output[source] for source in sources]
    for position, piece in zip(positions, pieces, strict=True):
        output[position] = piece


def shuffle(items: list[int], rng: random.Random) -> None:
    """Shuffle in place, with the draws and the result of `rng.shuffle`.

    Written out because the two shuffles of a sequence are more than half of
    the work of masking; without the inner calls they take a third of the time.
    """
    getrandbits = rng.getrandbits
    for last in range(len(items) - 1, 0, -1):
        size = last + 1
        bits = size.bit_length()
        other = getrandbits(bits)
        while other >= size:
            other = getrandbits(bits)
        items[last], items[other] = items[other], items[last]
