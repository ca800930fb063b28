"""Ask a model about many sequences, some at a time."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

Tensors = dict[str, tf.Tensor]

# Windows that go through the network together. A long text has hundreds; so
# the memory does not grow with it.
_AT_ONCE = 16


def ask(
    model: Callable[..., Tensors],
    inputs: Sequence[tf.Tensor],
    parts: Mapping[str, tf.TensorSpec],
) -> Tensors:
    """Return some outputs of a model, for all rows of its inputs.

    Args:
        parts: The outputs, [rows, ...], by name.
    """
    total = tf.shape(inputs[0])[0]
    count = tf.maximum(1, -(-total // _AT_ONCE))
    arrays = {
        name: tf.TensorArray(
            spec.dtype, count, infer_shape=False, element_shape=spec.shape
        )
        for name, spec in parts.items()
    }

    def step(
        number: tf.Tensor, arrays: dict[str, tf.TensorArray]
    ) -> tuple[tf.Tensor, dict[str, tf.TensorArray]]:
        begin = number * _AT_ONCE
        outputs = model(*(rows[begin : begin + _AT_ONCE] for rows in inputs))
        return number + 1, {
            name: array.write(number, outputs[name])
            for name, array in arrays.items()
        }

    _, arrays = tf.while_loop(
        lambda number, _: number < count,
        step,
        (0, arrays),
        parallel_iterations=1,
    )
    return {name: array.concat() for name, array in arrays.items()}
