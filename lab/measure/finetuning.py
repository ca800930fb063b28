"""Finetuning scores of the runs of real_tasks.py."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lab.measure import paired


def scale(task: str) -> int:
    """Return what makes a score percent: SQuAD's are already."""
    return 1 if task == "squad" else 100


def summarize(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare pretrained with random weights, seed by seed.

    Args:
        results: See `real_tasks.finish`; of each task as many seeds
            from random as from pretrained weights.

    Returns:
        By task: metric, score of the `majority` answer, `random` and
        `pretrained` scores by seed, all in percent, and their `difference`;
        and `mean_difference`, over all tasks. Where nothing started from random
        weights, there are no differences.
    """
    tasks: dict[str, dict[str, Any]] = {}
    for result in results:
        percent = scale(result["task"])
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
    if not any(task["random"] for task in tasks.values()):
        return {"tasks": tasks}
    groups = []
    for task in tasks.values():
        groups.append(differences(task["random"], task["pretrained"]))
        task["difference"] = vars(paired.interval(groups[-1:]))
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
