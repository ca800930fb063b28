"""Scores of one or several runs: median, mean and spread, as a file."""

import dataclasses
import math
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.common import errors, files, markdown, strict_json

FILE_NAME = "scores.json"
TABLE_NAME = "scores.md"


@dataclasses.dataclass(frozen=True)
class RunScores:
    """The best checkpoint of one run, and its scores on the development set."""

    folder: str
    seed: int
    step: int
    scores: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Summary:
    """The scores of a task over all runs."""

    task_name: str
    key_metric: str  # By which checkpoints and runs are compared.
    runs: tuple[RunScores, ...]

    @property
    def best(self) -> RunScores:
        """The run with the largest key metric; of equal ones the first."""
        return max(self.runs, key=lambda run: run.scores[self.key_metric])

    def over_runs(
        self, function: Callable[[Sequence[float]], float]
    ) -> dict[str, float]:
        """Apply a function such as `statistics.median` to each score."""
        return {
            name: function([run.scores[name] for run in self.runs])
            for name in self.runs[0].scores
        }

    @property
    def medians(self) -> dict[str, float]:
        """The median of each score, which the paper reports."""
        return self.over_runs(statistics.median)

    def to_markdown(self) -> str:
        """Return a table: a row for each run, then statistics of all runs."""
        names = sorted(self.runs[0].scores)
        names.sort(key=lambda name: name != self.key_metric)
        rows = [
            (f"seed {run.seed}, step {run.step}", run.scores)
            for run in self.runs
        ]
        rows += [
            (title, self.over_runs(function)) for title, function in _STATISTICS
        ]
        return markdown.table(
            [self.task_name, *names],
            ([title, *(f"{x[n]:.4f}" for n in names)] for title, x in rows),
        )


def add_split(
    values: dict[str, float], split: str, eval_splits: Sequence[str]
) -> dict[str, float]:
    """Return scores with the split in their names, except for the first split.

    Example:
        add_split({"accuracy": 0.9}, "dev_mismatched", ("dev_matched",
            "dev_mismatched")) = {"accuracy_mismatched": 0.9}
    """
    if split == eval_splits[0]:
        return values
    ending = split.removeprefix("dev_")
    return {f"{name}_{ending}": value for name, value in values.items()}


def sample_deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


_STATISTICS: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("median", statistics.median),
    ("mean", statistics.fmean),
    ("standard deviation", sample_deviation),
    ("smallest", min),
    ("largest", max),
)


def write(folder: str, summary: Summary) -> None:
    """Write `scores.json` and `scores.md` into a folder.

    The folders of the runs are written relative to it, so that it can be moved.
    """
    content = dataclasses.asdict(summary)
    for run in content["runs"]:
        run["folder"] = os.path.relpath(run["folder"], folder)
    content["statistics"] = {
        title: summary.over_runs(function) for title, function in _STATISTICS
    }
    text = strict_json.dumps(content, indent=2) + "\n"
    files.write_text(os.path.join(folder, FILE_NAME), text)
    files.write_text(os.path.join(folder, TABLE_NAME), summary.to_markdown())


def best_scores(folder: str) -> dict[str, float]:
    """Return the scores of a folder's best run; none if it has no scores."""
    if not files.exists(os.path.join(folder, FILE_NAME)):
        return {}
    return read(folder).best.scores


def best_folder(folder: str) -> str:
    """Return the best of several runs' folders; the folder itself if alone."""
    if not files.exists(os.path.join(folder, FILE_NAME)):
        return folder
    return read(folder).best.folder


def read(folder: str) -> Summary:
    """Read the file of `write`; run folders outside of `folder` are refused."""
    path = files.safe_join(folder, FILE_NAME)
    try:
        content = strict_json.loads(files.read_bytes(path))
        runs = tuple(_parse_run(run, folder) for run in content["runs"])
        if {content["key_metric"] in run.scores for run in runs} != {True}:
            raise ValueError("A run lacks the key metric.")
        return Summary(content["task_name"], content["key_metric"], runs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise errors.UserError(
            f"{path} is missing or damaged. Remove it if it is there, and run "
            "the task again with `do_eval`."
        ) from None


def _parse_run(values: dict[str, Any], folder: str) -> RunScores:
    """Return a run with its folder's full path, and NaN for null scores."""
    run = RunScores(**values)
    scores = {
        name: math.nan if score is None else float(score)
        for name, score in run.scores.items()
    }
    inner = os.path.normpath(run.folder)
    if os.path.isabs(inner) or inner.split(os.sep)[0] == os.pardir:
        raise ValueError(inner)
    run_path = folder if inner == os.curdir else os.path.join(folder, inner)
    return dataclasses.replace(run, folder=run_path, scores=scores)
