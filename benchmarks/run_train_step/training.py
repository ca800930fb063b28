"""The loop over updates: log, evaluation, saved variables, SIGTERM."""

import dataclasses
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import program
from run_folder import RunFolder

# They are not timed.
WARM_UP_STEPS = 2
# Exit status after SIGTERM, as that of run_pretraining.
PREEMPTED = 42

Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which updates to do; numbers are those of updates, from 1.

    Attributes:
        first: Updates that were done before.
        last: Number of the last update.
        log_steps: Updates of one line of the log.
        save_steps: Variables are written after each so many updates. None:
            after the last one.
        eval_steps: Updates between two evaluations. None: after the last one.
    """

    first: int
    last: int
    log_steps: int
    save_steps: int | None = None
    eval_steps: int | None = None

    def logs(self, number: int) -> bool:
        """Tell whether there is a line of the log after an update."""
        return number == self.last or number % self.log_steps == 0

    def saves(self, number: int) -> bool:
        """Tell whether variables are written after an update."""
        return is_due(number, self.last, self.save_steps)

    def evaluates(self, number: int) -> bool:
        """Tell whether there is an evaluation after an update."""
        return is_due(number, self.last, self.eval_steps)


def is_due(number: int, last: int, every: int | None) -> bool:
    """Tell whether an update is the last, or a multiple of `every`."""
    return number == last or bool(every and number % every == 0)


class Stopwatch:
    """Times updates, without what is done between them.

    Attributes:
        seconds: Of all updates since the warm-up.
        updates: How many these were.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.forget()

    def forget(self) -> None:
        """Start again from zero."""
        self.seconds, self.updates = 0.0, 0
        self.resume()

    def resume(self) -> None:
        """Go on; the time since the last lap does not count."""
        self._begun, self._pending = time.perf_counter(), 0

    def count(self) -> None:
        """Count an update."""
        self._pending += 1

    def lap(self) -> float:
        """Return updates per second since the last lap, and go on.

        It is 0 if something else was done since the last update.
        """
        seconds, updates = time.perf_counter() - self._begun, self._pending
        self.seconds += seconds
        self.updates += updates
        self.resume()
        return updates / seconds


class Trainer:
    """Makes updates and logs them.

    Attributes:
        watch: The time of updates.
    """

    def __init__(
        self,
        step: program.Step,
        description: Mapping[str, Any],
        output: RunFolder,
        evaluate: Callable[[], dict[str, float]] | None,
    ):
        """Keep what training needs.

        Args:
            step: The update.
            description: What the JSON file says about it.
            output: Where numbers and variables go.
            evaluate: Returns the numbers of an evaluation, if there is one.
        """
        self.watch = Stopwatch()
        self._number = self._saved = 0
        self._step = step
        self._description = description
        self._output = output
        self._evaluate = evaluate

    def train(
        self, batches: Iterator[Batch], plan: Plan, stopping: threading.Event
    ) -> None:
        """Run updates.

        Args:
            batches: Those of the updates; they may end if `stopping` is set.
            plan: Which updates to do.
            stopping: It is set when SIGTERM comes.

        Raises:
            SystemExit: It was set before the last update; variables are
                written after the current one, and the code is 42.
        """
        self._number = self._saved = plan.first
        try:
            self._train(batches, plan, stopping)
        finally:  # Also if a batch is damaged.
            if self._saved < self._number:
                self._save()
        if self._number < plan.last or not self._is_evaluated(self._number):
            raise SystemExit(PREEMPTED)
        self._output.end(self._number)

    def _train(
        self, batches: Iterator[Batch], plan: Plan, stopping: threading.Event
    ) -> None:
        """Run updates until the last one, or until `stopping` is set."""
        rows: list[jax.Array] = []
        number = plan.first
        if number and plan.evaluates(number):
            self._validate(number)  # An earlier start has ended before.
        self.watch.forget()
        while number < plan.last and not stopping.is_set():
            batch = next(batches, None)
            if batch is not None:
                rows.append(self._step(batch))
                self._number = number = number + 1
                self.watch.count()
            if rows and (plan.logs(number) or stopping.is_set()):
                self._log(number, rows)
                rows = []
            if number == plan.first + WARM_UP_STEPS < plan.last:
                jax.block_until_ready(rows)
                self.watch.forget()
            if plan.saves(number) or stopping.is_set():
                self._save()
                self.watch.resume()
            if plan.evaluates(number) and not stopping.is_set():
                self._validate(number)
                self.watch.resume()

    def _save(self) -> None:
        """Write the variables."""
        self._output.save(self._step.read())
        self._saved = self._number

    def _log(self, number: int, rows: Sequence[jax.Array]) -> None:
        """Write a line on the last updates."""
        numbers = [np.asarray(row) for row in rows]
        found = summarize(self._description, self._step.program.rows, numbers)
        speed = self.watch.lap()
        if speed:
            flops = self._description["model_flops"]
            found["examples_per_second"] = (
                speed * self._description["sequences"]
            )
            found["tokens_per_second"] = speed * self._description["tokens"]
            found["gigaflops"] = speed * flops / 1e9
        found["peak_memory_mb"] = peak_memory_mb()
        self._output.write("train", number, found)

    def _validate(self, number: int) -> None:
        """Evaluate after an update, if that is wanted and was not done."""
        if self._evaluate and not self._is_evaluated(number):
            self._output.write("eval", number, self._evaluate())

    def _is_evaluated(self, number: int) -> bool:
        """Tell whether no evaluation after an update is missing."""
        return not self._evaluate or self._output.has_evaluated(number)


def evaluate(
    description: Mapping[str, Any],
    evaluation: program.Program,
    variables: Mapping[str, jax.Array],
    batches: Iterator[Batch],
) -> dict[str, float]:
    """Return losses and accuracies of variables over batches."""
    rows = [
        np.asarray(evaluation({**variables, **batch})["numbers"])
        for batch in batches
    ]
    return summarize(description, evaluation.rows, rows)


def summarize(
    description: Mapping[str, Any],
    names: Sequence[str],
    rows: Sequence[np.ndarray],
) -> dict[str, float]:
    """Return the numbers of a line of the log, as those of run_pretraining.

    Args:
        description: What the JSON file says about the program.
        names: Of the rows of an array.
        rows: What updates or evaluations returned, float32 [names, 2]:
            numerators and denominators.

    Returns:
        The quotients of their sums. `loss` is the sum that is minimized;
        `skipped_updates` counts those that made no change.
    """
    sums = np.sum(rows, 0, np.float64)
    numbers = {
        name: float(numerator / denominator)
        for name, (numerator, denominator) in zip(names, sums, strict=True)
        if denominator and name != "skipped"
    }
    losses = description["losses"]
    if losses.keys() & numbers.keys():
        total = sum(f * numbers.get(name, 0.0) for name, f in losses.items())
        numbers = {"loss": total, **numbers}
    skipped = (
        float(sums[names.index("skipped"), 0]) if "skipped" in names else 0
    )
    return {**numbers, **({"skipped_updates": skipped} if skipped else {})}


def peak_memory_mb() -> float:
    """Return the most memory so far, in MiB: of a device, or this process."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "peak_bytes_in_use" in statistics:
        return statistics["peak_bytes_in_use"] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
