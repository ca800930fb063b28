"""End a run in good order when its machine is taken away.

Schedulers and cloud machines announce the end of a process with SIGTERM.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from absl import logging

# Start the same command again. TensorFlow's own handler ends with it, too.
EXIT_CODE = 42
_SAVED = "all that was done is saved"


class Watch:
    """Notes SIGTERM while it is entered, instead of dying of it."""

    def __init__(self) -> None:
        self.is_asked = False
        self._at_once = False
        self._earlier: Any = None

    def __enter__(self) -> "Watch":
        # Signals reach the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGTERM, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._earlier is not None:
            signal.signal(signal.SIGTERM, self._earlier)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = True
        if self._at_once:
            self.leave(_SAVED)

    @contextlib.contextmanager
    def leaving_at_once(self) -> Iterator[None]:
        """While this is entered, nothing is lost by leaving without delay."""
        if self.is_asked:
            self.leave(_SAVED)
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    @staticmethod
    def leave(state: str) -> None:
        """End the process.

        Args:
            state: What the user finds, in words.

        Raises:
            SystemExit: Always, with `EXIT_CODE`.
        """
        logging.warning(
            "Asked to end (SIGTERM): %s. Exit code %d: start the same command "
            "again to go on.",
            state,
            EXIT_CODE,
        )
        raise SystemExit(EXIT_CODE)


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """End the process on SIGTERM, with `EXIT_CODE`, while this is entered.

    For a whole run; where it trains, a `Watch` inside saves first.
    """
    with Watch() as watch, watch.leaving_at_once():
        yield
