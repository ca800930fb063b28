"""Parse records with TensorFlow."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data import examples, layouts


def parse(
    layout: layouts.Layout, serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Parse examples, string [batch], to int32 or float32 [batch, *shape].

    Other features than those of the layout are ignored. Records of another
    layout, and numbers that no model can use, are an InvalidArgumentError;
    `describe_fault` says which.
    """
    features = _parse_padded(layout, serialized)
    checks = [
        *(_is_within(feature, features[feature.name]) for feature in layout),
        *_consistency_checks(features).values(),
    ]
    with _assertion(checks, "a number of a record"):
        return {
            name: tf.cast(value, tf.int32)
            if value.dtype == tf.int64
            else tf.identity(value)
            for name, value in features.items()
        }


def describe_fault(layout: layouts.Layout, record: bytes) -> str | None:
    """Say what makes `parse` refuse a record, as "has ..."; None: nothing."""
    try:
        features = _parse_padded(layout, tf.constant([record]))
    except tf.errors.InvalidArgumentError:
        with contextlib.suppress(ValueError):  # It may be no Example.
            needed = [f.name for f in layout if f.missing is None]
            if missing := sorted({*needed} - examples.decode(record).keys()):
                return f"lacks {', '.join(missing)}"
        described = ", ".join(_describe_feature(feature) for feature in layout)
        if any(feature.padding is not None for feature in layout):
            described += "; sequences have the same length"
        return f"has another layout. Each record must hold {described}"
    for feature in layout:
        values = features[feature.name].numpy().ravel()
        is_allowed = (values >= feature.low) & (values <= feature.high)
        if not is_allowed.all():
            return (
                f"has {feature.name} {values[~is_allowed][0]}; allowed are "
                f"{feature.low} to {feature.high}"
            )
    checks = _consistency_checks(features)
    return next((fault for fault, holds in checks.items() if not holds), None)


def _describe_feature(feature: layouts.Feature) -> str:
    """Return how many numbers of a feature a record may hold, for messages."""
    most = "" if feature.padding is None else "up to "
    return f"{most}{math.prod(feature.shape)} {feature.name}"


def _is_within(feature: layouts.Feature, value: tf.Tensor) -> tf.Tensor:
    if value.dtype == tf.int64:  # Half the time of comparing each number.
        lowest, highest = tf.reduce_min(value), tf.reduce_max(value)
        return (lowest >= feature.low) & (highest <= feature.high)
    # False for what is no number.
    return tf.reduce_all((value >= feature.low) & (value <= feature.high))


def _consistency_checks(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return whether a batch obeys each rule that compares several numbers.

    Each is bool []; its key is the message about a record that breaks the rule.
    """
    checks = {}
    if "input_mask" in features:
        mask = features["input_mask"]
        # RACE's mask is [batch, options, S].
        flat_mask = tf.reshape(mask, [tf.shape(mask)[0], -1])
        # The original fills its last batch with records without a token.
        is_real = features.get("is_real_example", 1)
        holds = tf.reduce_all(tf.reduce_max(flat_mask, 1) >= is_real)
        checks["has input_mask 0 everywhere"] = holds
        holds = tf.reduce_all(mask[..., 1:] <= mask[..., :-1])
        checks["has an input_mask with a gap"] = holds
    if {"input_mask", "masked_lm_positions"} <= features.keys():
        positions = features["masked_lm_positions"]
        is_predicted = features["masked_lm_weights"] > 0
        # Padding, 0 several times, becomes numbers that differ.
        fillers = -1 - tf.range(positions.shape[1], dtype=tf.int64)
        ordered = tf.sort(tf.where(is_predicted, positions, fillers), 1)
        holds = tf.reduce_all(ordered[:, 1:] > ordered[:, :-1])
        checks["has a number twice among masked_lm_positions"] = holds
        clipped = tf.clip_by_value(positions, 0, mask.shape[1] - 1)
        is_token = tf.gather(mask, clipped, batch_dims=1) > 0
        holds = tf.reduce_all(is_token | ~is_predicted)
        checks["has masked_lm_positions where input_mask is 0"] = holds
    return checks


def _parse_padded(
    layout: layouts.Layout, serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Parse records to int64 or float32 [batch, *shape], with padding."""
    specs = {
        feature.name: tf.io.FixedLenFeature(
            feature.shape,
            feature.dtype,
            None
            if feature.missing is None
            else np.full(feature.shape, feature.missing),
        )
        if feature.padding is None
        else tf.io.RaggedFeature(feature.dtype)
        for feature in layout
    }
    parsed = tf.io.parse_example(serialized, specs)
    length_of_shape: dict[tuple[int, ...], tf.Tensor] = {}
    checks = [True]
    for feature in layout:
        if feature.padding is None:
            continue
        count = parsed[feature.name].row_lengths()
        # The outputs of a teacher, float32, hold their padding.
        if feature.dtype == "int64":
            other = length_of_shape.setdefault(feature.shape, count)
            checks.append(tf.reduce_all(count == other))
        length = count // _num_sequences(feature)
        is_whole = length * _num_sequences(feature) == count
        is_allowed = (length > 0) & (length <= feature.shape[-1])
        checks.append(tf.reduce_all(is_whole & is_allowed))
    with _assertion(checks, "the numbers of a feature"):
        return {
            feature.name: parsed[feature.name]
            if feature.padding is None
            else _pad(feature, parsed[feature.name])
            for feature in layout
        }


def _assertion(
    checks: Sequence[Any], message: str
) -> contextlib.AbstractContextManager[None]:
    """Return a block that is computed if all checks, bool [], hold."""
    # One operation for all: each has a graph of its own.
    check = tf.debugging.Assert(tf.reduce_all(checks), [message])
    return tf.control_dependencies([check] if check is not None else [])


def _num_sequences(feature: layouts.Feature) -> int:
    return math.prod(feature.shape[:-1])


def _pad(feature: layouts.Feature, values: tf.RaggedTensor) -> tf.Tensor:
    """Return the sequences of each record in full length, [batch, *shape].

    In `values`, [batch, (values)], those of a record, all equally long, stand
    one behind the other.
    """
    limit = feature.shape[-1]
    num_sequences = _num_sequences(feature)
    lengths = values.row_lengths() // num_sequences
    if num_sequences > 1:
        lengths = tf.repeat(lengths, num_sequences)
    sequences = tf.RaggedTensor.from_row_lengths(
        values.flat_values, lengths, validate=False
    )
    padded = sequences.to_tensor(feature.padding, shape=[None, limit])
    return tf.reshape(padded, [-1, *feature.shape])
