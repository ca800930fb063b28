"""Which label is taken for which: on the card of a run, table and picture."""

import dataclasses
import io
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.common import files, imports, strict_json

figures = imports.later("matplotlib.figure")

_NAME = re.compile(r"confusion_(.+)\.(json|png)")
# More labels do not fit into a table.
_MOST_COLUMNS = 12


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
    def of(
        cls, predicted: np.ndarray, expected: np.ndarray, labels: Sequence[str]
    ) -> "Confusion":
        """Count examples by the numbers of their labels, int [examples]."""
        count = len(labels)
        pairs = expected.astype(np.int64) * count + predicted
        counts = np.bincount(pairs, minlength=count**2)
        return cls(tuple(labels), counts.reshape(count, count))

    @classmethod
    def of_several(
        cls, predicted: np.ndarray, expected: np.ndarray, labels: Sequence[str]
    ) -> "Confusion":
        """Count examples with several labels, 0 or 1 [examples, labels]."""
        pairs = expected.astype(np.int64) * 2 + predicted
        counts = [(pairs == number).sum(0) for number in range(4)]
        return cls(tuple(labels), np.stack(counts, -1).reshape(-1, 2, 2))

    @property
    def are_several(self) -> bool:
        return self.counts.ndim > 2

    @property
    def _of_labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Examples with each label, predictions of it, and right ones."""
        counts = self.counts
        if self.are_several:
            return counts[:, 1].sum(1), counts[:, :, 1].sum(1), counts[:, 1, 1]
        return counts.sum(1), counts.sum(0), counts.diagonal()

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Precision, recall and F1 of each label; 0 where there is nothing."""
        return _scores(*self._of_labels)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels, as scikit-learn's.

        Where an example has one label, only of those that are right or
        predicted somewhere; where it may have several, of all.
        """
        of_label, predicted, _ = self._of_labels
        is_there = (of_label + predicted > 0) | self.are_several
        return (
            float(self.scores["F1"][is_there].mean()) if is_there.any() else 0.0
        )

    @property
    def micro(self) -> dict[str, float]:
        """Precision, recall and F1 over all labels together."""
        scores = _scores(*(np.sum(counts) for counts in self._of_labels))
        return {f"micro_{k.lower()}": float(v) for k, v in scores.items()}

    def to_markdown(self) -> str:
        """Return a row for each label; with few labels, all counts too."""
        is_square = not self.are_several
        is_shown = is_square and len(self.labels) <= _MOST_COLUMNS
        shown = self.labels if is_shown else ()
        names = [name.replace("|", "/") for name in self.labels]
        (of_label, *_), scores = self._of_labels, self.scores
        heads = ["label", "examples", *scores]
        heads += [f"as {name}" for name in names[: len(shown)]]
        lines = [
            f"| {' | '.join(heads)} |",
            f"| --- |{' ---: |' * (len(heads) - 1)}",
        ]
        for number, name in enumerate(names):
            cells = [name, f"{of_label[number]:,}"]
            cells += [f"{v[number]:.3f}" for v in scores.values()]
            cells += [f"{n:,}" for n in self.counts[number][: len(shown)]]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

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
        if size <= 2 * _MOST_COLUMNS:
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


def _scores(
    of_label: np.ndarray, predicted: np.ndarray, right: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        "precision": right / np.maximum(predicted, 1),
        "recall": right / np.maximum(of_label, 1),
        "F1": 2 * right / np.maximum(predicted + of_label, 1),
    }


def name_of(split: str, ending: str) -> str:
    """Return the name of the counts of a split, json, or their picture, png."""
    return f"confusion_{split}.{ending}"


def write(folder: str, splits: Mapping[str, Confusion]) -> None:
    """Keep the counts of all splits of an evaluation in a run's folder."""
    for name in files.list_folder(folder):
        match = _NAME.fullmatch(name)
        if match and match[1] not in splits:  # Of an earlier evaluation.
            files.remove(os.path.join(folder, name))
    for split, one in splits.items():
        values = {"labels": list(one.labels), "counts": one.counts.tolist()}
        path = os.path.join(folder, name_of(split, "json"))
        files.write_text(path, strict_json.dumps(values) + "\n")


def read(folder: str) -> dict[str, Confusion]:
    """Return what a run's folder has, by the names of the splits."""
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
