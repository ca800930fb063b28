"""Checkpoints of TensorFlow 1: variables by name, for tests."""

import tensorflow as tf


def read(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def write(prefix, values):
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
    )
    return str(prefix)
