"""ERNIE 1.0's stages of masking: of pieces, of phrases, of entities.

Source: ERNIE, Sun et al., arXiv 1904.09223, section 3.2.
"""

import numpy as np

from albert_tf.common import errors
from albert_tf.data import marks, stages

# Names to what joins words into units; on the basic level a unit is a piece.
LEVELS = {"basic": 0, "phrase": marks.PHRASE, "entity": marks.ENTITY}


def parse(mask_levels: str | None) -> tuple[stages.Stage, ...]:
    """Return the stages of an option such as "basic:9000,phrase:500,entity"."""
    found = stages.parse(mask_levels)
    is_known = found and {stage.value for stage in found} <= {*LEVELS}
    if mask_levels is not None and not is_known:
        raise errors.UserError(
            f"`mask_levels={mask_levels}` is not some of {', '.join(LEVELS)}, "
            "with commas, each but the last with its number of steps. Write "
            "such as basic:9000,phrase:3000,entity."
        )
    return found


def unit_starts(level: str, found: np.ndarray) -> np.ndarray:
    """Return which pieces begin a unit, from their `marks`.

    Words outside of phrases or entities are units of their own.
    """
    if level == "basic":
        return np.ones(found.shape, bool)
    is_word = found & marks.WORD > 0
    return is_word & (found & LEVELS[level] == 0)
