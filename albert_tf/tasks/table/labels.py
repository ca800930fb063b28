"""Tables whose texts have one label each, or any number of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, rows
from albert_tf.data import layouts
from albert_tf.finetuning import base, probabilities
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import data, kind
from albert_tf.tasks.table.data import numbers_of
from albert_tf.tasks.text import computed_heads, portable
from albert_tf.training import confusion

_SHOWN = 20  # Labels in a message.
# float32 knows thresholds between these.
_RANGE = 1e-4, 1 - 1e-4
# Names of thresholds among the scores of a run.
_THRESHOLD, _THRESHOLD_OF = "threshold", "threshold_of_"


class LabelTask(kind.Kind):
    """One label for each row."""

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        of_two = ["f1"] * (len(self.labels) == data.LEAST_LABELS)
        return ["accuracy", "matthew_corr", *of_two]

    def class_weights(self, learnt: base.Examples) -> tuple[Any, ...] | None:
        """Return the weight of each label, as scikit-learn's "balanced".

        Their mean over the training examples is 1. None without weights, and
        without training.
        """
        if self.options.class_weights == data.NO_WEIGHTS or not learnt:
            return None
        return self.balanced(self.counts(learnt), len(learnt))

    def balanced(self, counts: np.ndarray, total: int) -> tuple[Any, ...]:
        """Return weights, given the examples of each label, and of all."""
        return tuple((total / len(counts) / counts).tolist())

    def counts(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return how many examples each label has, int64 [labels]."""
        numbers = [n for example in examples for n in numbers_of(example)]
        return np.bincount(numbers, minlength=len(self.labels))

    def check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        missing = np.flatnonzero(self.counts(examples) == 0)
        labels = [self.labels[number] for number in missing]
        none = self.options.none_label
        if none and none not in labels:
            raise errors.UserError(
                f"{path} describes `none_label={none}`, the label of texts "
                "that are close to no description. Take these rows away."
            )
        if self.options.labels_file:
            earlier: set[str] = set()
            for example in examples:
                text = example.texts[0].strip()
                if not text or text in earlier:
                    raise errors.UserError(
                        f"{path}: the description {text!r} of "
                        f"{self.labels[numbers_of(example)[0]]!r} is "
                        f"{'there twice' if text else 'empty'}. Give each "
                        "label texts of its own."
                    )
                earlier.add(text)
        labels = [label for label in labels if label != none]
        if labels and self.computes_head:
            raise errors.UserError(
                f"{path} has no row to learn of the label {labels[0]!r}. Add "
                "one, or leave the label out of `labels`."
            )
        if labels and self.options.class_weights == data.BALANCED:
            raise errors.UserError(
                f"`class_weights={data.BALANCED}` cannot weigh the label "
                f"{labels[0]!r}, of which no example of {path} is learnt. "
                "Leave it out of `labels`, or give a `dev_file` instead of "
                "`dev_share`."
            )
        if labels:
            logging.warning(
                "No example of %s in %s is learnt.", ", ".join(labels), path
            )

    def compute_head(
        self, records: Callable[[str], base.Outputs]
    ) -> computed_heads.Head:
        learnt, options = records(base.TRAIN), self.options
        pair = learnt["vector"], learnt["label_ids"]
        if options.few_shot:
            is_balanced = options.class_weights == data.BALANCED
            return computed_heads.logistic(*pair, is_balanced=is_balanced)
        head = computed_heads.nearest(*pair, len(self.labels))
        if not options.none_label:
            return head
        none = self.labels.index(options.none_label)
        if (threshold := options.none_threshold) is None:
            dev = records(base.DEV)
            pair = dev["vector"], dev["label_ids"]
            if none not in pair[1]:
                raise errors.UserError(
                    f"`none_label={options.none_label}`: `dev_file` has no "
                    "such text. Add some, or give `none_threshold`."
                )
            threshold = computed_heads.best_threshold(head, none, *pair)
            logging.info("`none_threshold=%.3f` is best.", threshold)
        head[1][none] = computed_heads.SCALE * threshold
        return head

    def labels_of(self, table: Sequence[data.Row]) -> Sequence[Any]:
        return [numbers[0] for numbers in self.numbers_of_all(table)]

    def numbers_of_all(
        self, table: Sequence[data.Row]
    ) -> list[tuple[int, ...]]:
        """Return the numbers of the labels of each row, in their order."""
        number_of = {label: i for i, label in enumerate(self.labels)}
        wrong: dict[str, str] = {}  # Each with its first place.
        for row in table:
            for label in set(row.labels) - number_of.keys():
                wrong.setdefault(label, row.where)
        if wrong:
            (label, where), *others = wrong.items()
            allowed = ", ".join(map(repr, self.labels[:_SHOWN]))
            more = ", ..." * (len(self.labels) > _SHOWN)
            places = [f"{name!r} ({place})" for name, place in others]
            raise errors.UserError(
                f"{where}: the label {label!r} is not one of {allowed}{more}. "
                "Correct the row; or list all labels as `labels`, with tabs "
                "between them if one has a comma." + rows.and_others(places)
            )
        return [tuple(sorted({number_of[x] for x in r.labels})) for r in table]

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        scores = super().score(outputs, examples)
        expected = np.array([example.label for example in examples])
        shares = self.shares(outputs["logits"])
        counts = self.confusion(outputs, examples)
        assert counts
        return {
            **scores,
            "macro_f1": counts.macro_f1,
            "auc": probabilities.area_under_curve(shares, expected),
        }


