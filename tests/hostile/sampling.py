"""How many random inputs are tried, and their seed: few and 0 by default.

CI draws another seed and prints it; `FUZZ_SEED=N` repeats a run. `make fuzz`
tries more.
"""

import contextlib
import os
import random
import signal
from collections.abc import Sequence
from typing import TypeVar

import hypothesis

Thing = TypeVar("Thing")
ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
SECONDS = 60


def some(things: Sequence[Thing], count: int, name: str = "") -> list[Thing]:
    """Draw things, so many for each round, for each name others."""
    count = min(count * ROUNDS, len(things))
    return random.Random(f"{SEED} {name}").sample(list(things), count)


def fuzz(examples: int):
    def decorate(test):
        settings = hypothesis.settings(
            max_examples=examples * ROUNDS,
            derandomize=SEED == 0,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.generate,),  # Shrinking takes minutes.
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        return settings(hypothesis.seed(SEED)(test))

    return decorate


class HangError(BaseException):
    """Something took longer than it may; no program catches this."""


@contextlib.contextmanager
def time_limit():
    """Break off what hangs; nothing here needs a tenth of the time."""

    def stop(*_):
        raise HangError(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
