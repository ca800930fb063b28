"""Finetuning scores of the runs of real_tasks.py."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lab.measure import paired


def summarize(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare pretrained with random weights, seed by seed.

    Args:
        results: See `real_tasks.finish`.

    Returns:
        By task: metric, score of the `majority` answer, `random` and
        `pretrained` scores by seed, all in percent, and their `difference`;
        and `mean_difference`, over all tasks. Where all started from the same
        kind of weights, there are no differences.
    """
    tasks: dict[str, dict[str, Any]] = {}
    for result in results:
        percent = 1 if result["task"] == "squad" else 100  # It is already.
        task = tasks.setdefault(
            result["task"],
            {
                "metric": result["metric"],
                "majority": percent * result["baseline"],
                "steps": result["steps"],
                "random": {},
                "pretrained": {},
            },
        )
        seeds = task[result["start"]]
        seeds[str(result["seed"])] = percent * result["value"]
    groups = [
        differences(task["random"], task["pretrained"])
        for task in tasks.values()
    ]
    if not any(groups):
        return {"tasks": tasks}
    for task, group in zip(tasks.values(), groups, strict=True):
        task["difference"] = vars(paired.interval([group]))
    return {"tasks": tasks, "mean_difference": vars(paired.interval(groups))}


def differences(
    first: Mapping[str, float], second: Mapping[str, float]
) -> list[float]:
    """Return second minus first for the seeds that both have."""
    return [second[seed] - first[seed] for seed in first if seed in second]


def describe(scores: Mapping[str, float]) -> str:
    """Return median and standard deviation over seeds."""
    values = list(scores.values())
    if not values:
        return "–"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.median(values):.1f} ± {spread:.1f}"
