"""Parse records with TensorFlow."""

import math

import tensorflow as tf

from albert_tf.data import layouts


def parse(
    layout: layouts.Layout, serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Parse examples, string [batch], to int32 or float32 [batch, *shape].

    Other features than those of the layout are ignored. Records of another
    layout, and numbers that no model can use, are an InvalidArgumentError;
    `complaint` says what is wrong.
    """
    features = _read(layout, serialized)
    rules = [
        *(_is_within(feature, features[feature.name]) for feature in layout),
        *_rules(features).values(),
    ]
    check = tf.debugging.Assert(tf.reduce_all(rules), ["a number of a record"])
    with tf.control_dependencies([check] if check is not None else []):
        return {
            name: tf.cast(value, tf.int32)
            if value.dtype == tf.int64
            else tf.identity(value)
            for name, value in features.items()
        }


def complaint(layout: layouts.Layout, record: bytes) -> str | None:
    try:
        features = _read(layout, tf.constant([record]))
    except tf.errors.InvalidArgumentError:
        described = ", ".join(_describe(feature) for feature in layout)
        if any(feature.padding is not None for feature in layout):
            described += "; sequences have the same length"
        return f"has another layout. Each record must hold {described}"
    for feature in layout:
        values = features[feature.name].numpy().ravel()
        is_right = (values >= feature.low) & (values <= feature.high)
        if not is_right.all():
            return (
                f"has {feature.name} {values[~is_right][0]}; allowed are "
                f"{feature.low} to {feature.high}"
            )
    broken = [rule for rule, holds in _rules(features).items() if not holds]
    return broken[0] if broken else None


def _describe(feature: layouts.Feature) -> str:
    """Return how many numbers of a feature a record may hold, for messages."""
    most = "" if feature.padding is None else "up to "
    return f"{most}{math.prod(feature.shape)} {feature.name}"


def _is_within(feature: layouts.Feature, value: tf.Tensor) -> tf.Tensor:
    if value.dtype == tf.int64:  # Half the time of comparing each number.
        lowest, highest = tf.reduce_min(value), tf.reduce_max(value)
        return (lowest >= feature.low) & (highest <= feature.high)
    # False for what is no number.
    return tf.reduce_all((value >= feature.low) & (value <= feature.high))


def _rules(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Tell whether a batch obeys the rules on several numbers, bool [].

    By what is wrong with a record that does not. The original fills its last
    batch with records without a token, which are no real examples.
    """
    rules = {}
    if "input_mask" in features:
        mask = features["input_mask"]
        flat = tf.reshape(mask, [tf.shape(mask)[0], -1])
        is_real = features.get("is_real_example", 1)
        holds = tf.reduce_all(tf.reduce_max(flat, 1) >= is_real)
        rules["has input_mask 0 everywhere"] = holds
        holds = tf.reduce_all(mask[..., 1:] <= mask[..., :-1])
        rules["has an input_mask with a gap"] = holds
    if {"input_mask", "masked_lm_positions"} <= features.keys():
        places = features["masked_lm_positions"]
        used = features["masked_lm_weights"] > 0
        unused = -1 - tf.range(places.shape[1], dtype=tf.int64)
        ordered = tf.sort(tf.where(used, places, unused), 1)
        holds = tf.reduce_all(ordered[:, 1:] > ordered[:, :-1])
        rules["has a number twice among masked_lm_positions"] = holds
        inside = tf.clip_by_value(places, 0, mask.shape[1] - 1)
        is_token = tf.gather(mask, inside, batch_dims=1) > 0
        holds = tf.reduce_all(is_token | ~used)
        rules["has masked_lm_positions where input_mask is 0"] = holds
    return rules


def _read(
    layout: layouts.Layout, serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Return the numbers of records as they are stored, padded."""
    specs = {
        feature.name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
        if feature.padding is None
        else tf.io.RaggedFeature(feature.dtype)
        for feature in layout
    }
    parsed = tf.io.parse_example(serialized, specs)
    lengths: dict[tuple[int, ...], tf.Tensor] = {}
    checks = []
    for feature in layout:
        # Those of a teacher hold their padding.
        if feature.padding is not None and feature.dtype == "int64":
            length = parsed[feature.name].row_lengths()
            first = lengths.setdefault(feature.shape, length)
            checks.append(tf.debugging.assert_equal(length, first))
    with tf.control_dependencies([c for c in checks if c is not None]):
        return {
            feature.name: parsed[feature.name]
            if feature.padding is None
            else _pad(feature, parsed[feature.name])
            for feature in layout
        }


def _pad(feature: layouts.Feature, values: tf.RaggedTensor) -> tf.Tensor:
    """Return the sequences of each record in full length, [batch, *shape].

    Those of a record, equally long, stand one behind the other in `values`.
    """
    length = feature.shape[-1]
    count = math.prod(feature.shape[:-1])
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
    padded = sequences.to_tensor(feature.padding, shape=[None, length])
    return tf.reshape(padded, [-1, *feature.shape])
