"""ERNIE 1.0's stages of masking: of pieces, of phrases, of entities.

Source: ERNIE, Sun et al., arXiv 1904.09223, section 3.2.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.common import errors
from albert_tf.data import marks

# Names to what joins words into units; on the basic level a unit is a piece.
LEVELS = {"basic": 0, "phrase": marks.PHRASE, "entity": marks.ENTITY}


class Stage(NamedTuple):
    """From which step on units of which level are hidden."""

    start: int
    level: str


def parse(mask_levels: str | None) -> tuple[Stage, ...]:
    """Return the stages of an option such as "basic:9000,phrase:500,entity".

    Example:
        (0, "basic"), (9000, "phrase"), (9500, "entity")
    """
    if mask_levels is None:
        return ()
    *stages, last = mask_levels.split(",")
    found, start = [], 0
    for stage in stages:
        level, _, steps = stage.partition(":")
        found.append(Stage(start, level))
        start += int(steps) if steps.isdecimal() else 0
    found.append(Stage(start, last))
    starts = [stage.start for stage in found]
    if sorted({*starts}) != starts or not {s.level for s in found} <= {*LEVELS}:
        raise errors.UserError(
            f"is not some of {', '.join(LEVELS)}, with commas, each but the "
            "last with its number of steps. Write such as "
            "basic:9000,phrase:3000,entity.",
            "mask_levels",
            mask_levels,
        )
    return tuple(found)


def level_at(stages: Sequence[Stage], step: int | None) -> str:
    """Return the level of a step; None: evaluation has the last."""
    known = [s.level for s in stages if step is None or s.start <= step]
    return known[-1]


def unit_starts(level: str, found: np.ndarray) -> np.ndarray:
    """Return which pieces begin a unit, from their `marks`.

    Words outside of phrases or entities are units of their own.
    """
    if level == "basic":
        return np.ones(found.shape, bool)
    is_word = found & marks.WORD > 0
    return is_word & (found & LEVELS[level] == 0)
