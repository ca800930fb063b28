"""Counter-based random numbers: each depends on a seed and an index only.

So any part of the work can be done in any process, in any order, and again
after an interruption, with the same result. `Stream` draws one number after
another; `uniform` draws the same numbers as arrays.

Source: SplitMix64, Steele, Lea and Flood, OOPSLA 2014.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.common import ragged

_INCREMENT = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_BITS = 0xFFFFFFFFFFFFFFFF
# 53 bits fill the mantissa of a float64.
_SCALE = 2.0**-53
# Bounds of the memory of `open_streams`.
_STREAMS_AT_ONCE, _MOST_FIRST_DRAWS = 64, 1 << 14


def derive(seed: int, *numbers: int) -> int:
    """Derive a new seed from a seed and some numbers.

    Example:
        derive(base_seed, document, 3) for the fourth pass over a document
    """
    for number in numbers:
        seed = _mix(seed + (number + 1) * _INCREMENT & _BITS)
    return seed


def _mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * _FACTORS[0] & _BITS
    bits = (bits ^ bits >> 27) * _FACTORS[1] & _BITS
    return bits ^ bits >> 31


def derive_array(seeds: np.ndarray, numbers: np.ndarray | int) -> np.ndarray:
    """Do what `derive` does with one number, for arrays that broadcast.

    The seeds and the result are uint64, the numbers from 0.
    """
    if isinstance(numbers, int):  # NumPy warns when scalars overflow.
        bits = seeds + np.uint64((numbers + 1) * _INCREMENT & _BITS)
    else:
        bits = seeds + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(
            _INCREMENT
        )
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(_FACTORS[0])
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(_FACTORS[1])
    return bits ^ bits >> np.uint64(31)


def uniform(seeds: np.ndarray, numbers: np.ndarray | int) -> np.ndarray:
    """Return float64 numbers from 0 to below 1, for arrays that broadcast."""
    return (derive_array(seeds, numbers) >> np.uint64(11)) * _SCALE


class Stream:
    """A sequence of draws, with the methods of `random.Random` that we use."""

    def __init__(self, seed: int, first: Sequence[float] = ()) -> None:
        """Begin the stream of a seed, see `derive`.

        Args:
            seed: 64 bits.
            first: The first draws, if they are known; see `open_streams`.
        """
        self._first = iter(first)
        self._state = seed + len(first) * _INCREMENT & _BITS

    def random(self) -> float:
        """Return a number from 0 to below 1; the n-th is `uniform(seed, n)`."""
        for draw in self._first:
            return draw
        self._state = self._state + _INCREMENT & _BITS
        return (_mix(self._state) >> 11) * _SCALE

    def randint(self, first: int, last: int) -> int:
        """Return an integer from `first` to `last`, both included."""
        return first + int(self.random() * (last - first + 1))


def open_streams(seeds: np.ndarray, num_draws: np.ndarray) -> Iterator[Stream]:
    """Yield `Stream(seed)` for each seed, faster: first draws come from arrays.

    Args:
        seeds: uint64 [n].
        num_draws: int [n], about how many draws each stream will be asked for.
    """
    for start in range(0, len(seeds), _STREAMS_AT_ONCE):
        block = slice(start, start + _STREAMS_AT_ONCE)
        counts = np.minimum(num_draws[block], _MOST_FIRST_DRAWS)
        ends = np.cumsum(counts)
        numbers = ragged.concat_ranges(np.zeros_like(counts), counts)
        first = uniform(np.repeat(seeds[block], counts), numbers).tolist()
        begin = 0
        for seed, end in zip(seeds[block].tolist(), ends.tolist(), strict=True):
            yield Stream(seed, first[begin:end])
            begin = end
