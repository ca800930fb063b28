"""End a run cleanly on SIGTERM.

Schedulers and cloud machines send this signal before they stop a process.
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
_SAVED = "all finished work is saved"


class PreemptionHandler:
    """Records SIGTERM in `is_requested`, instead of ending the process."""

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
        """End the process on SIGTERM, at once if it was received before.

        For work that has nothing to save.
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
        """End the process with `EXIT_CODE`; `state` says what is saved."""
        logging.warning(
            "Received SIGTERM: %s. Exit status %d. Run the same command again "
            "to continue.",
            state,
            EXIT_CODE,
        )
        raise SystemExit(EXIT_CODE)


@contextlib.contextmanager
def exiting_at_once() -> Iterator[None]:
    """End the process with `EXIT_CODE` on SIGTERM inside the `with` block.

    For a whole run. Training inside it uses a `PreemptionHandler` of its own,
    which saves first.
    """
    with PreemptionHandler() as handler, handler.exiting_at_once():
        yield
