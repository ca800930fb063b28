"""Tables that rank texts for queries: one row is a query, a text, a relevance.

An example is a pair of texts, the query first. Its score is a number that is
only compared with those of other texts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, imports
from albert_tf.data import layouts
from albert_tf.finetuning import base, regression, tables
from albert_tf.finetuning.glue.glue_data import TextExample

metrics = imports.later("sklearn.metrics")

_PAIRS_PER_TEXT = 4
_PLACES = 10


# Two texts of a query, of which the first is more relevant.
TextPair = tuple[TextExample, TextExample]


class RankingTask(regression.RegressionTask):
    """The relevance of a text for a query."""

    metrics: Sequence[str] = ("ndcg", "mrr")

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.is_pairwise = self.options.ranking_loss != tables.POINTWISE
        self.sequences_at_once = 2 if self.is_pairwise else 1

    @property
    def settings(self) -> dict[str, Any]:
        one = self.options
        pairs = [one.ranking_loss, one.pairs_per_text]
        return {**super().settings, "pairs": pairs}

    def read(self, path: str, split: str) -> list[Any]:
        """Read a file strictly; pairwise, TRAIN has pairs of texts."""
        examples = super().read(path, split)
        are_paired = split == base.TRAIN and self.is_pairwise
        if are_paired or split in (base.DEV, tables.HELD_OUT):
            _report(examples, f"{path}, {split}")
        if not are_paired:
            return examples
        # Each text with less relevant ones of its query, at random.
        random = np.random.default_rng(self.options.split_seed)
        most = self.options.pairs_per_text or _PAIRS_PER_TEXT
        pairs: list[TextPair] = []
        for numbers in _queries(examples):
            texts = [examples[number] for number in numbers]
            for better in texts:
                worse = [text for text in texts if text.label < better.label]
                drawn = random.permutation(len(worse))[:most]
                pairs += [(better, worse[at]) for at in drawn]
        logging.info("%s: %d pairs of texts are learnt.", path, len(pairs))
        return pairs

    def layout(self, split: str) -> layouts.Layout:
        if split == base.TRAIN and self.is_pairwise:
            return layouts.choice_layout(self.max_seq_length, 2)
        return super().layout(split)

    def featurize(
        self, examples: Sequence[Any], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield one record for each example; in a pair the first is right."""
        if split != base.TRAIN or not self.is_pairwise:
            yield from super().featurize(examples, split)
            return
        texts = [text for pair in examples for text in pair]
        for values in super().featurize(texts, split):
            right = np.zeros(len(values["input_ids"]), np.int64)
            yield {**values, "label_ids": right}

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return nDCG and the mean reciprocal rank, means over the queries.

        Queries whose texts all have one relevance do not count. In nDCG texts
        with equal scores get the mean of their gains.
        """
        numbers = np.asarray(outputs["logits"], np.float64)[:, 0]
        if not np.isfinite(numbers).all():
            raise ValueError("Predictions are NaN or infinite.")
        relevance = np.array([example.label for example in examples])
        places = self.options.ndcg_at or _PLACES
        found = [
            (
                metrics.ndcg_score(
                    [relevance[rows]], [numbers[rows]], k=places
                ),
                reciprocal_rank(relevance[rows], numbers[rows]),
            )
            for rows in _queries(examples)
            if np.ptp(relevance[rows]) > 0
        ]
        means = np.mean(found, 0).tolist()
        return dict(zip(self.metrics, means, strict=True))


def _queries(examples: Sequence[TextExample]) -> list[list[int]]:
    """Return the numbers of the examples of each query."""
    found: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        found.setdefault(example.texts[0], []).append(number)
    return list(found.values())


def _report(examples: Sequence[TextExample], where: str) -> None:
    """Say which queries do not count; refuse examples without any other."""
    queries = _queries(examples)
    single = sum(len(numbers) == 1 for numbers in queries)
    alike = [len({examples[n].label for n in ns}) == 1 for ns in queries]
    out, total = sum(alike), len(queries)
    counts = (
        f"{single} have one text, {out - single} have several texts of the "
        "same relevance"
    )
    if out == total:
        raise errors.UserError(
            f"{where}: none of {total} queries has texts of different "
            f"relevance: {counts}. Is `query_column` the right one? Give more "
            "texts for each query."
        )
    if out:
        logging.warning(
            "%s: %d of %d queries do not count: %s.", where, out, total, counts
        )


def reciprocal_rank(relevance: np.ndarray, scores: np.ndarray) -> float:
    """Return 1 / the place of the first text with a relevance above 0.

    Texts without relevance that have its score stand before it.
    """
    is_relevant = relevance > 0
    best = scores[is_relevant].max()
    return float(1 / (1 + (scores[~is_relevant] >= best).sum()))
