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
        1,
        "Negatives of each pair, at most; each makes a triplet.",
        within=ranges.Range(1, 1000),
    )
    max_share: float = option(
        0.95,
        "The largest cosine of a negative, as a share of the positive's. What "
        "is closer is often an answer that nobody marked.",
        within=ranges.Range(above=0, high=1),
    )
    skip_ranks: int = option(
        0,
        "The nearest texts that are no answers are left out, so many of them.",
        within=ranges.Range(0, 10**6),
    )
    draw_from: int | None = option(
        None,
        "Draw the negatives at random from so many of the nearest that are "
        "left. Default: the nearest themselves.",
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

    def require_texts(self, texts: int, path: str) -> None:
        """Refuse a file with too few different second texts."""
        needed = 1 + self.skip_ranks + self.negatives
        if texts < needed:
            raise errors.UserError(
                f"{path} has {texts} different texts as `text_pair`. With "
                f"`negatives={self.negatives}` and `skip_ranks="
                f"{self.skip_ranks}` it needs {needed}, with the answer. Give "
                "more pairs, or ask for fewer negatives."
            )


def mine(
    pairs: Sequence[tuple[str, ...]],
    candidates: Sequence[str],
    first_vectors: np.ndarray,
    vectors: np.ndarray,
    options: NegativeOptions,
) -> Iterator[list[str]]:
    """Yield the negatives of each pair, the nearest first; there may be none.

    Those of a pair are candidates other than its first text and all second
    texts of pairs with an equal first one. No cosine is above the positive's,
    whatever the share. Cosines are computed for 256 pairs at a time.

    Args:
        candidates: All second texts, each once.
        first_vectors: float [pairs, width], of length 1.
        vectors: float [candidates, width], of length 1.
    """
    numbers = {text: number for number, text in enumerate(candidates)}
    excluded: dict[str, list[int]] = {}
    for first, second in pairs:
        same = [numbers[first]] if first in numbers else []
        excluded.setdefault(first, same).append(numbers[second])
    nearest = options.draw_from or options.negatives
    rows = retrieval.cosines(first_vectors, vectors)
    for pair, (row, (first, second)) in enumerate(
        zip(rows, pairs, strict=True)
    ):
        positive = row[numbers[second]]
        row[excluded[first]] = -np.inf
        is_above = row > min(positive, options.max_share * positive)
        skipped = max(0, options.skip_ranks - int(is_above.sum()))
        row[is_above] = -np.inf
        most = min(skipped + nearest, len(row))
        best = np.argpartition(-row, most - 1)[:most]
        best = best[np.lexsort((best, -row[best]))][skipped:]
        best = best[row[best] > -np.inf]
        if options.draw_from:
            random = np.random.default_rng([options.random_seed, pair])
            drawn = random.permutation(len(best))[: options.negatives]
            best = best[np.sort(drawn)]
        yield [candidates[number] for number in best]
