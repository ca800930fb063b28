"""Services to SavedModels, with requests to warm up TensorFlow Serving.

The first request of each kind is slow, because TensorFlow prepares its graph
then. The server takes these requests first, when it has loaded a model, so that
no user has to wait. Their messages are written field by field: they need six
fields of four messages, and the package that defines them,
tensorflow-serving-api, is not needed here.

Sources: TensorFlow Serving's guide "SavedModel Warmup"; its messages
prediction_log.proto, predict.proto and model.proto.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.common import files
from albert_tf.data import tfrecord
from albert_tf.serving.services import service

# The requests in the folder of a SavedModel.
REQUESTS_NAME = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Numbers of fields.
_LOG_PREDICT, _PREDICT_REQUEST = 6, 1  # PredictionLog, PredictLog
_REQUEST_MODEL, _REQUEST_INPUTS = 1, 2  # PredictRequest
_MODEL_SIGNATURE = 3  # ModelSpec
_KEY, _VALUE = 1, 2  # An entry of any map.


def _variables(signatures: dict[str, Any]) -> Iterable[tf.Variable]:
    """Return all variables that signatures use, each once, by their names."""
    variables: dict[Any, tf.Variable] = {}
    for function in signatures.values():
        for variable in function.variables:
            variables.setdefault(variable.ref(), variable)
    # TensorFlow keeps a function's in sets: their order changes.
    return sorted(variables.values(), key=lambda variable: variable.name)


def save(served: service.Service, path: str, *, with_text: bool = True) -> None:
    """Write a SavedModel.

    Args:
        with_text: Whether to include the tokenizer and the signatures that
            take text. Without them no operation of tensorflow_text is used.
    """
    functions = served.functions if with_text else service.id_functions(served)
    # TensorFlow would trace a tf.function a second time.
    signatures = {
        name: function.get_concrete_function()
        for name, function in functions.items()
    }
    root = tf.Module()
    # Not the Keras model, which would bring its own functions, and variables
    # that a converted encoder does not use any more.
    root.weights = list(_variables(signatures))
    if with_text:
        root.tokenizer = served.tokenizer
    with files.name_full_disk(path):
        tf.saved_model.save(root, path, signatures=signatures)
        requests = os.path.join(path, REQUESTS_NAME)
        os.makedirs(os.path.dirname(requests), exist_ok=True)
        samples = served.samples()
        with tf.io.TFRecordWriter(requests) as writer:
            for name in sorted(signatures):
                writer.write(encode_request(name, samples[name]))


def encode_request(signature: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
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
