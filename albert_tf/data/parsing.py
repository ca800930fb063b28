"""Parse records with TensorFlow."""

import math

import tensorflow as tf

from albert_tf.data import layouts


def parse(
    layout: layouts.Layout, serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Parse serialized examples, string [batch]; for use in `Dataset.map`.

    Other features than those of the layout are ignored.

    Returns:
        By feature name, int32 or float32 [batch, *shape].
    """
    wanted = {
        feature.name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        if feature.padding is None
        else tf.io.RaggedFeature(feature.dtype)
        for feature in layout
    }
    parsed = tf.io.parse_example(serialized, wanted)
    found = {}
    for feature in layout:
        value = parsed[feature.name]
        if feature.padding is not None:
            value = _pad(feature, value)
        if value.dtype == tf.int64:
            value = tf.cast(value, tf.int32)
        found[feature.name] = value
    return found


def _pad(feature: layouts.Feature, values: tf.RaggedTensor) -> tf.Tensor:
    """Return the sequences of each record in full length, [batch, *shape].

    Args:
        values: Of each record, the sequences one behind the other, equally
            long.
    """
    *others, length = feature.shape
    count = math.prod(others)
    numbers = values.row_lengths()
    each = numbers // count
    checks = (
        tf.debugging.assert_equal(each * count, numbers),
        tf.debugging.assert_positive(each),
        tf.debugging.assert_less_equal(each, tf.cast(length, each.dtype)),
    )
    with tf.control_dependencies([c for c in checks if c is not None]):
        each = tf.repeat(each, count)
    sequences = tf.RaggedTensor.from_row_lengths(
        values.flat_values, each, validate=False
    )
    whole = sequences.to_tensor(feature.padding, shape=[None, length])
    return tf.reshape(whole, [-1, *feature.shape])
