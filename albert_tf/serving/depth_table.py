"""Score against milliseconds, of a model at several depths."""

import io
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.common import files
from albert_tf.serving import scoring

TABLE_NAME = "depths.md"
PLOT_NAME = "depths.png"
_ALONE = 200  # Requests that are timed alone, at most.
_REPEATS = 3  # The fastest counts: other programs may disturb the others.


class Point(NamedTuple):
    """One model.

    Attributes:
        kind, value: Its depth, or what its answers are sure by.
        layers: The mean number used.
        alone: Milliseconds for a request of one text.
        together: Milliseconds for each text of requests of 32.
    """

    kind: str
    value: float
    layers: float
    score: float
    alone: float
    together: float


class Watch:
    """Asks a model and takes the time."""

    def __init__(self, ask: scoring.Ask):
        self._ask = ask
        self._together: list[float] = []
        self._alone: list[float] = []
        self._layers: list[int] = []
        self._rows = 0

    def __call__(self, inputs: scoring.Inputs) -> Mapping[str, np.ndarray]:
        """Ask for all rows, and for the first ones alone, too."""
        count = len(next(iter(inputs.values())))
        found = self._timed(inputs, self._together)
        self._rows += count
        self._layers += list(found.get("layers", ()))
        for row in range(min(count, _ALONE - len(self._alone))):
            one = {name: v[row : row + 1] for name, v in inputs.items()}
            self._timed(one, self._alone)
        return found

    def _timed(
        self, inputs: scoring.Inputs, seconds: list[float]
    ) -> Mapping[str, np.ndarray]:
        if not seconds:  # The first call takes longer.
            self._ask(inputs)
        times = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            found = self._ask(inputs)
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
        return found

    def point(self, kind: str, value: float, score: float) -> Point:
        """Return what was measured."""
        return Point(
            kind,
            value,
            float(np.mean(self._layers)) if self._layers else float(value),
            score,
            1000.0 * statistics.mean(self._alone),
            1000.0 * sum(self._together) / self._rows,
        )


def to_markdown(points: Sequence[Point], metric: str) -> str:
    """Return a table."""
    lines = [
        f"| Model | Layers, mean | {metric} | ms, one text | ms a text of 32 |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {p.kind} {p.value:g} | {p.layers:.2f} | {p.score:.4f} | "
        f"{p.alone:.2f} | {p.together:.2f} |"
        for p in points
    ]
    return "\n".join(lines) + "\n"


def write(folder: str, points: Sequence[Point], metric: str) -> None:
    """Write the table and a plot of it into the folder of an export."""
    import matplotlib.figure  # Slow to import, and needed only here.

    table = to_markdown(points, metric)
    figure = matplotlib.figure.Figure(figsize=(6, 4), layout="tight")
    axes = figure.add_subplot(xlabel="ms, one text", ylabel=metric)
    for kind in dict.fromkeys(point.kind for point in points):
        some = [point for point in points if point.kind == kind]
        times, scores = [p.alone for p in some], [p.score for p in some]
        axes.plot(times, scores, marker="o", label=kind)
        for point in some:
            axes.annotate(f"{point.value:g}", (point.alone, point.score))
    axes.grid(alpha=0.3)
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=80)
    files.write_together(
        {
            os.path.join(folder, TABLE_NAME): table.encode(),
            os.path.join(folder, PLOT_NAME): picture.getvalue(),
        }
    )
    print(table, flush=True)
