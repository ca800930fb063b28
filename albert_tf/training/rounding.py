"""Quantization-aware training: weights are 8 bits in a pass, float32 beside it.

Before a pass every matrix gets its rounded values, and its float32 values
return before the optimizer reads them. So all of the model computes with
rounded weights, whatever reads them, and the gradient passes straight through
the rounding (Bengio et al., arXiv 1308.3432; Jacob et al., arXiv 1712.05877).
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.optimizers import optimization


def rounded(name: str, value: tf.Tensor) -> tf.Tensor:
    """Return number times scale of `int8_weights.quantize`, float32 [n, m]."""
    axis = int8_weights.axis_of_scale(name)
    largest = tf.reduce_max(tf.abs(value), axis, keepdims=True)
    scale = tf.maximum(largest, int8_weights.TINY) / float(int8_weights.LARGEST)
    bits = tf.bitcast(scale, tf.int32) + int8_weights.HALF
    bits = tf.bitwise.bitwise_and(bits, tf.constant(int8_weights.KEPT))
    scale = tf.bitcast(bits, tf.float32)
    return tf.round(value / scale) * scale


@dataclasses.dataclass(frozen=True, eq=False)
class Rounding:
    """Rounds the matrices of a model for a while.

    Attributes:
        start: The share of the updates after which gradients are those at
            rounded weights; None: nothing is rounded, ever.
    """

    model: keras.Model
    start: float | None = None

    @property
    def _variables(self) -> list[tf.Variable]:
        if self.start is None:
            return []
        return [
            v
            for v in self.model.variables
            if int8_weights.is_rounded(v) and v.dtype == tf.float32
        ]

    @contextlib.contextmanager
    def in_update(self, optimizer: optimization.AdamW) -> Iterator[None]:
        """Round, in a replica, from the `start` of the optimizer's schedule."""
        variables = self._variables
        if not variables:
            yield
            return
        values = [tf.convert_to_tensor(v) for v in variables]
        chosen = tf.cond(
            optimizer.progress >= self.start,
            lambda: _round(variables, values),
            lambda: [tf.identity(value) for value in values],
        )
        _assign(variables, chosen)
        yield
        _assign(variables, values)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Round outside of graphs; also a decorator of what evaluates.

        This does not depend on `start`: what is measured is what is converted.
        """
        variables = self._variables
        values = [tf.convert_to_tensor(v) for v in variables]
        try:
            for variable, value in zip(
                variables, _round(variables, values), strict=True
            ):
                variable.assign(value)
            yield
        finally:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)


def _round(
    variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    return [
        rounded(checkpoint_reader.name_of(variable), value)
        for variable, value in zip(variables, values, strict=True)
    ]


def _assign(
    variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]
) -> None:
    """Assign values in each replica."""

    def assign(
        strategy: tf.distribute.Strategy, values: Sequence[tf.Tensor]
    ) -> None:
        for variable, value in zip(variables, values, strict=True):
            strategy.extended.update(
                variable, lambda v, new: v.assign(new), (value,)
            )

    tf.distribute.get_replica_context().merge_call(assign, (values,))
