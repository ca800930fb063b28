"""Read `tf.train.Example` messages without TensorFlow.

Source: example.proto and feature.proto of TensorFlow.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from google.protobuf.message import DecodeError

from albert_tf.data import layouts

_LIST = """message_type { name: "%s" field {
    name: "value" number: 1 label: LABEL_REPEATED type: %s } }
"""
_FIELD = """field { name: "%s" number: %d label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".tensorflow.%s" %s }
"""
_MESSAGES = f"""
name: "example" package: "tensorflow" syntax: "proto3"
{_LIST % ("BytesList", "TYPE_BYTES")}
{_LIST % ("FloatList", "TYPE_FLOAT")} {_LIST % ("Int64List", "TYPE_INT64")}
message_type {{ name: "Feature" oneof_decl {{ name: "kind" }}
    {_FIELD % ("bytes_list", 1, "BytesList", "oneof_index: 0")}
    {_FIELD % ("float_list", 2, "FloatList", "oneof_index: 0")}
    {_FIELD % ("int64_list", 3, "Int64List", "oneof_index: 0")} }}
message_type {{ name: "Features"
    nested_type {{ name: "FeatureEntry" options {{ map_entry: true }}
        field {{ name: "key" number: 1 label: LABEL_OPTIONAL
            type: TYPE_STRING }}
        {_FIELD % ("value", 2, "Feature", "")} }}
    field {{ name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
        type_name: ".tensorflow.Features.FeatureEntry" }} }}
message_type {{ name: "Example" {_FIELD % ("features", 1, "Features", "")} }}
"""
_KINDS = {"int64": "int64_list", "float32": "float_list"}
_DTYPES = {kind: dtype for dtype, kind in _KINDS.items()}
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(text_format.Parse(_MESSAGES, descriptor_pb2.FileDescriptorProto()))
_Example: Any = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName("tensorflow.Example")
)


def decode(message: bytes) -> dict[str, Any]:
    """Return the features of a record.

    Returns:
        By name, int64 or float32 [num_values], or a list of bytes.

    Raises:
        ValueError: It is not a `tf.train.Example`.
    """
    features: dict[str, Any] = {}
    for name, feature in _parse(message).items():
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else []
        dtype = _DTYPES.get(kind)
        features[name] = (
            np.array(list(values), dtype) if dtype else list(values)
        )
    return features


def decode_batch(
    layout: layouts.Layout, messages: Sequence[bytes]
) -> dict[str, np.ndarray]:
    """Return the features of a layout in many records.

    Returns:
        By feature name, int32 or float32 [n, *shape].

    Raises:
        ValueError: A record is not a `tf.train.Example`, or lacks a feature, or
            has another number or kind of values in it, or one that is not
            allowed.
    """
    records = [_parse(message) for message in messages]
    return {
        feature.name: _decode_column(feature, records) for feature in layout
    }


def _decode_column(
    feature: layouts.Feature, records: Sequence[Mapping[str, Any]]
) -> np.ndarray:
    """Return a feature of all records, int32 or float32 [n, *shape]."""
    name, kind, count = feature.name, feature.dtype, math.prod(feature.shape)
    rows = [getattr(record[name], _KINDS[kind]).value for record in records]
    for row in rows:
        if len(row) != count:
            raise ValueError(
                f"{name} has {len(row)} numbers of type {kind}, not {count}"
            )
    flat = np.fromiter(itertools.chain.from_iterable(rows), kind)
    numbers = flat.reshape(len(records), *feature.shape)
    if kind == "float32":
        return numbers
    wrong = numbers[(numbers < feature.low) | (numbers > feature.high)]
    if wrong.size:
        raise ValueError(f"{name} has the number {wrong[0]}")
    return numbers.astype(np.int32)


def _parse(message: bytes) -> Mapping[str, Any]:
    try:
        example = _Example.FromString(message)
    except DecodeError as error:
        raise ValueError("it is not a tf.train.Example") from error
    features: Mapping[str, Any] = example.features.feature
    return features
