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

# The status of a preempted process; TensorFlow's own handler has the same one.
EXIT_CODE = 42
_SAVED = "all that was done is saved"


class PreemptionHandler:
    """Records SIGTERM while it is entered, instead of ending the process.

    Attributes:
        is_requested: Whether SIGTERM has come.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._exits_at_once = False
        self._earlier: Any = None

    def __enter__(self) -> "PreemptionHandler":
        # Signals reach the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGTERM, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._earlier is not None:
            signal.signal(signal.SIGTERM, self._earlier)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
        if self._exits_at_once:
            self.exit(_SAVED)

    @contextlib.contextmanager
    def exiting_at_once(self) -> Iterator[None]:
        """End the process as soon as SIGTERM comes, or if it has come.

        For work during which nothing can be lost.
        """
        if self.is_requested:
            self.exit(_SAVED)
        self._exits_at_once = True
        try:
            yield
        finally:
            self._exits_at_once = False

    @staticmethod
    def exit(state: str) -> None:
        """End the process with `EXIT_CODE`.

        Args:
            state: What is saved, for the message.

        Raises:
            SystemExit: Always.
        """
        logging.warning(
            "Asked to end (SIGTERM): %s. Exit code %d: start the same command "
            "again to go on.",
            state,
            EXIT_CODE,
        )
        raise SystemExit(EXIT_CODE)


@contextlib.contextmanager
def exiting_at_once() -> Iterator[None]:
    """End the process with `EXIT_CODE` on SIGTERM, while this is entered.

    For a whole run; where it trains, a `PreemptionHandler` inside saves first.
    """
    with PreemptionHandler() as handler, handler.exiting_at_once():
        yield
