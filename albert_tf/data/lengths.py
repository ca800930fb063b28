"""The lengths that sequences are padded to.

There are few of them, so that few shapes are compiled. Without TensorFlow.
"""

from albert_tf.data import layouts

# The shortest batches have this length, unless a task needs more.
SHORTEST = 4
# Lengths are multiples of the second number up to the first one. Each length
# that occurs is compiled once, in about half a second, for base, too.
_STEPS = ((32, 2), (64, 4), (128, 8), (256, 16))
_LONG_STEP = 32


def allowed(shortest: int, longest: int) -> list[int]:
    """Return the lengths that batches are padded to, ascending.

    Example:
        allowed(24, 48) = [24, 26, 28, 30, 32, 36, 40, 44, 48]

    Args:
        shortest: No batch is shorter, unless `longest` is.
        longest: Length of the records; the last of the result.
    """
    multiples: list[int] = []
    length = 0
    while True:
        length += next((s for top, s in _STEPS if length < top), _LONG_STEP)
        if length >= longest:
            return [*multiples, longest]
        if length >= shortest:
            multiples.append(length)


def sequence_features(layout: layouts.Layout) -> frozenset[str]:
    """Return the names of the features whose padding may be left out."""
    return frozenset(f.name for f in layout if f.padding is not None)
