"""How much is tried, and with which seed: little and 0, unless asked.

`make fuzz` asks for more rounds, with a seed of its own.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Thing = TypeVar("Thing")
ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))


def some(things: Sequence[Thing], count: int) -> list[Thing]:
    """Draw things, so many for each round; all if there are no more."""
    count = min(count * ROUNDS, len(things))
    return random.Random(SEED).sample(list(things), count)
