"""Masking one sequence at a time, with the original's draws in their order.

Source: ALBERT §4.1; in the original, create_pretraining_data.
create_masked_lm_predictions. Equally seeded generators give the original's
records. The tests compare `albert_tf.data.masking`, which draws otherwise and
works on many sequences at once, with this.
"""

import bisect
import dataclasses
import itertools
import random
from collections.abc import Sequence

import numpy as np

from albert_tf.data import masking

# BERT's replacement rule, kept by ALBERT: of the chosen pieces 80 % become
# [MASK], half of the others stay and half become a random piece.
_MASK_PROB = 0.8
_KEEP_PROB = 0.5


@dataclasses.dataclass(frozen=True)
class MaskedSequence:
    """`positions`, `labels`: where something is predicted, and what it was.

    `token_boundary`: 1 for [CLS], [SEP] and pieces that start a word.
    """

    input_ids: list[int]
    positions: list[int]
    labels: list[int]
    token_boundary: list[int]


class Masker:
    """Masks sequences; holds the tables that are the same for all of them."""

    def __init__(
        self, options: masking.MaskingOptions, vocabulary: masking.Vocabulary
    ) -> None:
        self._options = options
        self._vocabulary = vocabulary
        self._cumulative = masking.cumulative_lengths(
            options.ngram, options.favor_shorter_ngram
        )

    def mask(
        self,
        tokens: Sequence[int],
        rng: random.Random,
        length_rng: np.random.RandomState,
    ) -> MaskedSequence:
        """Hide some pieces of one sequence, which is not padded.

        With `masked_lm_prob` 0 nothing is drawn and nothing is hidden.
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
        rng.shuffle(order)
        runs = Runs(words, self._budget(len(tokens)), self._cumulative)
        chosen = runs.choose(order, frozenset(), length_rng)
        for position in chosen:
            self._replace(output, position, rng)
        # The original shuffles again even when nothing follows.
        rng.shuffle(order)
        if self._options.do_permutation:
            moved = sorted(runs.choose(order, frozenset(chosen), length_rng))
            _permute(output, moved, rng)
            chosen += moved
        chosen.sort()
        labels = [tokens[position] for position in chosen]
        return MaskedSequence(output, chosen, labels, token_boundary)

    def _budget(self, length: int) -> int:
        share = round(length * self._options.masked_lm_prob)
        return min(self._options.max_predictions_per_seq, max(1, share))

    def _replace(
        self, output: list[int], position: int, rng: random.Random
    ) -> None:
        if rng.random() < _MASK_PROB:
            output[position] = self._vocabulary.mask_id
        elif rng.random() >= _KEEP_PROB:
            output[position] = rng.randint(0, self._vocabulary.size - 1)


def find_words(
    tokens: Sequence[int], vocabulary: masking.Vocabulary, whole_words: bool
) -> list[list[int]]:
    """Group the positions of a sequence into candidates for masking.

    Example:
        tokens = [CLS] ▁it ▁rain s [SEP] ▁we ▁stay [SEP]
        result = [[1], [2, 3], [5], [6]]

    As in the original, a continuation piece joins the word before it even
    across the [SEP] between the segments (D3 of the specification).
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
    words: list[list[int]]  # Positions of each word.
    budget: int  # Most pieces to choose.
    cumulative: list[float]  # Distribution of the number of words of a run.

    def choose(
        self,
        order: Sequence[int],
        taken: frozenset[int],
        length_rng: np.random.RandomState,
    ) -> list[int]:
        """Choose runs until the budget is used up.

        One uniform number is drawn for each run tried, also for those that are
        then passed over.
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
    sources = list(positions)
    rng.shuffle(sources)
    pieces = [output[source] for source in sources]
    for position, piece in zip(positions, pieces, strict=True):
        output[position] = piece
