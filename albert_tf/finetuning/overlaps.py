"""Overlapping windows over the pieces of a long text.

NumPy alone is imported: exports for other runtimes may have a copy of this
file.
"""

import functools

import numpy as np

NUM_SPECIAL = 2  # [CLS], [SEP].
LONGEST_TEXT = 100_000  # Characters of a text whose windows are asked.
TOO_LONG = (
    f"A text that is read in windows may have {LONGEST_TEXT:,} characters. "
    "Divide it."
)


def require_short(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise ValueError(TOO_LONG)


def stride(max_seq_length: int) -> int:
    """Return the pieces from the start of one window to that of the next.

    Of windows of a text alone; half a window.
    """
    return max(1, (max_seq_length - NUM_SPECIAL) // 2)


@functools.lru_cache(maxsize=1 << 16)
def split(
    num_pieces: int, limit: int, doc_stride: int
) -> tuple[tuple[int, int], ...]:
    """Return first piece and length of each window.

    Example:
        split(10, 6, 3) = ((0, 6), (3, 6), (6, 4))
        split(5, 6, 3) = ((0, 5),)
        split(0, 6, 3) = ()
    """
    windows = []
    begin = 0
    while begin < num_pieces:
        length = min(limit, num_pieces - begin)
        windows.append((begin, length))
        if begin + length == num_pieces:
            break
        begin += min(length, doc_stride)
    return tuple(windows)


@functools.lru_cache(maxsize=1 << 12)
def max_context(windows: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    """Return for each window which pieces have the most context in it.

    A piece that is in several windows has the most context in the one where the
    shorter of its two sides, plus a hundredth of the length of the window, is
    longest; between equal ones the order decides.

    Example:
        max_context(((0, 6), (3, 6), (6, 4))) =
            [[1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 0], [0, 0, 1, 1]], as bool
    """
    num_pieces = windows[-1][0] + windows[-1][1] if windows else 0
    best = np.full(num_pieces, -np.inf)
    owner = np.zeros(num_pieces, np.int32)
    for index, (begin, length) in enumerate(windows):
        offset = np.arange(length)
        scores = np.minimum(offset, offset[::-1]) + 0.01 * length
        part = slice(begin, begin + length)
        owner[part][scores > best[part]] = index
        best[part] = np.maximum(best[part], scores)
    return [
        owner[begin : begin + length] == index
        for index, (begin, length) in enumerate(windows)
    ]
