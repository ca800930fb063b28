"""The direction in which Muon moves a matrix.

Source: Jordan et al., "Muon: an optimizer for hidden layers in neural
networks", 2024; Liu et al., arXiv 2502.16982, section 2.
"""

import tensorflow as tf

BETA = 0.95
# Root mean square of the entries of an update, about that of AdamW's updates.
# Source: Liu et al., section 2.2.
UPDATE_RMS = 0.2

_ITERATIONS = 5
# Of x, x³ and x⁵: the polynomial that is applied to the singular values.
# Source: Jordan et al.
_COEFFICIENTS = 3.4445, -4.7750, 2.0315
_EPSILON = 1e-12


def direction(
    gradient: tf.Tensor, momentum: tf.Tensor, dtype: tf.DType
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the direction of an update and the new momentum.

    m ← 0.95 m + 0.05 g;  u ← O(0.95 m + 0.05 g) · 0.2 √max(R, C)

    These are u and m; all are float32 [R, C]. `orthogonalize`, O, computes in
    the dtype.
    """
    momentum = BETA * momentum + (1.0 - BETA) * gradient
    ahead = BETA * momentum + (1.0 - BETA) * gradient
    scale = UPDATE_RMS * max(gradient.shape) ** 0.5
    return orthogonalize(ahead, dtype) * scale, momentum


def orthogonalize(matrix: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return a matrix with the same singular vectors and values near 1.

    Singular values that are not far below the largest one end between 0.6 and
    1.25; much smaller ones stay below. A matrix of zeros stays one. It is
    float32 [R, C]. To compute in bfloat16 is exact enough, and about twice as
    fast on a CPU that has instructions for it.
    """
    rows, columns = matrix.shape
    x = matrix / (tf.norm(matrix) + _EPSILON)
    # The products with the transposed matrix are then the smaller ones.
    x = tf.cast(tf.transpose(x) if rows > columns else x, dtype)
    first, third, fifth = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = tf.matmul(x, x, transpose_b=True)
        factor = third * square + fifth * tf.matmul(square, square)
        x = first * x + tf.matmul(factor, x)
    x = tf.cast(x, tf.float32)
    return tf.transpose(x) if rows > columns else x
