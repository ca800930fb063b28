"""The weights of layers: where they are read, and what may stand in for them.

`Dense` and `LayerNorm` read their variables here and nowhere else. So a layer
can be computed with other tensors in their place, as a functional call: those
that were read once for a whole pass, or the arguments of a function that is
computed again. Weights of a transformer layer that are neither of a `Dense` nor
of a `LayerNorm` would not be replaced.
"""

import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import tensorflow as tf
import tf_keras as keras
from tensorflow.core.framework import tensor_pb2


class Layer(Protocol):
    """A layer of the encoder or of a decoder, a dataclass of its parts."""

    @property
    def parts(self) -> list[keras.layers.Layer]:
        """Every dense layer and norm."""
        layers = vars(self).values()
        return [part for layer in layers for part in layer.submodules]

    def __call__(
        self,
        x: tf.Tensor,
        biases: Sequence[tf.Tensor],
        seed: tf.Tensor | None = None,
        memory: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return float [B, S, H]."""


# Of each thread: replicas are traced in threads of their own.
_local = threading.local()


def value_of(variable: tf.Variable, dtype: tf.DType) -> tf.Tensor:
    """Return a variable's value in a dtype, or what stands in for it."""
    value = getattr(_local, "stand_ins", {}).get(id(variable))
    if value is None:
        value = tf.convert_to_tensor(variable)
    return tf.cast(value, dtype)


@contextlib.contextmanager
def substituted(
    variables: Sequence[tf.Variable], tensors: Sequence[tf.Tensor]
) -> Iterator[None]:
    """Let tensors stand in for variables, in this thread."""
    before = getattr(_local, "stand_ins", {})
    pairs = zip(map(id, variables), tensors, strict=True)
    _local.stand_ins = {**before, **dict(pairs)}
    try:
        yield
    finally:
        _local.stand_ins = before


class WeightsOfPass:
    """The weights of layers, read once in a pass, however often they are used.

    Which layers share parameters, `AlbertModel.transformer_layers` says.
    Without this, a model that applies one layer twelve times would cast its
    kernels twelve times. With `fan_out` the gradients of uses are added up one
    by one.
    """

    def __init__(
        self, layers: Sequence[Layer], dtype: tf.DType, *, fan_out: bool
    ):
        self._fans_out = fan_out
        self._left = collections.Counter(
            id(variable) for layer in layers for variable in variables(layer)
        )
        parts = {id(p): p for layer in layers for p in layer.parts}
        self._tensors = {
            id(variable): value_of(variable, part.weights_dtype or dtype)
            for part in parts.values()
            for variable in part.variables
        }

    def take(self, layer: Layer) -> list[tf.Tensor]:
        """Return what stands in for `variables(layer)`, for one use."""
        taken = []
        for key in map(id, variables(layer)):
            tensor = self._tensors[key]
            self._left[key] -= 1
            if self._fans_out and self._left[key]:
                tensor, self._tensors[key] = fan_out(tensor)
            taken.append(tensor)
        return taken


def variables(layer: Layer) -> list[tf.Variable]:
    return [v for part in layer.parts for v in part.variables]


@tf.custom_gradient
def fan_out(tensor: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Any]:
    """Return a tensor twice: for one use, and for all later uses.

    TensorFlow keeps the gradients of all uses of a tensor and adds them up at
    the end. With a fan-out before each use, the gradient of the use is added to
    the sum of the later ones as soon as it is known. With layers that are
    recomputed this saves 101 MiB of albert-base; without, nothing.
    """
    return (tensor, tensor), lambda now, later: now + later


def constant_of(value: tf.Tensor) -> Callable[[], tf.Tensor]:
    """Return a function that adds the value to a graph as a constant."""
    # Not tf.constant(array), which stores three bytes for a bfloat16.
    proto = tensor_pb2.TensorProto(
        dtype=value.dtype.as_datatype_enum,
        tensor_shape=value.shape.as_proto(),
        tensor_content=value.numpy().tobytes(),
    )
    return functools.partial(tf.constant, proto, value.dtype, value.shape)
