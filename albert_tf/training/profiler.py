"""TensorBoard's profiler between two steps of a training."""

import tensorflow as tf


class Profiler:
    """Starts the profiler at one step of `steps`, and stops it at the other."""

    def __init__(self, steps: str | None, output_dir: str):
        self._first, self._last = map(int, (steps or "0,0").split(","))
        self._folder = output_dir
        self._is_running = False

    def next_change(self, step: int, stop: int) -> int:
        """Return the next step at which it starts or stops, at most `stop`."""
        changes = [s for s in (self._first, self._last) if step < s < stop]
        return min([*changes, stop])

    def update(self, step: int) -> None:
        if not self._is_running and self._first <= step < self._last:
            tf.profiler.experimental.start(self._folder)
            self._is_running = True
        elif step >= self._last:
            self.stop()

    def stop(self) -> None:
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False
