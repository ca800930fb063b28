"""Stages of a training, each with its number of steps but the last."""

from collections.abc import Sequence
from typing import NamedTuple


class Stage(NamedTuple):
    """From which step on a value holds."""

    start: int
    value: str


def parse(text: str | None) -> tuple[Stage, ...]:
    """Return the stages of an option; none if steps are not positive numbers.

    Example:
        "a:9000,b:500,c": (0, "a"), (9000, "b"), (9500, "c")
    """
    if text is None:
        return ()
    *stages, last = text.split(",")
    parsed, start = [], 0
    for stage in stages:
        value, _, steps = stage.partition(":")
        parsed.append(Stage(start, value))
        start += int(steps) if steps.isdecimal() else 0
    parsed.append(Stage(start, last))
    starts = [stage.start for stage in parsed]
    return tuple(parsed) if sorted({*starts}) == starts else ()


def value_at(stages: Sequence[Stage], step: int | None) -> str:
    """Return the value at a step; None: evaluation has the last."""
    values = [s.value for s in stages if step is None or s.start <= step]
    return values[-1]
