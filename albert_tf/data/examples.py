"""Read `tf.train.Example` messages without TensorFlow.

protobuf finds the features, NumPy decodes their numbers. The numbers must be
packed, as TensorFlow and `tfrecord.encode_batch` write them.

Source: example.proto and feature.proto of TensorFlow. The lists of numbers are
declared as bytes here, which have the same encoding as packed numbers.
"""

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
    name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
"""
_FIELD = """field { name: "%s" number: %d label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".tensorflow.%s" %s }
"""
_MESSAGES = f"""
name: "example" package: "tensorflow" syntax: "proto3"
{_LIST % "BytesList"} {_LIST % "FloatList"} {_LIST % "Int64List"}
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
_LONGEST_VARINT = 10  # Bytes.


def _make_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    description = descriptor_pb2.FileDescriptorProto()
    pool.Add(text_format.Parse(_MESSAGES, description))
    descriptor = pool.FindMessageTypeByName("tensorflow.Example")
    return message_factory.GetMessageClass(descriptor)


_Example = _make_class()


def decode(message: bytes) -> dict[str, Any]:
    """Return the features of a record.

    Returns:
        By name, int64 or float32 [numbers], or a list of bytes.

    Raises:
        ValueError: It is not a `tf.train.Example`.
    """
    found: dict[str, Any] = {}
    for name, feature in _features(message).items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "int64_list":
            found[name] = _integers(b"".join(values))
        elif kind == "float_list":
            found[name] = _floats(b"".join(values))
        else:
            found[name] = values
    return found


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
    records = [_features(message) for message in messages]
    return {
        feature.name: _decode_column(feature, records) for feature in layout
    }


def _decode_column(
    feature: layouts.Feature, records: Sequence[Mapping[str, Any]]
) -> np.ndarray:
    is_integer = feature.dtype == "int64"
    decode = _integers if is_integer else _floats
    wanted = int(np.prod(feature.shape))
    payloads = []
    for record in records:
        values = getattr(record[feature.name], _KINDS[feature.dtype]).value
        payload = b"".join(values)
        size = _count_integers(payload) if is_integer else len(payload) // 4
        if size != wanted:
            raise ValueError(
                f"{feature.name} has {size} numbers of type {feature.dtype}, "
                f"not {wanted}"
            )
        payloads.append(payload)
    numbers = decode(b"".join(payloads)).reshape(len(records), *feature.shape)
    if not is_integer:
        return numbers
    wrong = numbers[(numbers < feature.low) | (numbers > feature.high)]
    if wrong.size:
        raise ValueError(f"{feature.name} has the number {wrong[0]}")
    return numbers.astype(np.int32)


def _features(message: bytes) -> Mapping[str, Any]:
    try:
        features: Mapping[str, Any] = _Example.FromString(
            message
        ).features.feature
    except DecodeError as error:
        raise ValueError("it is not a tf.train.Example") from error
    return features


def _floats(content: bytes) -> np.ndarray:
    if len(content) % 4:
        raise ValueError("a float is cut short")
    return np.frombuffer(content, "<f4")


def _count_integers(content: bytes) -> int:
    encoded = np.frombuffer(content, np.uint8)
    return int(np.count_nonzero(encoded < 0x80))


def _integers(content: bytes) -> np.ndarray:
    r"""Decode varints: seven bits a byte, the lowest first.

    Example:
        b"\x05\xac\x02" gives [5, 300]

    Returns:
        int64 [numbers].

    Raises:
        ValueError: The last one is cut short, or one is too long.
    """
    encoded = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(encoded < 0x80) + 1
    if len(encoded) and (not len(ends) or ends[-1] != len(encoded)):
        raise ValueError("an integer is cut short")
    lengths = np.diff(ends, prepend=0)
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST_VARINT:
        raise ValueError("an integer is too long")
    starts = ends - lengths
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(longest):
        longer = np.flatnonzero(lengths > place)
        bits = encoded[starts[longer] + place].astype(np.uint64)
        numbers[longer] |= (bits & np.uint64(0x7F)) << np.uint64(7 * place)
    return numbers.view(np.int64)
