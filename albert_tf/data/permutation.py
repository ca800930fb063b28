"""Permutation language modelling: which pieces are targets, in which order.

Source: XLNet, Yang et al., arXiv 1906.08237, sections 2.3 and A.5; the released
program's data_utils._sample_mask and data_utils._local_perm.
"""

import dataclasses

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import drawing, layouts, masking

# A span of n pieces has 6 n others around it: α and β of the release.
_CONTEXT = 6
# Pieces of a span: n of them with a probability proportional to 1/n.
_LENGTHS = masking.cumulative_lengths(5, True)
# Purposes of draws.
_LENGTH, _PLACE, _MORE, _RANK = range(20, 24)


@dataclasses.dataclass(frozen=True)
class PermutationDrawer:
    """Draws spans of each half of a sequence as targets, and an order of all.

    Both halves are permuted by themselves; the second sees all of the first.
    A position sees those whose `ranks` are below its `horizons`. Ordinary
    pieces that are no targets have a rank that all of their half see, padding
    one that nothing sees. [CLS] and [SEP] have a random rank and see
    themselves. The masker says how many targets there are at most.
    """

    masker: masking.Masker
    max_seq_length: int
    drops: tuple[str, ...] = ()

    @property
    def makes(self) -> layouts.Layout:
        """See `Drawer`; `query_ids` have [MASK] where targets are."""
        sequence = (self.max_seq_length,)
        predictions = layouts.mask_layout(
            self.max_seq_length, self.masker.num_predictions
        )
        names = "query_ids", "ranks", "horizons"
        return (
            *(layouts.Feature(name, sequence, "int64") for name in names),
            *(f for f in predictions if f.name != "input_ids"),
        )

    def draw(
        self, records: drawing.Batch, seeds: np.ndarray, step: int | None = None
    ) -> dict[str, np.ndarray]:
        ids, real = records["input_ids"], records["input_mask"] > 0
        vocabulary = self.masker.vocabulary
        special = (ids == vocabulary.cls_id) | (ids == vocabulary.sep_id)
        ordinary = real & ~special
        starts = ordinary & (records["token_boundary"] > 0)
        targets = self._choose_targets(starts, ordinary, seeds)
        ranks, horizons = draw_order(targets, special, real, seeds)
        # A piece that sees nothing is no target: all its attention scores are
        # masked alike, so that it would see itself.
        targets &= ranks.min(1, keepdims=True) < horizons
        lists = masking.to_lists(
            np.flatnonzero(targets), ids, self.masker.num_predictions
        )
        return {
            "query_ids": np.where(targets, vocabulary.mask_id, ids),
            "ranks": ranks,
            "horizons": horizons,
            **drawing.prediction_features(*lists),
        }

    def _choose_targets(
        self, starts: np.ndarray, ordinary: np.ndarray, seeds: np.ndarray
    ) -> np.ndarray:
        """Choose the targets of both halves, bool [n, S].

        Args:
            starts: bool [n, S], ordinary pieces that start a word.
            ordinary: bool [n, S], neither special nor padding.
        """
        most, half = self.masker.num_predictions, self.max_seq_length // 2
        halves = [
            (slice(0, half), most // 2, 0),
            (slice(half, None), most - most // 2, 1),
        ]
        return np.concatenate(
            [
                choose_targets(
                    starts[:, half_of],
                    ordinary[:, half_of],
                    budget,
                    random_streams.derive_array(seeds, number),
                )
                for half_of, budget, number in halves
            ],
            axis=1,
        )


def choose_targets(
    starts: np.ndarray, ordinary: np.ndarray, budget: int, seeds: np.ndarray
) -> np.ndarray:
    """Choose targets: spans of 1 to 5 pieces, then pieces until it is enough.

    Args:
        starts: bool [n, T], where a span may begin.
        ordinary: bool [n, T], which pieces may be targets.
        budget: Most targets; at most a sixth of the ordinary pieces are.

    Returns:
        bool [n, T].
    """
    num_targets = np.minimum(budget, -(-ordinary.sum(1) // _CONTEXT))
    in_spans = _choose_spans(starts, num_targets, seeds) & ordinary
    streams = random_streams.derive_array(seeds, _MORE)[:, None]
    draws = random_streams.uniform(streams, np.arange(starts.shape[1]))
    # Pieces of spans come first, those that cannot be targets come last.
    priorities = draws - in_spans + ~ordinary
    ranks = np.argsort(np.argsort(priorities, axis=1), axis=1)
    return ranks < num_targets[:, None]


def _choose_spans(
    starts: np.ndarray, counts: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    """Return which pieces are in a span, bool [n, T].

    A span begins at a word start and has a context of six times its pieces,
    part of it before the span. The released program means to count words, but
    looks at the wrong piece, so it counts pieces; so does this.

    Args:
        starts: bool [n, T], where a span may begin.
        counts: int [n], most pieces in all spans of a sequence.
    """
    count, length = starts.shape
    starts_or_end = np.where(starts, np.arange(length), length)
    # The next word start from each position on; `length` if there is none.
    next_start = np.minimum.accumulate(starts_or_end[:, ::-1], axis=1)[:, ::-1]
    next_start = np.pad(next_start, [(0, 0), (0, 1)], constant_values=length)
    edges = np.zeros([count, length + 1], np.int64)  # 1: begins, -1: has ended.
    rows, position = np.arange(count), np.zeros(count, np.int64)
    length_seeds, offset_seeds = (
        random_streams.derive_array(seeds, purpose)
        for purpose in (_LENGTH, _PLACE)
    )
    num_left, step = counts.copy(), 0
    continues = num_left > 0
    while continues.any():
        draw = random_streams.uniform(length_seeds, step)
        span = np.searchsorted(_LENGTHS, draw, side="right") + 1
        span = np.minimum(span, num_left)
        context = span * _CONTEXT
        fraction = random_streams.uniform(offset_seeds, step)
        skipped = (fraction * context).astype(np.int64)
        begin = next_start[rows, np.minimum(position + skipped, length)]
        continues &= begin + span < length
        edges[rows[continues], begin[continues]] += 1
        edges[rows[continues], (begin + span)[continues]] -= 1
        num_left -= np.where(continues, span, 0)
        position = begin + span + context - skipped
        step += 1
        continues &= num_left > 0
    return np.cumsum(edges, axis=1)[:, :-1] > 0


def draw_order(
    target: np.ndarray, special: np.ndarray, real: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `ranks` and `horizons` of `PermutationDrawer`, int64 [n, S] each.

    Example:
        the first half [CLS] a b of a sequence, b is the target; drawn 1, 2, 0:
        ranks 1, -1, 0; horizons 2, 0, 0: b sees only a, a only itself, and
        [CLS] all of them.

    Args:
        target: bool [n, S], from `choose_targets`.
        special: bool [n, S], [CLS] and [SEP].
        real: bool [n, S], all but padding.
    """
    length = target.shape[1]
    half = length // 2
    rank_seeds = random_streams.derive_array(seeds, _RANK)[:, None]
    draws = random_streams.uniform(rank_seeds, np.arange(length))
    is_second = np.arange(length) >= half
    # The first half comes first; what its last position sees ends below the
    # second half.
    random_ranks = np.argsort(np.argsort(draws + is_second, axis=1), axis=1)
    random_ranks += 2 * is_second
    shared_rank = np.where(is_second, half + 1, -1)
    ranks = np.where(target | special, random_ranks, shared_rank)
    horizons = np.where(special, ranks + 1, ranks)
    horizons = np.where(target | special, horizons, shared_rank + 1)
    return np.where(real, ranks, 2 * length), horizons
