"""How many random inputs are tried, and their seed: few and 0 by default.

`make fuzz` tries more, with another seed.
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
