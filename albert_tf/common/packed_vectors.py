"""Vectors that cost less: their first numbers, as bytes or as bits.

The definition, in NumPy; the service of vectors computes the same with
TensorFlow.

Sources: prefixes, Kusupati et al., arXiv 2205.13147; bits, Yamada et al., arXiv
2106.00882, section 3.
"""

import dataclasses

import numpy as np

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option

PRECISIONS = FLOAT, INT8, BINARY = "float32", "int8", "binary"
MOST = 127  # Of a number in INT8.
# What becomes `MOST`, in root mean squares of a vector's numbers. Rounding to
# steps of 1 / 16 changes a cosine of 64 or more numbers by less than 0.01.
_RANGE = 8.0
_LEAST = 1e-12  # Of a length: no vector is divided by 0.


@dataclasses.dataclass(frozen=True)
@checked
class VectorOptions:
    """How vectors of length 1 are given out."""

    dimensions: int | None = option(
        None,
        "How many numbers of a vector are given out, the first ones, scaled to "
        "length 1; see --prefix_dimensions of run_embeddings. Default: as the "
        "run, else all.",
        within=ranges.Range(1, 2**14),
        may_change=True,
    )
    vector_precision: str | None = option(
        None,
        "What a number of a vector becomes. int8: a byte; binary: a bit, 1 if "
        "it is above 0, eight to a byte. Scores are those of such vectors. "
        "Default: as the run, else float32.",
        choices=PRECISIONS,
        may_change=True,
    )

    def check(self, width: int) -> None:
        """Refuse what vectors of this width cannot become."""
        size = self.dimensions or width
        if size > width:
            raise errors.UserError(
                f"`dimensions={size}` is more than a vector has, {width}. Use "
                "at most that."
            )
        if self.vector_precision == BINARY and size % 8:
            raise errors.UserError(
                f"`vector_precision={BINARY}` packs eight numbers into a byte, "
                f"but a vector has {size}. Use as `dimensions` a multiple of 8."
            )

    def pack(self, vectors: np.ndarray) -> np.ndarray:
        """Return what is given out of vectors of length 1, float [..., width].

        Returns:
            [..., d]: float of length 1, or of INT8 int8: the numbers times
            `scale(d)`. Of BINARY uint8 [..., d / 8]: the first number is the
            highest bit, as in numpy.packbits.
        """
        if self.dimensions:
            vectors = unit(vectors[..., : self.dimensions])
        if self.vector_precision == BINARY:
            return np.packbits(vectors > 0, axis=-1)
        if self.vector_precision == INT8:
            levels = np.round(vectors * scale(vectors.shape[-1]))
            return levels.clip(-MOST, MOST).astype(np.int8)
        return vectors

    def rounded(self, vectors: np.ndarray) -> np.ndarray:
        """Return the vectors of length 1 that packed ones stand for."""
        return unpack(self.pack(vectors))


WHOLE = VectorOptions()  # As float32.


def scale(size: int) -> float:
    """Return what numbers of vectors are multiplied with for INT8."""
    return float(MOST * np.sqrt(size) / _RANGE)


def unpack(packed: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, float, for what `pack` returns."""
    if packed.dtype == np.uint8:
        bits = np.unpackbits(packed, axis=-1)
        # Of so few binary digits that equal cosines are equal numbers.
        size = round(2**26 / bits.shape[-1] ** 0.5) / 2**26
        return np.where(bits, size, -size)
    return unit(packed.astype(float)) if packed.dtype == np.int8 else packed


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divide vectors, float [..., width], by their lengths."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, _LEAST))