class MultiLabelTask(LabelTask):
    """Any number of labels for each row: one yes or no for each label."""

    problem = "labels"
    _thresholds: np.ndarray | None = None

    @property
    def about(self) -> dict[str, Any]:
        return {**super().about, "thresholds": list(self.thresholds.values())}

    def layout(self, split: str) -> layouts.Layout:
        return layouts.with_labels(super().layout(split), len(self.labels))

    def label_ids(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return 1 for each label that an example has, [examples, labels]."""
        ids = np.zeros([len(examples), len(self.labels)], np.int64)
        for row, example in zip(ids, examples, strict=True):
            row[list(example.label or ())] = 1
        return ids

    def labels_of(self, table: Sequence[data.Row]) -> Sequence[Any]:
        return self.numbers_of_all(table)

    def check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        super().check_training(examples, path)
        if self.options.class_weights == data.NO_WEIGHTS:
            return
        for number in np.flatnonzero(self.counts(examples) == len(examples)):
            raise errors.UserError(
                f"`class_weights={self.options.class_weights}` cannot weigh "
                f"the label {self.labels[number]!r}: all examples of {path} "
                "have it. Remove it from the column."
            )

    def balanced(self, counts: np.ndarray, total: int) -> tuple[Any, ...]:
        """Return the weights of no and yes for each label.

        Yes and no count the same in total for each label, and all labels count
        the same.
        """
        both = np.stack([total - counts, counts], -1)
        return tuple(map(tuple, (total / 2 / both).tolist()))

    def shares(self, logits: np.ndarray) -> np.ndarray:
        return probabilities.sigmoid(logits)

    def logits_of(self, shares: np.ndarray) -> np.ndarray:
        return probabilities.logit(shares)

    def remember(self, scores: Mapping[str, float]) -> None:
        """Take the thresholds from an earlier `score`, if it has them.

        Without, the examples that have labels decide them.
        """
        others = [name for name in scores if name.startswith(_THRESHOLD_OF)]
        names = [f"{_THRESHOLD_OF}{label}" for label in self.labels]
        if _THRESHOLD in scores:
            names = [_THRESHOLD] * len(self.labels)
        elif not others:
            self._thresholds = None
            return
        for label, name in zip(self.labels, names, strict=True):
            if name not in scores:
                raise errors.UserError(
                    f"The scores of the run have no threshold of {label!r}, "
                    f"but {', '.join(others)}: they are of other labels. Run "
                    "the task again with `do_train` and `do_eval`."
                )
        self._thresholds = np.array([scores[name] for name in names])

    @property
    def thresholds(self) -> dict[str, float]:
        """That of each label, for texts whose labels are not known.

        It is the last that was remembered; else 0.5, with a warning.
        """
        thresholds = self._thresholds
        if thresholds is None:
            logging.warning(
                "No `do_eval` has chosen thresholds: texts get the labels "
                "whose probability is above %g.",
                portable.EVEN,
            )
            thresholds = self._thresholds = np.full(
                len(self.labels), portable.EVEN
            )
        return dict(zip(self.labels, thresholds.tolist(), strict=True))

    def thresholds_for(
        self, shares: np.ndarray, examples: Sequence[TextExample]
    ) -> np.ndarray:
        """Return what was remembered; else the best, where labels are known."""
        has_labels = all(example.label is not None for example in examples)
        if self._thresholds is not None or not has_labels:
            return np.array(list(self.thresholds.values()))
        right = self.label_ids(examples) > 0
        overall = best_threshold(shares.ravel(), right.ravel())
        thresholds = np.full(len(self.labels), overall)
        if self.options.label_thresholds == data.EACH:
            for number in np.flatnonzero(right.any(0)):
                thresholds[number] = best_threshold(
                    shares[:, number], right[:, number]
                )
        return thresholds

    def predictions(
        self, shares: np.ndarray, examples: Sequence[TextExample]
    ) -> list[Any]:
        is_given = shares > self.thresholds_for(shares, examples)
        return [
            [self.labels[number] for number in np.flatnonzero(row)]
            for row in is_given
        ]

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return F1, accuracy (all labels of a text), AUC, loss, thresholds."""
        logits = np.asarray(outputs["logits"], np.float64)
        if not np.isfinite(logits).all():
            raise ValueError("Predictions are NaN or infinite.")
        shares, right = self.shares(logits), self.label_ids(examples)
        thresholds = self.thresholds_for(shares, examples)
        is_given = shares > thresholds
        counts = confusion.Confusion.count_several(is_given, right, self.labels)
        names, values = [_THRESHOLD], thresholds[:1]
        if self.options.label_thresholds == data.EACH:
            names = [f"{_THRESHOLD_OF}{name}" for name in self.labels]
            values = thresholds
        losses = np.logaddexp(0, logits) - logits * right
        return {
            **counts.micro,
            "macro_f1": counts.macro_f1,
            "accuracy": float((is_given == right).all(-1).mean()),
            "auc": probabilities.mean_area(shares, right > 0),
            "loss": float(losses.mean()),
            **dict(zip(names, values.tolist(), strict=True)),
        }

    def confusion(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> confusion.Confusion:
        shares = self.shares(outputs["logits"])
        is_given = shares > self.thresholds_for(shares, examples)
        right = self.label_ids(examples)
        return confusion.Confusion.count_several(is_given, right, self.labels)

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        shares = [self.shares(outputs["logits"]) for outputs in runs]
        return {"logits": self.logits_of(np.mean(shares, 0))}


def best_threshold(chances: np.ndarray, right: np.ndarray) -> float:
    """Return the threshold with the best F1; of several the highest.

    It lies between two probabilities.

    Example:
        best_threshold([0.1, 0.4, 0.9], [False, True, True]) = 0.25

    Args:
        chances: float [n].
        right: bool [n], with one true at least.
    """
    if not right.any():
        return portable.EVEN
    order = np.argsort(-chances, kind="stable")
    ordered, hits = chances[order], right[order].cumsum()
    counts = np.arange(1, len(order) + 1)
    f1 = 2 * hits / (counts + hits[-1])
    below = np.append(ordered[1:], 0.0)
    f1[ordered == below] = -1  # No threshold lies between them.
    best = int(f1.argmax())
    middle = (ordered[best] + below[best]) / 2
    return float(np.clip(middle, *_RANGE))
