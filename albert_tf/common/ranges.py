"""Ranges of the numbers that options allow; NaN and infinity never are.

The upper limits are far above useful values. They catch typing errors at once,
before a run takes hours or fills the memory.
"""

import dataclasses
import numbers
import os
from typing import Any

MOST_PIECES = 2**21  # Of a vocabulary.


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers between two limits; `above` and `below` are not allowed."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def __str__(self) -> str:
        """Return it in words, such as "from 1 to 100"."""
        if self.low is None:
            return f"above {self.above:,}, up to {self.high:,}"
        if self.high is None:
            return f"from {self.low:,} to below {self.below:,}"
        return f"from {self.low:,} to {self.high:,}"

    def describe_fault(self, value: Any, *, whole: bool) -> str:
        """Return what is wrong with a value, as the end of a sentence.

        Example:
            Range(1, 100).describe_fault(0, whole=True) =
                "is below 1. Use a whole number from 1 to 100."

        Returns:
            An empty string if nothing is wrong.
        """
        kind, wrong = "a whole number" if whole else "a number", ""
        if not is_number(value, whole=whole):
            wrong = f"not {kind}"
        elif self.low is not None and value < self.low:
            wrong = f"below {self.low:,}"
        elif self.high is not None and value > self.high:
            wrong = f"above {self.high:,}"
        elif self.above is not None and value <= self.above:
            wrong = f"not above {self.above:,}"
        elif self.below is not None and value >= self.below:
            wrong = f"not below {self.below:,}"
        return f"is {wrong}. Use {kind} {self}." if wrong else ""


def is_number(value: Any, *, whole: bool) -> bool:
    """Tell whether a value is a number; booleans and NaN are not."""
    kind = numbers.Integral if whole else numbers.Real
    return (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and bool(value == value)
    )


# Ranges that several options share.
STEPS = Range(1, 10**9)
STEPS_OR_NONE = Range(0, 10**9)
EXAMPLES = Range(1, 10**9)
EXAMPLES_OR_NONE = Range(0, 10**9)
BATCH = Range(1, 2**20)  # You et al., arXiv 1904.00962, went to 2**16.
TOKENS = Range(1, 2**16)  # Of a sequence, and so of its parts.
TOKENS_OF_TASK = Range(4, 2**16)  # With [CLS] and two [SEP].
RUNS = Range(1, 1000)
PROCESSES = Range(0, max(64, 2 * (os.cpu_count() or 1)))  # 0: one per core.
SEED = Range(0, 2**31 - 1)
WRITER_SEED = Range(0, 2**32 - 1)
SHARE = Range(0, 1)
DROPOUT = Range(0, below=1)
LEARNING_RATE = Range(above=0, high=10)
N_BEST = Range(1, 10**4)
THRESHOLD = Range(-1e9, 1e9)
