"""What a SavedModel holds, and that it needs TensorFlow alone."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.formats import saved_model
from albert_tf.serving.services import encoder_service
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import ROOT

# What a SavedModel holds beside weights and vocabulary: the graphs of five
# signatures, each with two layers here. The graphs grow with the depth of the
# unrolled encoder, not with the size of its weights.
GRAPH_BYTES = 1_900_000


# Plain, and with [MASK] as a symbol; see `GraphTokenizer`. TensorFlow writes
# each of them twice: in the main graph and in the function that creates it.
VOCABULARY_COPIES = 4


# Loads a SavedModel where nothing but TensorFlow and TF Text can be imported,
# calls its signatures, and keeps what they say.
WITHOUT_PROJECT = """
import sys

BLOCKED = {"albert_tf", "data_prep", "tf_keras", "official", "sentencepiece"}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import numpy as np
import tensorflow as tf
import tensorflow_text
calls = {}
for key, value in np.load(sys.argv[1], allow_pickle=False).items():
    path, name, argument = key.split("|")
    calls.setdefault((path, name), {})[argument] = tf.constant(value)
models = {path: tf.saved_model.load(path) for path, _ in calls}
outputs = {}
for (path, name), arguments in calls.items():
    for key, value in models[path].signatures[name](**arguments).items():
        value = value.numpy()
        value = value.astype("S") if value.dtype == object else value
        outputs[f"{path}|{name}|{key}"] = value
np.savez(sys.argv[2], **outputs)
assert not BLOCKED & sys.modules.keys()
"""


# The files.


def test_answers_need_tensorflow_alone(request, tmp_path):
    calls = []
    for kind in saved_services.SAVED:
        saved = request.getfixturevalue(kind)
        for name, function in saved.signatures.items():
            arguments = {
                argument: example(argument)
                for argument in function.structured_input_signature[1]
            }
            if (kind, name) == ("of_choices", "tokens"):
                arguments = {
                    key: np.repeat(value[:, None], 4, 1)
                    for key, value in arguments.items()
                }
            calls.append((saved, name, arguments))
    ask(calls, tmp_path)


def type_of(values):
    """The type of what lies at the bottom of nested lists."""
    return type(np.asarray(values).flat[0].item())


def example(argument):
    values = {
        "text": saved_services.MASKED,
        "text_pair": saved_services.SECONDS,
        "article": saved_services.TEXTS,
        "question": saved_services.MASKED,
        "options": [["a", "b", "", "c d"]] * 3,
        "mlm_positions": [[1, 2], [0, 3], [4, 1]],
        "input_mask": [[1] * 6] * 3,
        "segment_ids": [[0, 0, 0, 1, 1, 1]] * 3,
        "input_ids": np.arange(18).reshape(3, 6) + 20,
    }[argument]
    return np.array(values, np.int32 if type_of(values) is int else None)


def ask(calls, folder):
    """Call signatures in a process of its own; compare with this one.

    Args:
        calls: Saved services, names of their signatures, and arguments.
    """
    values = {
        f"{saved.path}|{name}|{key}": value
        for saved, name, arguments in calls
        for key, value in arguments.items()
    }
    np.savez(folder / "arguments.npz", **values)
    subprocess.run(
        [sys.executable, "-c", WITHOUT_PROJECT, "arguments.npz", "answers.npz"],
        cwd=folder,
        # This package asks for Keras 2; a stranger would not.
        env={k: v for k, v in os.environ.items() if "KERAS" not in k},
        check=True,
        timeout=120,
    )
    answers = dict(np.load(folder / "answers.npz"))
    for saved, name, arguments in calls:
        own = saved.signatures[name](
            **{key: tf.constant(value) for key, value in arguments.items()}
        )
        for key, value in own.items():
            answer = answers.pop(f"{saved.path}|{name}|{key}")
            if value.dtype == tf.string:
                expected = value.numpy().astype("S")
                np.testing.assert_array_equal(answer, expected)
            else:
                saved_services.assert_close(answer, value)
    assert not answers


def size_of(folder):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", saved_services.SAVED)
def test_files_hold_little_beside_weights_and_vocabulary(
    request, tokenizer, name
):
    saved = request.getfixturevalue(name)
    weights = sum(4 * int(tf.size(v)) for v in saved.model.variables)
    vocabulary = VOCABULARY_COPIES * len(tokenizer.model_bytes)
    assert size_of(saved.path) <= 1.1 * weights + vocabulary + GRAPH_BYTES
    assert len(saved.loaded.weights) == len(saved.model.variables)


def test_layers_of_base_are_stored_once(tokenizer, tmp_path):
    """All but the words' table has the size of albert-base."""
    config = AlbertConfig(
        vocab_size=400,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
    )
    encoder = AlbertModel(config)
    service = encoder_service.EncoderService(
        encoder, tokenizer, saved_services.MAX_SEQ_LENGTH
    )
    saved_model.save(service, str(tmp_path / "model"))
    weights = sum(4 * int(tf.size(v)) for v in encoder.variables)
    vocabulary = len(tokenizer.model_bytes)
    assert size_of(tmp_path / "model") <= 1.1 * (weights + vocabulary)


def test_bfloat16_of_base_holds_little_beside_weights_and_vocabulary(
    shared_dir, tmp_path
):
    config = AlbertConfig.from_json_file(
        str(ROOT / "configs" / "models" / "albert_base_v2.json")
    )
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    tokenizer = tokenization.load(tokenization.VocabularyOptions(str(path)))
    encoder = AlbertModel(config, precision="bfloat16")
    weights = sum(2 * int(tf.size(v)) for v in encoder.variables)
    service = encoder_service.EncoderService(encoder, tokenizer, 128)
    service.freeze()
    saved_model.save(service, str(tmp_path / "model"))
    allowed = 1.1 * (weights + path.stat().st_size)
    assert size_of(tmp_path / "model") <= allowed


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_without_text_nothing_of_tensorflow_text_is_needed(
    request, tmp_path, name
):
    saved = request.getfixturevalue(name)
    path = str(tmp_path / "model")
    saved_model.save(saved.service, path, with_text=False)
    script = """
import sys
sys.modules["tensorflow_text"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
assert "tokens" in model.signatures, model.signatures
assert "serving_default" not in model.signatures, model.signatures
"""
    subprocess.run(
        [sys.executable, "-c", script, path],
        env={k: v for k, v in os.environ.items() if "KERAS" not in k},
        check=True,
        timeout=120,
    )
    loaded = tf.saved_model.load(path)
    sample = saved.service.samples()["tokens"]
    answers = loaded.signatures["tokens"](**sample)
    for key, value in saved.signatures["tokens"](**sample).items():
        saved_services.assert_close(answers[key], value)
