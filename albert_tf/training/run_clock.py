"""The time limit of a run; the learning rate is 0 when it is reached."""

import math
from collections.abc import Callable

from albert_tf.model.optimizers import optimization


class RunClock:
    """Counts the time of a run over its restarts, up to `max_minutes`."""

    def __init__(
        self, max_minutes: float, earlier: float, now: Callable[[], float]
    ):
        self._now = now
        self._limit = max_minutes * 60  # 0: none.
        self._earlier = earlier  # Seconds of earlier starts.
        self._begun = self._now()
        # Elapsed seconds that all workers agree on: the largest.
        self.agreed_seconds = self._earlier
        # Step and seconds after the first updates, which compile.
        self._compiled: tuple[int, float] | None = None

    @property
    def elapsed(self) -> float:
        """Seconds of the run so far, its restarts included."""
        return self._earlier + self._now() - self._begun

    @property
    def seconds_left(self) -> float:
        """Seconds to the limit; infinite without one."""
        if not self._limit:
            return math.inf
        return max(0.0, self._limit - self.agreed_seconds)

    @property
    def is_up(self) -> bool:
        return not self.seconds_left

    def adapt_schedule(
        self, step: int, num_train_steps: int, optimizer: optimization.AdamW
    ) -> None:
        """Scale the optimizer's steps so that the schedule ends at the limit.

        The last step follows from the speed since the first updates, which
        were slow because they were compiled. Without a limit nothing is done.
        """
        if not self._limit:
            return
        if self._compiled is None:
            self._compiled = step, self.agreed_seconds
            return
        steps = step - self._compiled[0]
        seconds = self.agreed_seconds - self._compiled[1]
        last = step + steps / seconds * self.seconds_left
        assert optimizer.step_scale is not None
        optimizer.step_scale.assign(
            max(1.0, num_train_steps / max(last, step + 1))
        )
