"""Requests for TensorFlow Serving, taken apart by protobuf and run."""

import pytest
import tensorflow as tf
from google.protobuf import empty_pb2, unknown_fields
from tensorflow.core.framework import tensor_pb2

from albert_tf.serving.formats import saved_model


def fields(data):
    """Number and content of each field of a message."""
    message = empty_pb2.Empty.FromString(data)
    found = unknown_fields.UnknownFieldSet(message)
    return [(field.field_number, field.data) for field in found]


def parse(data):
    """Signature and inputs, by the numbers in TensorFlow Serving's messages.

    PredictionLog.predict_log = 6, PredictLog.request = 1,
    PredictRequest.model_spec = 1 and .inputs = 2, ModelSpec.signature_name = 3;
    an entry of a map: key = 1, value = 2.
    """
    ((six, log),) = fields(data)
    ((one, request),) = fields(log)
    (spec_number, spec), *entries = fields(request)
    ((three, signature),) = fields(spec)
    assert (six, one, spec_number, three) == (6, 1, 1, 3)
    inputs = {}
    for two, entry in entries:
        (key, name), (value, tensor) = fields(entry)
        assert (two, key, value) == (2, 1, 2)
        message = tensor_pb2.TensorProto.FromString(tensor)
        inputs[name.decode()] = tf.constant(tf.make_ndarray(message))
    return signature.decode(), inputs


def test_messages_are_those_of_the_server():
    inputs = {"text": tf.constant(["é" * 100, ""]), "ids": tf.constant([[3]])}
    data = saved_model.encode_request("serving_default", inputs)
    signature, found = parse(data)
    assert signature == "serving_default"
    assert found.keys() == inputs.keys()
    for name, value in inputs.items():
        assert found[name].dtype == value.dtype
        assert found[name].numpy().tolist() == value.numpy().tolist()
    for size in (*range(100, 140), 20_000):  # Lengths of one to three bytes.
        assert parse(saved_model.encode_request("s" * size, {})) == (
            "s" * size,
            {},
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_every_signature_of_a_saved_model_is_warmed_up(request, name):
    saved = request.getfixturevalue(name)
    records = tf.data.TFRecordDataset(
        f"{saved.path}/{saved_model.REQUESTS_NAME}"
    )
    asked = []
    for record in records.as_numpy_iterator():
        signature, inputs = parse(record)
        assert saved.signatures[signature](**inputs)
        asked.append(signature)
    assert asked == sorted(saved.signatures)
