"""Evaluate the checkpoints of a run, and keep the best one."""

import dataclasses
import math
import os
import time
from collections.abc import Callable

from absl import logging

from albert_tf.common import errors
from albert_tf.model.checkpoints import checkpoint_files
from albert_tf.training import distribution, run_checkpoints, run_log

# Between two looks for new checkpoints of another process.
FOLLOW_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Validation:
    """Evaluates each checkpoint once, and copies the best one.

    The best has the largest number of `key_metric`, or the smallest if that
    name ends in `loss`. Earlier evaluations by another metric or on other data
    do not count.

    Attributes:
        data: Identifies the data that `evaluate` reads, in the log.
    """

    evaluate: Callable[[], dict[str, float]]
    key_metric: str
    log: run_log.RunLog
    saved: run_checkpoints.RunCheckpoints
    workers: distribution.Workers
    data: str = ""

    def validate(self) -> None:
        """Evaluate this step, unless the log has it; copy it if it is best.

        All workers evaluate, with those that have it, if one was killed before
        it had written its line.
        """
        step = self.saved.step
        is_logged = step in dict(self._logged_scores())
        if not self.workers.all_agree(is_logged):
            numbers = self.evaluate()
            if self.key_metric not in numbers:
                logging.warning(
                    "Nothing counts for %s at step %d, so this is not the best "
                    "checkpoint.",
                    self.key_metric,
                    step,
                )
                numbers[self.key_metric] = math.nan
            if not is_logged:
                self.log.write("eval", step, numbers, measured=self.measured)
        if self.workers.chief_value(step == self._best_step()):
            self.saved.save_best()

    @property
    def measured(self) -> str:
        """Metric and data: evaluations with others are not compared."""
        return f"{self.key_metric} {self.data}".rstrip()

    def _logged_scores(self) -> list[tuple[int, float]]:
        return self.log.column("eval", self.key_metric, self.measured)

    def _best_step(self) -> int | None:
        """Return the step with the best number; of equal ones the first.

        Training and a process that followed it before have logs of their own.
        """
        sign = -1 if self.key_metric.endswith("loss") else 1
        evaluations, folder = self._logged_scores(), self.saved.output_dir
        for path in (folder, os.path.join(folder, run_log.EVALUATION_FOLDER)):
            lines = run_log.read(path)
            evaluations += run_log.column(
                lines, "eval", self.key_metric, self.measured
            )
        scores = [
            (sign * x, -step) for step, x in evaluations if math.isfinite(x)
        ]
        return -max(scores)[1] if scores else None

    def follow(self, num_train_steps: int, check: Callable[[], object]) -> None:
        """Evaluate the checkpoints that another process writes.

        Begins with those that are there, and ends after the one of
        `num_train_steps`, or the one that the other process ended with.

        Args:
            check: Called before a checkpoint is read; it refuses the folder of
                another run.
        """
        self.saved.remove_unfinished(numbered=False)
        folder = self.saved.output_dir
        done = {step for step, _ in self._logged_scores()}
        # Validated again: an earlier start may have ended before it was copied.
        best_step = self._best_step()
        while True:
            for path in reversed(checkpoint_files.numbered(folder)):
                step = int(path.rsplit("-", 1)[1])
                if step in done and step != best_step:
                    continue
                check()
                done.add(step)
                try:
                    self.saved.restore(path)
                except errors.UserError as error:
                    # Deleted meanwhile, as the oldest of many are.
                    logging.warning("%s It is left out.", error)
                else:
                    self.validate()
            best_step = None
            if num_train_steps in done or run_log.final_step(folder) in done:
                return
            time.sleep(FOLLOW_SECONDS)
