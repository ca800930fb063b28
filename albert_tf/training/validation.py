"""Evaluate the checkpoints of a run, and keep the best one."""

import dataclasses
import math
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
    name ends in `loss`.
    """

    evaluate: Callable[[], dict[str, float]]
    key_metric: str
    log: run_log.RunLog
    saved: run_checkpoints.RunCheckpoints
    workers: distribution.Workers

    def validate(self) -> None:
        """Evaluate this step, unless the log has it; copy it if it is best.

        All workers evaluate together if one of them was killed before it had
        written its line.
        """
        step = self.saved.step
        is_known = step in dict(self.log.column("eval", self.key_metric))
        if not self.workers.of_all(is_known):
            numbers = self.evaluate()
            if self.key_metric not in numbers:
                logging.warning(
                    "Nothing counts for %s at step %d, so this is not the best "
                    "checkpoint.",
                    self.key_metric,
                    step,
                )
                numbers[self.key_metric] = math.nan
            if not is_known:
                self.log.write("eval", step, numbers)
        if self.workers.of_chief(self._is_best(step)):
            self.saved.save_best()

    def _is_best(self, step: int) -> bool:
        """Tell whether a step has the best number; of equal ones the first."""
        sign = -1 if self.key_metric.endswith("loss") else 1
        scores = [
            (sign * score, -other)
            for other, score in self.log.column("eval", self.key_metric)
            if math.isfinite(score)
        ]
        return bool(scores) and max(scores)[1] == -step

    def follow(self, num_train_steps: int) -> None:
        """Evaluate the checkpoints that another process writes.

        Begins with those that are there, and ends after the one of
        `num_train_steps`, or the one that the other process ended with.
        """
        self.saved.remove_unfinished(numbered=False)
        folder = self.saved.output_dir
        done = {step for step, _ in self.log.column("eval", self.key_metric)}
        while True:
            for path in reversed(checkpoint_files.numbered(folder)):
                step = int(path.rsplit("-", 1)[1])
                if step in done:
                    continue
                done.add(step)
                self._validate_checkpoint(path)
            if num_train_steps in done or run_log.end_of(folder) in done:
                return
            time.sleep(FOLLOW_SECONDS)

    def _validate_checkpoint(self, path: str) -> None:
        try:
            self.saved.restore(path)
        except errors.UserError as error:
            # Deleted meanwhile, as the oldest of many are.
            logging.warning("%s It is left out.", error)
            return
        self.validate()
