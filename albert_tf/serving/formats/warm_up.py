"""Requests that TensorFlow Serving runs when it has loaded a SavedModel.

The first request of each kind is slow, because TensorFlow prepares its graph
then. The server takes these requests first, so that no user has to wait.

The messages are written field by field: they need six fields of four messages,
and the package that defines them, tensorflow-serving-api, is not needed here.

Sources: TensorFlow Serving's guide "SavedModel Warmup"; its messages
prediction_log.proto, predict.proto and model.proto.
"""

import os
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.data import tfrecord

# The path in the folder of a SavedModel.
PATH = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Numbers of fields.
_LOG_PREDICT, _PREDICT_REQUEST = 6, 1  # PredictionLog, PredictLog
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2  # PredictRequest
_MODEL_SIGNATURE = 3  # ModelSpec
_KEY, _VALUE = 1, 2  # An entry of any map.


def write(folder: str, samples: Mapping[str, Mapping[str, tf.Tensor]]) -> None:
    """Write one request for each signature into the folder of a SavedModel."""
    path = os.path.join(folder, PATH)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in sorted(samples.items()):
            writer.write(encode(signature, inputs))


def encode(signature: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    """Return a serialized `PredictionLog` with one request to a signature."""
    request = _field(
        _REQUEST_MODEL, _field(_MODEL_SIGNATURE, signature.encode())
    )
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        entry = _field(_KEY, name.encode()) + _field(_VALUE, tensor)
        request += _field(_REQUEST_INPUTS, entry)
    return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    r"""Return a field of a message: tag, length, content.

    Source: protobuf.dev/programming-guides/encoding.

    Example:
        _field(1, b"ab") = b"\x0a\x02ab"
    """
    # The 2 stands for "a length, and so many bytes".
    return bytes([number << 3 | 2]) + tfrecord.varint(len(content)) + content
