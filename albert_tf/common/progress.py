"""Progress of long work: amount done, rate, and time left."""

import sys
import time
from typing import Any, Self

from absl import logging

from albert_tf.common import imports

tqdm = imports.later("tqdm")

# Seconds between two lines in a log.
_INTERVAL = 30.0


class Progress:
    """A bar on a terminal; otherwise a line in the log every 30 seconds."""

    def __init__(self, work: str, total: int | None, unit: str) -> None:
        """Describe the work, such as "tokenizing".

        Args:
            total: Its amount, in units; None if it is not known.
            unit: "B" for bytes; otherwise a word such as "examples".
        """
        self._work, self._total, self._unit = work, total, unit
        self._bar: Any = None
        if sys.stderr.isatty():
            self._bar = tqdm.tqdm(
                desc=work,
                total=total,
                unit=unit if unit == "B" else f" {unit}",
                unit_scale=True,
            )
        self._start_time = self._last_log_time = time.monotonic()
        self._at_start: int | None = None

    def __enter__(self) -> Self:
        return self

    def update(self, done: int) -> None:
        """Report the total amount done so far."""
        if self._at_start is None:
            self._at_start = done if done != self._total else 0
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last_log_time >= _INTERVAL:
            self._last_log_time = now
            logging.info("%s", self._describe(done, now - self._start_time))

    def _describe(self, done: int, seconds: float) -> str:
        rate = (done - (self._at_start or 0)) / max(seconds, 1e-9)
        scale, unit = (1e6, "MB") if self._unit == "B" else (1, self._unit)
        line = f"{self._work}: {done / scale:,.0f} {unit}"
        if self._total:
            line += f" of {self._total / scale:,.0f}"
        line += f", {rate / scale:,.1f} {unit}/s"
        if self._total and rate > 0:
            left = (self._total - done) / rate
            line += f", about {left:,.0f} s left"
        return line

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
