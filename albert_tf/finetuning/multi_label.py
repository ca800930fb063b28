"""Tables whose texts have several labels, or none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, rows
from albert_tf.data import layouts
from albert_tf.finetuning import base, probabilities, tables
from albert_tf.finetuning.glue.glue_data import TextExample
from albert_tf.training import confusion

# Where nothing is known about the probabilities.
EVEN = 0.5
# float32 knows thresholds between these.
_RANGE = 1e-4, 1 - 1e-4
# Names of thresholds among the scores of a run.
_THRESHOLD, _OF_LABEL = "threshold", "threshold_of_"


class MultiLabelTask(tables.TableTask):
    """Any number of labels for each row: one yes or no for each label."""

    problem = "labels"
    _thresholds: np.ndarray | None = None

    @property
    def about(self) -> dict[str, Any]:
        return {**super().about, "thresholds": list(self.thresholds.values())}

    def logits_of(self, rows: np.ndarray) -> np.ndarray:
        return probabilities.logit(rows)

    def layout(self, split: str) -> layouts.Layout:
        return layouts.with_labels(super().layout(split), len(self.labels))

    def label_ids(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return 1 for each label that an example has, [examples, labels]."""
        found = np.zeros([len(examples), len(self.labels)], np.int64)
        for row, example in zip(found, examples, strict=True):
            row[list(example.label or ())] = 1
        return found

    def _labels(self, read: Sequence[Any]) -> Sequence[Any]:
        return self._numbers(read)

    def _check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        super()._check_training(examples, path)
        if self.options.class_weights == tables.NO_WEIGHTS:
            return
        for number in np.flatnonzero(self._count(examples) == len(examples)):
            raise errors.UserError(
                f"`class_weights={self.options.class_weights}` cannot weigh "
                f"the label {self.labels[number]!r}: all examples of {path} "
                "have it. Remove it from the column."
            )

    def class_weights(
        self, learnt: Sequence[TextExample]
    ) -> Sequence[Any] | None:
        """Return the weights of no and yes for each label.

        As scikit-learn's "balanced": yes and no count the same in total for
        each label, and all labels count the same. None without weights.
        """
        if self.options.class_weights == tables.NO_WEIGHTS or not learnt:
            return None
        total, counts = len(learnt), self._count(learnt)
        both = np.stack([total - counts, counts], -1)
        return tuple(map(tuple, (total / 2 / both).tolist()))

    def remember(self, scores: Mapping[str, float]) -> None:
        """Take the thresholds from an earlier `score`, if it has them.

        Without, the examples that have labels decide them.
        """
        known = [name for name in scores if name.startswith(_OF_LABEL)]
        names = [f"{_OF_LABEL}{label}" for label in self.labels]
        if _THRESHOLD in scores:
            names = [_THRESHOLD] * len(self.labels)
        elif not known:
            self._thresholds = None
            return
        for label, name in zip(self.labels, names, strict=True):
            if name not in scores:
                raise errors.UserError(
                    f"The scores of the run have no threshold of {label!r}, "
                    f"but {', '.join(known)}: they are of other labels. Run "
                    "the task again with `do_train` and `do_eval`."
                )
        self._thresholds = np.array([scores[name] for name in names])

    @property
    def thresholds(self) -> dict[str, float]:
        """That of each label, for texts whose labels are not known.

        It is the last that was remembered; else 0.5, with a warning.
        """
        found = self._thresholds
        if found is None:
            logging.warning(
                "No `do_eval` has chosen thresholds: texts get the labels "
                "whose probability is above %g.",
                EVEN,
            )
            found = self._thresholds = np.full(len(self.labels), EVEN)
        return dict(zip(self.labels, found.tolist(), strict=True))

    def _thresholds_for(
        self, rows: np.ndarray, examples: Sequence[TextExample]
    ) -> np.ndarray:
        """Return what was remembered; else the best, where labels are known."""
        is_known = all(example.label is not None for example in examples)
        if self._thresholds is None and is_known:
            right = self.label_ids(examples) > 0
            overall = best_threshold(rows.ravel(), right.ravel())
            found = np.full(len(self.labels), overall)
            if self.options.label_thresholds == tables.EACH:
                for number in np.flatnonzero(right.any(0)):
                    found[number] = best_threshold(
                        rows[:, number], right[:, number]
                    )
            return found
        return np.array(list(self.thresholds.values()))

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return F1, accuracy (all labels of a text), AUC, loss, thresholds."""
        logits = np.asarray(outputs["logits"], np.float64)
        if not np.isfinite(logits).all():
            raise ValueError("Predictions are NaN or infinite.")
        rows, right = probabilities.sigmoid(logits), self.label_ids(examples)
        thresholds = self._thresholds_for(rows, examples)
        is_given = rows > thresholds
        found = confusion.Confusion.of_several(is_given, right, self.labels)
        names, values = [_THRESHOLD], thresholds[:1]
        if self.options.label_thresholds == tables.EACH:
            names = [f"{_OF_LABEL}{name}" for name in self.labels]
            values = thresholds
        losses = np.logaddexp(0, logits) - logits * right
        return {
            **found.micro,
            "macro_f1": found.macro_f1,
            "accuracy": float((is_given == right).all(-1).mean()),
            "auc": probabilities.mean_area(rows, right > 0),
            "loss": float(losses.mean()),
            **dict(zip(names, values.tolist(), strict=True)),
        }

    def confusion(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> confusion.Confusion:
        rows = probabilities.sigmoid(outputs["logits"])
        is_given = rows > self._thresholds_for(rows, examples)
        right = self.label_ids(examples)
        return confusion.Confusion.of_several(is_given, right, self.labels)

    def answers(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> Iterator[dict[str, Any]]:
        shares = probabilities.sigmoid(outputs["logits"])
        is_given = shares > self._thresholds_for(shares, examples)
        for example, row, given in zip(examples, shares, is_given, strict=True):
            yield {
                **rows.key_of(example.guid),
                "prediction": [self.labels[n] for n in np.flatnonzero(given)],
                "probabilities": dict(
                    zip(self.labels, row.tolist(), strict=True)
                ),
            }

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        rows = [probabilities.sigmoid(outputs["logits"]) for outputs in runs]
        return {"logits": probabilities.logit(np.mean(rows, 0))}


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
        return EVEN
    order = np.argsort(-chances, kind="stable")
    ordered, hits = chances[order], right[order].cumsum()
    counts = np.arange(1, len(order) + 1)
    f1 = 2 * hits / (counts + hits[-1])
    below = np.append(ordered[1:], 0.0)
    f1[ordered == below] = -1  # No threshold lies between them.
    best = int(f1.argmax())
    middle = (ordered[best] + below[best]) / 2
    return float(np.clip(middle, *_RANGE))
