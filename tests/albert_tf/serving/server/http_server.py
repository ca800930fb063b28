"""A server in a thread, with models that are functions."""

import contextlib
import http.client
import json
import threading

import numpy as np
import tensorflow as tf

from albert_tf import serve
from albert_tf.serving.client import ask as client
from albert_tf.serving.client import views
from albert_tf.serving.server import app, batching, models, process

LIMITS = batching.Limits(batch_size=4, max_waiting=8)
MAX_BYTES = 10_000
IDS = tf.TensorSpec([None, None], tf.int32)


class Signature:
    """Asks a function of arrays."""

    inputs = client.Signature.inputs

    def __init__(self, function, outputs, **specs):
        self.compute, self.outputs, self.specs = function, outputs, specs


def texts(*inner):
    return tf.TensorSpec([None, *inner], tf.string)


def classify(inputs):
    """A text that is equal to its pair is `same`."""
    same = inputs["text"] == inputs["text_pair"]
    label = np.where(same, "same", "other").astype("O")
    label = np.array([text.encode() for text in label], "O")
    labels = np.array([[b"same", b"other"]] * len(label), "O")
    probabilities = np.stack([same, ~same], 1).astype(np.float32)
    return {"label": label, "labels": labels, "probabilities": probabilities}


def measure(inputs):
    """The length of a text; one that is too long is an error."""
    lengths = np.array([len(text) for text in inputs["text"]], np.int32)
    if lengths.max() > 99:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "Graph\n<stack>\nlength is not in [0, 99]\n\t [[{{node}}",
        )
    return {"length": lengths}


def add(inputs):
    return {"sums": inputs["ids"].sum(1), "ids": inputs["ids"]}


def make_model(name="m", **signatures):
    signatures = signatures or {
        "serving_default": Signature(
            classify,
            ["label", "labels", "probabilities"],
            text=texts(),
            text_pair=texts(),
        ),
        "measure": Signature(measure, ["length"], text=texts()),
        "add": Signature(add, ["ids", "sums"], ids=IDS),
        "mask": Signature(dict, ["input_mask"], input_mask=IDS),
    }
    definitions = {key: {"method_name": key} for key in signatures}
    form = views.find(signatures)
    return models.ServedModel(name, "7", signatures, form, definitions)


def make_app(*served, limits=LIMITS, hosts=()):
    return app.make(served or [make_model()], limits, MAX_BYTES, hosts)


@contextlib.contextmanager
def running(whole, farewell=0.0):
    """Serve until the end of the block; gives the server and its port."""
    server = process.Server(whole)
    server.farewell_seconds = farewell
    with serve.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield server, port
        finally:
            server.handle_exit(15, None)
            thread.join()


def fetch(port, method, path, body=None, **headers):
    """Status, headers and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def ask(port, path, body, **headers):
    """Status and JSON of the answer to a request."""
    status, _, content = fetch(port, "POST", path, body, **headers)
    return status, json.loads(content)
