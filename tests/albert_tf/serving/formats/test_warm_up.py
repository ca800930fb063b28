"""Requests for TensorFlow Serving, parsed by protobuf and run."""

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from albert_tf.serving.formats import warm_up

# TensorFlow Serving's messages, as far as a request needs them: name and
# number of each field, and its type, or the message it holds.
TEXT = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
MESSAGES = {
    "ModelSpec": [("name", 1, TEXT), ("signature_name", 3, TEXT)],
    "Entry": [("key", 1, TEXT), ("value", 2, "tensorflow.TensorProto")],
    "PredictRequest": [
        ("model_spec", 1, "serving.ModelSpec"),
        ("inputs", 2, "serving.Entry"),
    ],
    "PredictLog": [("request", 1, "serving.PredictRequest")],
    "PredictionLog": [("predict_log", 6, "serving.PredictLog")],
}


@pytest.fixture(scope="module")
def prediction_log():
    """The class of TensorFlow Serving's message `PredictionLog`."""
    file = descriptor_pb2.FileDescriptorProto(
        name="serving.proto",
        package="serving",
        dependency=["tensorflow/core/framework/tensor.proto"],
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            # A map is a list of entries; to parse, "several" fits all.
            added.label = added.LABEL_REPEATED
            added.type = MESSAGE if isinstance(kind, str) else kind
            if added.type == MESSAGE:
                added.type_name = f".{kind}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    found = pool.FindMessageTypeByName("serving.PredictionLog")
    return message_factory.GetMessageClass(found)


def parse(prediction_log, data):
    """Return signature and inputs of a serialized request."""
    log = prediction_log.FromString(data)
    ((request,),) = [entry.request for entry in log.predict_log]
    (model,) = request.model_spec
    inputs = {
        "".join(entry.key): tf.constant(tf.make_ndarray(entry.value[0]))
        for entry in request.inputs
    }
    # Nothing else is in the message: every byte was understood.
    assert log.SerializeToString() == data
    (signature,) = model.signature_name
    return signature, inputs


def test_messages_are_those_of_the_server(prediction_log):
    inputs = {"text": tf.constant(["é" * 100, ""]), "ids": tf.constant([[3]])}
    data = warm_up.encode("serving_default", inputs)
    signature, found = parse(prediction_log, data)
    assert signature == "serving_default"
    assert found.keys() == inputs.keys()
    for name, value in inputs.items():
        assert found[name].dtype == value.dtype
        assert found[name].numpy().tolist() == value.numpy().tolist()


def test_bytes_of_a_short_request():
    assert warm_up.encode("s", {}) == b"\x32\x07\x0a\x05\x0a\x03\x1a\x01s"


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_every_signature_of_a_saved_model_is_warmed_up(
    request, prediction_log, name
):
    saved = request.getfixturevalue(name)
    records = tf.data.TFRecordDataset(f"{saved.path}/{warm_up.PATH}")
    asked = []
    for record in records.as_numpy_iterator():
        signature, inputs = parse(prediction_log, record)
        assert saved.signatures[signature](**inputs)
        asked.append(signature)
    assert asked == sorted(saved.signatures)
