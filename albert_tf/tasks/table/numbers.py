"""Tables with a number for each text, or with texts ranked for queries."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, imports
from albert_tf.data import layouts
from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, kind

metrics = imports.later("sklearn.metrics")

_PAIRS_PER_TEXT = 4
_PLACES = 10


# Two texts of a query, of which the first is more relevant.
TextPair = tuple[TextExample, TextExample]


class NumberTask(kind.Kind):
    """A number for each row.

    The head's output, and the labels in records, are in units of the deviation
    from the mean. The model multiplies and adds them in float64, so that all
    outputs are in the column's units.
    """

    metrics: Sequence[str] = ("pearson", "spearmanr", "mae", "rmse")

    @property
    def scale(self) -> tuple[float, float]:  # type: ignore[override]
        return self.facts.label_mean or 0.0, self.facts.label_deviation or 1.0

    @property
    def settings(self) -> dict[str, Any]:
        scaled = {"scale": list(self.scale)} if self.options.needs_scale else {}
        return {**super().settings, **scaled}

    def labels_of(self, table: Sequence[data.Row]) -> Sequence[float]:
        return [row.labels[0] for row in table]

    def check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        numbers = np.array([example.label for example in examples])
        if np.ptp(numbers) == 0:
            raise errors.UserError(
                f"{path}: all {len(numbers)} examples to learn have the number "
                f"{numbers[0]:g} in the column {self.options.label_column!r}. "
                "There is nothing to learn; name another column."
            )


class RankingTask(NumberTask):
    """The relevance of a text for a query.

    An example is a pair of texts, the query first. Its score is a number that
    is only compared with those of other texts.
    """

    metrics: Sequence[str] = ("ndcg", "mrr")
    teacher_reads_alike = True

    @property
    def is_pairwise(self) -> bool:  # type: ignore[override]
        return self.options.ranking_loss != data.POINTWISE

    @property
    def sequences_at_once(self) -> int:  # type: ignore[override]
        return 2 if self.is_pairwise else 1

    @property
    def settings(self) -> dict[str, Any]:
        options = self.options
        pairs = [options.ranking_loss, options.pairs_per_text]
        return {**super().settings, "pairs": pairs}

    def read(self, path: str, split: str) -> list[Any]:
        """Read a file strictly; pairwise, TRAIN has pairs of texts."""
        examples = super().read(path, split)
        are_paired = split == base.TRAIN and self.is_pairwise
        if are_paired or split in (base.DEV, base.HELD_OUT):
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

    def texts_of(self, learnt: base.Examples) -> Sequence[TextExample]:
        if not self.is_pairwise:
            return learnt
        return [text for pair in learnt for text in pair]

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
        for values in super().featurize(self.texts_of(examples), split):
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
        of_queries = [
            (
                metrics.ndcg_score(
                    [relevance[rows]], [numbers[rows]], k=places
                ),
                reciprocal_rank(relevance[rows], numbers[rows]),
            )
            for rows in _queries(examples)
            if np.ptp(relevance[rows]) > 0
        ]
        means = np.mean(of_queries, 0).tolist()
        return dict(zip(self.metrics, means, strict=True))


def _queries(examples: Sequence[TextExample]) -> list[list[int]]:
    """Return the numbers of the examples of each query."""
    numbers: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        numbers.setdefault(example.texts[0], []).append(number)
    return list(numbers.values())


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
