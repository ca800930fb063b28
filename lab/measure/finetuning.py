"""Finetuning scores from pretrained and from random weights.

The runs are those of lab/trials/real_tasks.py, which says what they are.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lab.measure import paired
from lab.trials import real_tasks as tool


def measure(settings: tool.ToolOptions) -> dict[str, Any]:
    """Do the runs that are not done yet; see `summarize`."""
    return summarize(tool.finish(settings))


def summarize(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare pretrained with random weights, seed by seed.

    Args:
        results: See `real_tasks.finish`; of each task as many seeds
            from random as from pretrained weights.

    Returns:
        By task: metric, score of the `majority` answer, `random` and
        `pretrained` scores by seed, all in percent, and their `difference`;
        and `mean_difference`, over all tasks.
    """
    tasks: dict[str, dict[str, Any]] = {}
    for result in results:
        # SQuAD's scores are percent already.
        scale = 1 if result["task"] == "squad" else 100
        task = tasks.setdefault(
            result["task"],
            {
                "metric": result["metric"],
                "majority": scale * result["baseline"],
                "steps": result["steps"],
                "random": {},
                "pretrained": {},
            },
        )
        seeds = task[result["start"]]
        seeds[str(result["seed"])] = scale * result["value"]
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
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.median(values):.1f} ± {spread:.1f}"
