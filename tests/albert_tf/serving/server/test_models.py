"""SavedModels as a server loads them."""

import logging

import tensorflow as tf

from albert_tf.serving.server import models
from tests.conftest import refused


class Module(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def classify(self, words):
        return {"label": words}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, "word")])
    def one(self, word):
        return {"label": word}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "ids")])
    def choosy(self, ids):
        with tf.control_dependencies([tf.debugging.assert_positive(ids)]):
            return {"ids": tf.identity(ids)}


def save(path, *names):
    module = Module()
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, str(path), signatures=signatures)
    return str(path)


def test_signatures_that_json_can_ask_are_served(tmp_path, caplog):
    folder = save(tmp_path / "1", "classify", "one", "choosy")
    with caplog.at_level(logging.WARNING, logger="absl"):
        model = models.load("m", "1", folder)
    assert list(model.signatures) == ["choosy", "classify"]
    assert "the signature one is left out" in caplog.text
    assert "the signature choosy failed to warm up: " in caplog.text
    assert model.form is None  # It names its input otherwise.
    definition = model.definitions["classify"]
    assert definition["inputs"]["words"]["dtype"] == "DT_STRING"
    shape = definition["inputs"]["words"]["tensor_shape"]
    assert shape["dim"] == [{"size": "-1", "name": ""}]


def test_model_that_cannot_be_asked(tmp_path):
    folder = save(tmp_path / "1", "one")
    with refused("no signature that can be ask"):
        models.load("m", "1", folder)


def test_exports_have_a_form_and_are_warm(pretrained, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        model = models.load("m", "1", str(pretrained.path))
    assert not caplog.text
    assert model.signatures.keys() == pretrained.signatures.keys()
    assert model.form.signature == "fill_mask"
