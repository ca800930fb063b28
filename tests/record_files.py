"""Write record files with TensorFlow, as the original does."""

import pathlib

import numpy as np
import tensorflow as tf


def encode(layout, values):
    """Serialize one instance; the result does not depend on the order."""
    assert values.keys() == {feature.name for feature in layout}
    example = tf.train.Example()
    for feature in layout:
        assert np.shape(values[feature.name]) == feature.shape, feature
        numbers = np.ravel(values[feature.name]).tolist()
        target = example.features.feature[feature.name]
        if feature.dtype == "int64":
            target.int64_list.value.extend(numbers)
        else:
            target.float_list.value.extend(numbers)
    return example.SerializeToString(deterministic=True)


def write(paths, records, layout=None):
    """Write records, or values that are to be encoded by a layout."""
    paths = [paths] if isinstance(paths, str | pathlib.Path) else paths
    if layout:
        records = (encode(layout, values) for values in records)
    records = list(records)
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records[number :: len(paths)]:
                writer.write(record)
