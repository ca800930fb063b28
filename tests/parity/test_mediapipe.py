"""Our files in MediaPipe's tasks, against our answers: `make test-torch`."""

import re

import numpy as np
import pytest

from albert_tf.serving.formats import answer, id_model, mediapipe_model
from albert_tf.text import cleaning, tokenization, wordpiece_rules
from tests.albert_tf.serving import saved_services
from tests.albert_tf.serving.formats import test_answer
from tests.conftest import PARITY_ATOL

pytestmark = pytest.mark.torch
# What MediaPipe leaves out of cleaning, and what it cuts into other pieces.
VOCABULARIES = {
    "vocab_file": (
        "vocab.txt",
        lambda text: wordpiece_rules.clean_text(text, lower=True),
        re.compile(r"\S{101}"),
    ),
    "spm_model_file": (
        "spm.model",
        lambda text: cleaning.preprocess_text(text, lower=True),
        # At NUL its Python ends the text; "iii" has two best divisions here.
        re.compile(r"\d,|\0|iii"),
    ),
}
# The second one is longer than the model's sequences.
TEXTS = ["", "Ivo slept at the mill. " * 20, *test_answer.TEXTS]


def ask(path, kind, texts):
    from mediapipe.tasks.python import text
    from mediapipe.tasks.python.core import base_options

    base = base_options.BaseOptions(model_asset_path=path)
    if kind == "embedding":
        options = text.TextEmbedderOptions(base)
        with text.TextEmbedder.create_from_options(options) as task:
            return [task.embed(t).embeddings[0].embedding for t in texts]
    options = text.TextClassifierOptions(base)
    found = []
    with text.TextClassifier.create_from_options(options) as task:
        for each in texts:
            (head,) = task.classify(each).classifications
            scores = {c.category_name: c.score for c in head.categories}
            found.append([scores[label] for label in saved_services.LABELS])
    return found


@pytest.mark.parametrize("kind", ["embedding", "labels", "one label"])
@pytest.mark.parametrize("name", VOCABULARIES)
def test_answers_are_ours(tmp_path, monkeypatch, kind, name):
    file, clean, others = VOCABULARIES[name]
    vocabulary = tokenization.VocabularyOptions(
        **{name: str(test_answer.OWN / file)}
    )
    service = test_answer.make_service(kind, tokenization.load(vocabulary))
    model = id_model.IdModel(service, vocabulary)
    folder = tmp_path / "model"
    id_model.save(model, str(folder), mediapipe_model.FORMAT)
    monkeypatch.syspath_prepend(folder)
    entries = [{"text": text, "prompt": ""} for text in TEXTS]
    key = "embedding" if kind == "embedding" else "probabilities"
    wanted = np.array([a[key] for a in answer.Model(folder).answers(entries)])
    path = str(folder / "model.tflite")
    cleaned = [clean(text) for text in TEXTS]
    is_same = np.array([not others.search(text) for text in cleaned])
    is_plain = [text.isascii() and text.isprintable() for text in TEXTS]
    for texts, same in ((cleaned, is_same), (TEXTS, is_same & is_plain)):
        found = np.array(ask(path, kind, texts))
        assert sum(same) > 30
        np.testing.assert_allclose(found[same], wanted[same], atol=PARITY_ATOL)
    assert np.abs(found - wanted)[~is_same].max() > 100 * PARITY_ATOL
