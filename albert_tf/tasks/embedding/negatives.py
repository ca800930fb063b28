"""Negatives of pairs: texts that are close, but not the answer.

Source: de Souza P. Moreira et al., arXiv 2407.15831 (NV-Retriever), section 3,
positive-aware mining by a share of the positive's score.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.tasks.embedding import retrieval


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="negatives max_share skip_ranks draw_from random_seed")
class NegativeOptions:
    """Which texts become negatives."""

    negatives: int = option(
        1, "Negatives of each pair, at most.", within=ranges.Range(1, 1000)
    )
    max_share: float = option(
        0.95,
        "The largest cosine of a negative, as a share of the positive's. What "
        "is closer is often an answer that nobody marked.",
        within=ranges.Range(above=0, high=1),
    )
    skip_ranks: int = option(
        0,
        "Leave out so many of the nearest texts that are no answers.",
        within=ranges.Range(0, 10**6),
    )
    draw_from: int | None = option(
        None,
        "Draw them at random from so many of the nearest that are left. "
        "Default: take the nearest.",
        within=ranges.Range(1, 10**6),
    )
    random_seed: int = option(
        12345, "For --draw_from.", within=ranges.WRITER_SEED
    )

    def __post_init__(self) -> None:
        if self.draw_from and self.draw_from < self.negatives:
            raise errors.UserError(
                f"`draw_from={self.draw_from}` is less than "
                f"`negatives={self.negatives}`. Draw from at least as many."
            )


def mine(
    pairs: Sequence[tuple[str, ...]],
    texts: Sequence[str],
    vectors: np.ndarray,
    options: NegativeOptions,
) -> Iterator[list[str]]:
    """Yield the negatives of each pair, the nearest first; there may be none.

    They are second texts, but neither equal to the first one nor an answer of
    an equal one, and never closer than the positive. The cosines of 256 pairs
    are computed at a time.

    Args:
        texts: Those of all pairs; the vectors are theirs.
        vectors: float [texts, width], of length 1.
    """
    row_of = {text: row for row, text in enumerate(texts)}
    candidates = [*dict.fromkeys(second for _, second in pairs)]
    numbers = {text: number for number, text in enumerate(candidates)}
    excluded: dict[str, list[int]] = {}
    for first, second in pairs:
        same = [numbers[first]] if first in numbers else []
        excluded.setdefault(first, same).append(numbers[second])
    rows = retrieval.cosines(
        vectors[[row_of[first] for first, _ in pairs]],
        vectors[[row_of[text] for text in candidates]],
    )
    for pair, (row, (first, second)) in enumerate(
        zip(rows, pairs, strict=True)
    ):
        positive = row[numbers[second]]
        row[excluded[first]] = -np.inf
        is_above = row > min(positive, options.max_share * positive)
        skipped = max(0, options.skip_ranks - int(is_above.sum()))
        row[is_above] = -np.inf
        most = skipped + (options.draw_from or options.negatives)
        best = np.argpartition(-row, min(most, len(row)) - 1)[:most]
        best = best[np.lexsort((best, -row[best]))][skipped:]
        best = best[row[best] > -np.inf]
        if options.draw_from:
            random = np.random.default_rng([options.random_seed, pair])
            drawn = random.permutation(len(best))[: options.negatives]
            best = best[np.sort(drawn)]
        yield [candidates[number] for number in best]
