"""What a pretraining run has cost, from its log."""

import os
from collections.abc import Sequence
from typing import Any

from albert_tf.training import run_folder, run_log


def of_lines(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Add up the training lines of a log.

    Only training is counted, no evaluation and no start: the steps since the
    line before, at the speed that the line states.

    Returns:
        `steps`, `tokens` with padding, `flops` of matrix products, forward and
        backward, and `minutes`.
    """
    total = dict.fromkeys(("steps", "tokens", "flops", "minutes"), 0.0)
    facts: dict[str, Any] = {}
    step = 0
    for line in lines:
        if line["split"] == "facts":
            # A run may go on at the step of the run that it starts from.
            if not facts:
                step = line["step"]
            facts = line
        if line["split"] != "train" or "examples_per_second" not in line:
            continue
        steps = line["step"] - step
        examples = steps * facts.get("examples_per_step", 0)
        seconds = examples / line["examples_per_second"]
        step = line["step"]
        total["steps"] += steps
        total["tokens"] += steps * facts.get("tokens_per_step", 0)
        total["flops"] += seconds * line.get("gigaflops", 0.0) * 1e9
        total["minutes"] += seconds / 60
    return total


def of_run(checkpoint: str) -> dict[str, Any]:
    """Return the cost of a run and of those that its weights come from.

    Returns:
        See `of_lines`; `runs`, the folders that were counted, the last one
        first; and `not_counted`, a checkpoint without a log that it started
        from, or None. Without any log, only `runs` and `not_counted`.
    """
    folder: str | None = run_folder.folder_of(checkpoint)
    total = dict.fromkeys(("steps", "tokens", "flops", "minutes"), 0.0)
    runs: list[str] = []
    while folder and folder not in runs:
        lines = run_log.read(folder)
        if not run_folder.is_run(folder) or not lines:
            break
        runs.append(folder)
        for name, value in of_lines(lines).items():
            total[name] += value
        start = run_folder.read(folder).options.get("init_checkpoint")
        folder = os.path.normpath(run_folder.folder_of(start)) if start else ""
    numbers = total if runs else {}
    return {**numbers, "runs": runs, "not_counted": folder or None}
