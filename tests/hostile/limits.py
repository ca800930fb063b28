"""Time limits for tests that might hang."""

import contextlib
import signal

SECONDS = 60


class HangError(BaseException):
    """Something took longer than it may; no program catches this."""


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS):
    """Break off what hangs; nothing here needs a tenth of the time."""

    def stop(*_):
        raise HangError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
