"""Score against milliseconds, of a model at several depths."""

import io
import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.common import files, imports
from albert_tf.serving import scoring

figures = imports.later("matplotlib.figure")

TABLE_NAME = "depths.md"
PLOT_NAME = "depths.png"
_ALONE = 200  # Requests that are timed alone, at most.
_REPEATS = 3


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


class RecordedModel:
    """A model that is asked, with its requests and the layers it used."""

    def __init__(self, ask: scoring.Ask):
        self.ask = ask
        self.requests: list[scoring.Inputs] = []
        self.layers: list[int] = []  # Used for each text, if it says so.

    def __call__(self, inputs: scoring.Inputs) -> Mapping[str, np.ndarray]:
        outputs = self.ask(inputs)
        self.requests.append(inputs)
        self.layers += list(outputs.get("layers", ()))
        return outputs


def measure(
    models: Sequence[RecordedModel], named: Sequence[tuple[str, float, float]]
) -> list[Point]:
    """Return a point for each model; all have been asked the same."""
    together = models[0].requests
    alone = [
        {name: values[row : row + 1] for name, values in request.items()}
        for request in together
        for row in range(len(next(iter(request.values()))))
    ]
    times = _milliseconds(models, alone[:_ALONE]).mean(1)
    of_all = _milliseconds(models, together).sum(1) / len(alone)
    return [
        Point(
            kind,
            value,
            float(np.mean(model.layers or value)),
            score,
            *map(float, measured),
        )
        for model, (kind, value, score), measured in zip(
            models, named, zip(times, of_all, strict=True), strict=True
        )
    ]


def _milliseconds(
    models: Sequence[RecordedModel], requests: Sequence[scoring.Inputs]
) -> np.ndarray:
    """Return the fastest of some answers, float [models, requests].

    Models take turns, so other programs disturb all alike.
    """
    best = np.full([len(models), len(requests)], np.inf)
    for column, request in enumerate(requests):
        for _ in range(_REPEATS):
            for row, model in enumerate(models):
                start = time.perf_counter()
                model.ask(request)
                taken = 1000.0 * (time.perf_counter() - start)
                best[row, column] = min(best[row, column], taken)
    return best


def to_markdown(points: Sequence[Point], metric: str) -> str:
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
    table = to_markdown(points, metric)
    figure = figures.Figure(figsize=(6, 4), layout="tight")
    axes = figure.add_subplot(xlabel="ms, one text", ylabel=metric)
    for kind in dict.fromkeys(point.kind for point in points):
        points_of_kind = [point for point in points if point.kind == kind]
        times, scores = (
            [p.alone for p in points_of_kind],
            [p.score for p in points_of_kind],
        )
        axes.plot(times, scores, marker="o", label=kind)
        for point in points_of_kind:
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
