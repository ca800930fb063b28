"""Index arithmetic for rows of different lengths that lie one behind the other.

NumPy works on all rows at once this way, without padding.
"""

import numpy as np


def concat_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the indices of ranges of different lengths, concatenated.

    Example:
        starts [7, 2], lengths [2, 3] -> [7, 8, 2, 3, 4]

    Args:
        starts: int [n].
        lengths: int [n].
    """
    # In each range, the index minus its offset in the result is constant.
    offsets = np.cumsum(lengths) - lengths
    index_shifts = np.repeat(starts - offsets, lengths)
    return np.arange(len(index_shifts)) + index_shifts
