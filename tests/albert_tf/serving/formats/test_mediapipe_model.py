"""The file for MediaPipe without it; in it: tests/parity/test_mediapipe.py."""

import types
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.tools import flatbuffer_utils

from albert_tf.serving.formats import id_model, mediapipe_model
from albert_tf.serving.services import service
from albert_tf.text import tokenization
from tests.albert_tf.serving.formats import id_services, test_answer
from tests.conftest import PARITY_ATOL, refused

FORM = mediapipe_model.FORMAT

WINDOWS = "max of windows"


def make_model(kind="labels", **options):
    vocabulary = tokenization.VocabularyOptions(
        vocab_file=str(test_answer.OWN / "vocab.txt"), **options
    )
    served = test_answer.make_service(kind, tokenization.load(vocabulary))
    return id_model.IdModel(served, vocabulary)


def test_one_file_has_everything(tmp_path):
    """Sequences that are too long are cut as texts are."""
    model = make_model()
    content = id_services.save(model, FORM, tmp_path)
    path = str(tmp_path / "model" / "model.tflite")
    with zipfile.ZipFile(path) as archive:
        packed = {i.filename: archive.read(i) for i in archive.infolist()}
        # Android maps the files into memory.
        assert not any(i.compress_type for i in archive.infolist())
    labels = "\n".join(model.service.labels).encode()
    vocabulary = (test_answer.OWN / "vocab.txt").read_bytes()
    assert packed == {"vocab.txt": vocabulary, "labels.txt": labels}
    network = flatbuffer_utils.read_model(path)
    assert len(network.subgraphs) == len(network.subgraphs[0].outputs) == 1
    assert network.metadata[-1].name == b"TFLITE_METADATA"
    assert id_services.save(make_model(), FORM, tmp_path / "again") == content
    ids = np.array([[2, *range(20, 20 + test_answer.LENGTH), 3]], np.int32)
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    given = dict(zip(service.IDS, (ids, ones, zeros), strict=True))
    found = FORM.open(path)("tokens", given)["probabilities"]
    cut = np.delete(ids, [-2, -3], axis=1)
    ones, zeros = np.ones_like(cut), np.zeros_like(cut)
    wanted = model.service.tokens(*map(tf.constant, (cut, ones, zeros)))
    np.testing.assert_allclose(found, wanted["probabilities"], atol=PARITY_ATOL)


@pytest.mark.parametrize("kind", ["pair", "regression", "pretraining"])
def test_services_that_it_has_no_task_for_are_refused(tmp_path, kind):
    with refused("that give a single text"):
        id_model.save(make_model(kind), str(tmp_path / "model"), FORM)


@pytest.mark.parametrize(
    "change",
    [{"do_lower_case": False}, {"keep_accents": True}, {"kind": WINDOWS}],
)
def test_texts_that_it_reads_otherwise_are_refused(tmp_path, change):
    model = make_model(**change)
    with refused("models that lower-case texts"):
        id_model.save(model, str(tmp_path / "model"), FORM)


def test_an_app_writes_prompts_itself(caplog):
    given = {"app_output": "embedding", "texts": ("text",)}
    options = {"prompts": {"query": "query: "}}
    served = types.SimpleNamespace(**given, text_options=options)
    mediapipe_model._functions(served)
    assert "to write it there itself: {'query': 'query: '}" in caplog.text
