"""Index arithmetic for rows of different lengths that lie one behind the other.

NumPy works on all rows at once this way, without padding.
"""

import numpy as np


def gather(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the indices of ranges of different lengths, concatenated.

    Example:
        begins [7, 2], lengths [2, 3] -> [7, 8, 2, 3, 4]

    Args:
        begins: int [n].
        lengths: int [n].
    """
    # In each range the index minus its place in the result is constant.
    places = np.cumsum(lengths) - lengths
    shifts = np.repeat(begins - places, lengths)
    return np.arange(len(shifts)) + shifts
