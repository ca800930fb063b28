"""Which label is taken for which: on the card of a run, table and picture."""

import dataclasses
import io
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.common import files, imports, markdown, strict_json

figures = imports.later("matplotlib.figure")

_NAME = re.compile(r"confusion_(.+)\.(json|png)")
# More labels do not fit into a table.
_MAX_SHOWN_LABELS = 12


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Counts of examples.

    Attributes:
        counts: int64 [right label, predicted label]; where examples have
            several labels [label, is right, is predicted].
    """

    labels: tuple[str, ...]
    counts: np.ndarray

    @classmethod
    def count(
        cls, predicted: np.ndarray, expected: np.ndarray, labels: Sequence[str]
    ) -> "Confusion":
        """Count examples by the indices of their labels, int [examples]."""
        count = len(labels)
        pairs = expected.astype(np.int64) * count + predicted
        counts = np.bincount(pairs, minlength=count**2)
        return cls(tuple(labels), counts.reshape(count, count))

    @classmethod
    def count_several(
        cls, predicted: np.ndarray, expected: np.ndarray, labels: Sequence[str]
    ) -> "Confusion":
        """Count examples with any number of labels, 0/1 [examples, labels]."""
        pairs = expected.astype(np.int64) * 2 + predicted
        counts = [(pairs == cell).sum(0) for cell in range(4)]
        return cls(tuple(labels), np.stack(counts, -1).reshape(-1, 2, 2))

    @property
    def is_multi_label(self) -> bool:
        return self.counts.ndim > 2

    @property
    def _label_counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By label: how many examples have it, are predicted to, and both."""
        counts = self.counts
        if self.is_multi_label:
            return counts[:, 1].sum(1), counts[:, :, 1].sum(1), counts[:, 1, 1]
        return counts.sum(1), counts.sum(0), counts.diagonal()

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Precision, recall and F1 of each label; 0 where there is nothing."""
        return _f1_scores(*self._label_counts)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels, as scikit-learn's.

        Where an example has one label, only of those that are right or
        predicted somewhere; where it may have several, of all.
        """
        num_examples, predicted, _ = self._label_counts
        counted = (num_examples + predicted > 0) | self.is_multi_label
        f1 = self.scores["F1"][counted]
        return float(f1.mean()) if counted.any() else 0.0

    @property
    def micro(self) -> dict[str, float]:
        """Precision, recall and F1 over all labels together."""
        scores = _f1_scores(*(np.sum(counts) for counts in self._label_counts))
        return {f"micro_{k.lower()}": float(v) for k, v in scores.items()}

    def to_markdown(self) -> str:
        """Return a row for each label; with few labels, all counts too."""
        is_square = not self.is_multi_label
        is_shown = is_square and len(self.labels) <= _MAX_SHOWN_LABELS
        shown = self.labels if is_shown else ()
        (num_examples, *_), scores = self._label_counts, self.scores
        rows = []
        for index, name in enumerate(self.labels):
            cells = [name, f"{num_examples[index]:,}"]
            cells += [f"{v[index]:.3f}" for v in scores.values()]
            cells += [f"{n:,}" for n in self.counts[index][: len(shown)]]
            rows.append(cells)
        predicted = (f"as {name}" for name in shown)
        heads = ["label", "examples", *scores, *predicted]
        return markdown.table(heads, rows)

    def draw(self) -> bytes:
        """Return a picture, PNG: dark is a large share of the right label."""
        size = len(self.labels)
        side = min(20.0, 2.5 + 0.45 * size)
        figure = figures.Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot(xlabel="predicted", ylabel="right")
        totals = np.maximum(self.counts.sum(1, keepdims=True), 1)
        shares = self.counts / totals
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        names = [name[:20] for name in self.labels]
        axes.set_xticks(range(size), names, rotation=90)
        axes.set_yticks(range(size), names)
        if size <= 2 * _MAX_SHOWN_LABELS:
            for (row, column), share in np.ndenumerate(shares):
                axes.text(
                    column,
                    row,
                    f"{self.counts[row, column]:,}",
                    ha="center",
                    va="center",
                    color="white" if share > 0.5 else "black",
                )
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=80)
        return picture.getvalue()


def _f1_scores(
    num_examples: np.ndarray, predicted: np.ndarray, right: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        "precision": right / np.maximum(predicted, 1),
        "recall": right / np.maximum(num_examples, 1),
        "F1": 2 * right / np.maximum(predicted + num_examples, 1),
    }


def file_name(split: str, ending: str) -> str:
    """Return the name of a split's file: counts (json) or picture (png)."""
    return f"confusion_{split}.{ending}"


def write(folder: str, splits: Mapping[str, Confusion]) -> None:
    """Write the counts of each split; remove those of other splits."""
    for name in files.list_folder(folder):
        match = _NAME.fullmatch(name)
        if match and match[1] not in splits:  # Of an earlier evaluation.
            files.remove(os.path.join(folder, name))
    for split, table in splits.items():
        values = {"labels": list(table.labels), "counts": table.counts.tolist()}
        path = os.path.join(folder, file_name(split, "json"))
        files.write_text(path, strict_json.dumps(values) + "\n")


def read(folder: str) -> dict[str, Confusion]:
    """Return the counts in a run's folder, by the names of the splits."""
    splits = {}
    for name in files.list_folder(folder):
        match = _NAME.fullmatch(name)
        if match and match[2] == "json":
            values = strict_json.read_object(
                os.path.join(folder, name), "Remove it."
            )
            splits[match[1]] = Confusion(
                tuple(values["labels"]), np.array(values["counts"], np.int64)
            )
    return splits
