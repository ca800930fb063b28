"""Layers that encoder and heads are built from: linear, norm, dropout.

Variables are float32, whatever Keras' global policy is.
"""

import functools
from collections.abc import Callable

import tensorflow as tf
import tf_keras as keras
from tensorflow.core.framework import tensor_pb2

from albert_tf.model import fused_ops
from albert_tf.model.config import AlbertConfig


def derive_seed(seed: tf.Tensor | None, stream: int) -> tf.Tensor:
    """Return a seed, int32 [2], for one use among many.

    Args:
        seed: int32 [2]; None draws one from TensorFlow's global generator.
        stream: Number of the use.
    """
    if seed is None:
        seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return tf.random.experimental.stateless_fold_in(seed, stream)


class Dropout:
    """Stateless dropout for one forward pass, or for one block of it.

    Each use derives a seed of its own from the seed of the pass and the number
    of the use. The same seed gives the same dropout, so checkpoints need not
    store a generator's state.

    Args:
        seed: int32 [2]; None switches dropout off.
    """

    def __init__(self, seed: tf.Tensor | None):
        self._seed = seed
        self._uses = 0

    def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Drop entries with probability `rate` and scale up the others."""
        if not self.drops(rate):
            return x
        self._uses += 1
        seed = derive_seed(self._seed, self._uses)
        return tf.nn.experimental.stateless_dropout(x, rate, seed)

    def drops(self, rate: float) -> bool:
        """Tell whether a use with this rate changes anything."""
        return self._seed is not None and rate != 0


NO_DROPOUT = Dropout(None)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return the initializer of kernels and tables; a new one for every use."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def constant_variable(value: tf.Tensor) -> tf.Variable:
    """Return a variable that optimizers do not update."""
    return tf.Variable(value, trainable=False)


def make_constant(value: tf.Tensor) -> Callable[[], tf.Tensor]:
    """Return a function that adds the value to a graph as a constant."""
    array = value.numpy()
    # Not tf.constant(array), which stores three bytes for a bfloat16.
    proto = tensor_pb2.TensorProto(
        dtype=value.dtype.as_datatype_enum,
        tensor_shape=value.shape.as_proto(),
        tensor_content=array.tobytes(),
    )
    return functools.partial(tf.constant, proto, value.dtype, value.shape)


def linear(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    activation: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tf.Tensor:
    """Return activation(x @ kernel + bias), in the dtype of x.

    Args:
        x: float [..., inputs].
        kernel: float [inputs, units].
        bias: float [units].
        activation: Applied to each entry.
    """
    inputs, units = kernel.shape
    # A product of two matrices is faster than one of higher rank, and
    # TensorFlow fuses a bias and a GELU that follow it directly.
    is_matrix = x.shape.rank == 2
    rows = x if is_matrix else tf.reshape(x, [-1, inputs])
    rows = tf.matmul(rows, tf.cast(kernel, x.dtype))
    rows = activation(tf.nn.bias_add(rows, tf.cast(bias, x.dtype)))
    if is_matrix:
        return rows
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [units]], 0))


class Dense(keras.layers.Layer):
    """A linear layer over the last axis, in the dtype of its input.

    Its variables are `SCOPE/kernel` [inputs, units] and `SCOPE/bias` [units].
    """

    def __init__(
        self, scope: str, inputs: int, units: int, config: AlbertConfig
    ):
        """Create the variables.

        Args:
            scope: Path of the layer in the original's checkpoints.
            inputs: Size of the last axis of its input.
            units: Size of the last axis of its output.
            config: Gives the initializer.
        """
        super().__init__(
            name=scope.rsplit("/", 1)[-1], autocast=False, dtype="float32"
        )
        self.kernel = self.add_weight(
            name=f"{scope}/kernel",
            shape=[inputs, units],
            initializer=truncated_normal(config.initializer_range),
        )
        self.bias = self.add_weight(
            name=f"{scope}/bias", shape=[units], initializer="zeros"
        )

    def convert_weights(self, dtype: tf.DType) -> None:
        """Convert the variables to the dtype of the inputs for good."""
        self.kernel = constant_variable(tf.cast(self.kernel, dtype))
        self.bias = constant_variable(tf.cast(self.bias, dtype))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Transform float [..., inputs] to [..., units]."""
        return linear(x, self.kernel, self.bias)


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis.

    Epsilon and variable names, `SCOPE/beta` and `SCOPE/gamma`, are those of the
    original.

    Source: original release, modeling.layer_norm.
    """

    def __init__(self, scope: str, size: int):
        super().__init__(
            name=scope.rsplit("/", 1)[-1], autocast=False, dtype="float32"
        )
        self.beta = self.add_weight(
            name=f"{scope}/beta", shape=[size], initializer="zeros"
        )
        self.gamma = self.add_weight(
            name=f"{scope}/gamma", shape=[size], initializer="ones"
        )

    def call(
        self,
        x: tf.Tensor,
        ops: fused_ops.Ops = fused_ops.PLAIN,
    ) -> tf.Tensor:
        """Normalize float [..., size], in float32."""
        return ops.layer_norm(x, self.gamma, self.beta)
