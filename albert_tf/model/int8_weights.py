"""Weights in 8 bits: how they are rounded, and their files.

A matrix is stored as int8 numbers from -127 to 127 and a float32 scale for each
row of a table, or for each column of a kernel, which is an output channel. A
weight is number times scale. Vectors, such as biases and norms, stay float32.

The scale is the largest absolute value by 127, rounded to 16 bits. So products
of number and scale are exact in float32, and rounded weights stay the same when
they are rounded again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from albert_tf.common import errors

# What a file says of itself: format and version. With two entries files would
# differ from time to time, because safetensors writes them in any order.
FORMAT, VERSION = "albert_tf int8", "1"
LARGEST = 127
# Of a row of zeros, which has any scale.
TINY = np.float32(1e-30)
# A float32 has a sign, 8 bits of exponent and 23 of mantissa. Half of the last
# place that is kept, to be added, and what is kept.
HALF, KEPT = 0x7F, ~0xFF
_SCALE = "/scale"


def is_rounded(value: Any) -> bool:
    """Tell whether a weight, an array or a variable, is stored in 8 bits."""
    return len(value.shape) == 2


def axis_of_scale(name: str) -> int:
    """Return the axis over which numbers share a scale.

    Args:
        name: Of a variable. Kernels are [in, out]; the matrices of classifiers,
            `output_weights`, are [out, in].
    """
    return 0 if name.endswith(("/kernel", "/word_embeddings_2")) else 1


def quantize(name: str, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 numbers and float32 scales of a float32 matrix.

    The scales are [1, columns] or [rows, 1]. This is the definition;
    `training.rounding` computes the same in graphs.
    """
    largest = np.abs(value).max(axis_of_scale(name), keepdims=True)
    bits = (np.maximum(largest, TINY) / np.float32(LARGEST)).view(np.int32)
    scale = ((bits + HALF) & KEPT).view(np.float32)
    return np.rint(value / scale).astype(np.int8), scale


def to_bytes(weights: Mapping[str, np.ndarray]) -> bytes:
    """Return a safetensors file; the scales of NAME are `NAME/scale`."""
    tensors = dict(weights)
    for name, value in weights.items():
        if is_rounded(value):
            tensors[name], tensors[name + _SCALE] = quantize(name, value)
    return bytes(safetensors.numpy.save(tensors, {FORMAT: VERSION}))


def dequantize(
    path: str, tensors: Mapping[str, np.ndarray], version: str
) -> dict[str, np.ndarray]:
    """Return the float32 weights of a file of `to_bytes`."""
    if version != VERSION:
        raise errors.UserError(
            f"{path} holds weights in 8 bits of version {version}; this "
            f"program reads version {VERSION}. Use a newer one."
        )
    weights = dict(tensors)
    for name, value in tensors.items():
        if value.dtype == np.int8:
            scale = weights.pop(name + _SCALE, None)
            weights[name] = value * _checked(scale, f"{path}: {name}", value)
    return weights


def _checked(
    scale: np.ndarray | None, name: str, value: np.ndarray
) -> np.ndarray:
    """Return the scale of a weight unless it is damaged."""
    shared = axis_of_scale(name)
    shape = [1 if i == shared else n for i, n in enumerate(value.shape)]
    says = "is not there"
    if scale is not None:
        says = f"has the shape {list(scale.shape)} instead of {shape}"
        if list(scale.shape) == shape:
            if (np.isfinite(scale) & (scale > 0)).all():
                return scale
            says = "has numbers that are not finite and positive"
    raise errors.UserError(
        f"{name} is I8, and its scale {says}. The file is damaged; copy it "
        "again, or convert the model again."
    )
