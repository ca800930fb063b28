"""Permutation language modelling: which pieces are asked for, in which order.

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
    """Asks for spans of each half of a sequence, in a random order.

    Both halves are permuted by themselves; the second sees all of the first.
    A position sees those whose `ranks` are below its `horizons`. Ordinary
    pieces that are not asked for have a rank that all of their half see,
    padding one that nothing sees. [CLS] and [SEP] have a random rank and see
    themselves. The masker says how many pieces are asked for at most.
    """

    masker: masking.Masker
    max_seq_length: int
    drops: tuple[str, ...] = ()

    @property
    def makes(self) -> layouts.Layout:
        """See `Drawer`; `query_ids` have [MASK] where pieces are asked for."""
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
        self, records: drawing.Arrays, keys: np.ndarray, step: int | None = None
    ) -> dict[str, np.ndarray]:
        ids, real = records["input_ids"], records["input_mask"] > 0
        vocabulary = self.masker.vocabulary
        special = (ids == vocabulary.cls_id) | (ids == vocabulary.sep_id)
        ordinary = real & ~special
        starts = ordinary & (records["token_boundary"] > 0)
        targets = self._targets(starts, ordinary, keys)
        ranks, horizons = order(targets, special, real, keys)
        # A piece that sees nothing is not asked for: all its scores are masked
        # alike, so that it would see itself.
        targets &= ranks.min(1, keepdims=True) < horizons
        lists = masking.collect(
            np.flatnonzero(targets), ids, self.masker.num_predictions
        )
        return {
            "query_ids": np.where(targets, vocabulary.mask_id, ids),
            "ranks": ranks,
            "horizons": horizons,
            **drawing.predictions(*lists),
        }

    def _targets(
        self, starts: np.ndarray, ordinary: np.ndarray, keys: np.ndarray
    ) -> np.ndarray:
        """Return which pieces are asked for, bool [n, S].

        Args:
            starts: bool [n, S], ordinary pieces that start a word.
            ordinary: bool [n, S], neither special nor padding.
        """
        most, half = self.masker.num_predictions, self.max_seq_length // 2
        parts = [
            (slice(0, half), most // 2, 0),
            (slice(half, None), most - most // 2, 1),
        ]
        return np.concatenate(
            [
                choose_targets(
                    starts[:, part],
                    ordinary[:, part],
                    budget,
                    random_streams.derive_array(keys, number),
                )
                for part, budget, number in parts
            ],
            axis=1,
        )


def choose_targets(
    starts: np.ndarray, ordinary: np.ndarray, budget: int, keys: np.ndarray
) -> np.ndarray:
    """Choose spans of 1 to 5 pieces, then single pieces until there are enough.

    Args:
        starts: bool [n, T], where a span may begin.
        ordinary: bool [n, T], what may be asked for.
        budget: Most pieces; there are at most a sixth of the ordinary ones.

    Returns:
        bool [n, T].
    """
    counts = np.minimum(budget, -(-ordinary.sum(1) // _CONTEXT))
    chosen = _choose_spans(starts, counts, keys) & ordinary
    streams = random_streams.derive_array(keys, _MORE)[:, None]
    draws = random_streams.uniform(streams, np.arange(starts.shape[1]))
    # Those that are chosen come first, those that cannot be come last.
    order_of_all = draws - chosen + ~ordinary
    ranks = np.argsort(np.argsort(order_of_all, axis=1), axis=1)
    return ranks < counts[:, None]


def _choose_spans(
    starts: np.ndarray, counts: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Return which pieces are in a span, bool [n, T].

    A span begins at a word start and has a context of six times its pieces,
    part of it before the span. The release means to count words, but looks at
    the wrong piece, so it counts pieces; so does this.

    Args:
        starts: bool [n, T], where a span may begin.
        counts: int [n], most pieces in spans.
    """
    count, length = starts.shape
    places = np.where(starts, np.arange(length), length)
    # The next word start at or after each place; `length` if there is none.
    following = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]
    following = np.pad(following, [(0, 0), (0, 1)], constant_values=length)
    edges = np.zeros([count, length + 1], np.int64)  # 1: begins, -1: has ended.
    rows, here = np.arange(count), np.zeros(count, np.int64)
    lengths, before = (
        random_streams.derive_array(keys, purpose)
        for purpose in (_LENGTH, _PLACE)
    )
    missing, step = counts.copy(), 0
    continues = missing > 0
    while continues.any():
        draw = random_streams.uniform(lengths, step)
        size = np.searchsorted(_LENGTHS, draw, side="right") + 1
        size = np.minimum(size, missing)
        context = size * _CONTEXT
        share = random_streams.uniform(before, step)
        skipped = (share * context).astype(np.int64)
        begin = following[rows, np.minimum(here + skipped, length)]
        continues &= begin + size < length
        edges[rows[continues], begin[continues]] += 1
        edges[rows[continues], (begin + size)[continues]] -= 1
        missing -= np.where(continues, size, 0)
        here = begin + size + context - skipped
        step += 1
        continues &= missing > 0
    return np.cumsum(edges, axis=1)[:, :-1] > 0


def order(
    targets: np.ndarray, special: np.ndarray, real: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `ranks` and `horizons` of `PermutationDrawer`, int64 [n, S] each.

    Example:
        the first half [CLS] a b of a sequence, b is asked for; drawn 1, 2, 0:
        ranks 1, -1, 0; horizons 2, 0, 0: b sees only a, a only itself, and
        [CLS] all of them.

    Args:
        targets: bool [n, S], what is asked for.
        special: bool [n, S], [CLS] and [SEP].
        real: bool [n, S], all but padding.
    """
    length = targets.shape[1]
    half = length // 2
    draw_keys = random_streams.derive_array(keys, _RANK)[:, None]
    drawn = random_streams.uniform(draw_keys, np.arange(length))
    is_second = np.arange(length) >= half
    # The first half comes first; what its last position sees ends below the
    # second half.
    places = np.argsort(np.argsort(drawn + is_second, axis=1), axis=1)
    places += 2 * is_second
    open_to_all = np.where(is_second, half + 1, -1)
    ranks = np.where(targets | special, places, open_to_all)
    horizons = np.where(special, ranks + 1, ranks)
    horizons = np.where(targets | special, horizons, open_to_all + 1)
    return np.where(real, ranks, 2 * length), horizons
