"""Layers that encoder and heads are built from: dense and norm.

Variables are float32, whatever Keras' global policy is. In training the same
operations have gradients of their own, see `execution.training_ops`.
"""

from types import ModuleType

import tensorflow as tf
import tf_keras as keras

from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import plain, training_ops, weights


def operations(training: bool) -> ModuleType:
    """Return the module whose operations compute the network."""
    return training_ops if training else plain


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return the initializer of kernels and tables; a new one for every use."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


class Dense(keras.layers.Layer):
    """A linear layer over the last axis, in the dtype of its input.

    Its variables are `SCOPE/kernel` [inputs, units] and `SCOPE/bias` [units].
    """

    weights_dtype = None  # Weights are read in the dtype of the input.

    def __init__(
        self, scope: str, inputs: int, units: int, config: AlbertConfig
    ):
        """Create the variables, with a scope of the original's checkpoints."""
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

    def kernel_and_bias(self, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Return both, or what stands in for them, see `weights`."""
        kernel = weights.value_of(self.kernel, dtype)
        return kernel, weights.value_of(self.bias, dtype)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Transform float [..., inputs] to [..., units]."""
        return operations(training).linear(x, *self.kernel_and_bias(x.dtype))


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, in float32.

    Variable names, `SCOPE/beta` and `SCOPE/gamma`, are those of the original.

    Source: original release, modeling.layer_norm.
    """

    weights_dtype = tf.float32

    def __init__(self, scope: str, size: int, epsilon: float):
        super().__init__(
            name=scope.rsplit("/", 1)[-1], autocast=False, dtype="float32"
        )
        self.epsilon = epsilon
        self.beta = self.add_weight(
            name=f"{scope}/beta", shape=[size], initializer="zeros"
        )
        self.gamma = self.add_weight(
            name=f"{scope}/gamma", shape=[size], initializer="ones"
        )

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalize float [..., size]."""
        gamma = weights.value_of(self.gamma, tf.float32)
        beta = weights.value_of(self.beta, tf.float32)
        return operations(training).layer_norm(x, gamma, beta, self.epsilon)
