"""What a SavedModel holds, and that it needs TensorFlow alone."""

import errno
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.formats import saved_model
from tests.albert_tf.serving import saved_services
from tests.conftest import python

# What a SavedModel holds beside weights and vocabulary: the graphs of five
# signatures, each with two layers here. The graphs grow with the depth of the
# unrolled encoder, not with the size of its weights.
GRAPH_BYTES = 1_900_000


# Plain, and with [MASK] as a symbol; see `GraphTokenizer`. TensorFlow writes
# each of them twice: in the main graph and in the function that creates it.
VOCABULARY_COPIES = 4


# Not the same in each row.
TEXTS = {
    ("pretrained", "serving_default"): {"text": saved_services.TEXTS},
    ("pretrained", "fill_mask"): {"text": saved_services.MASKED},
    ("of_pairs", "serving_default"): {
        "text": saved_services.TEXTS,
        "text_pair": saved_services.SECONDS,
    },
    ("of_numbers", "serving_default"): {"text": saved_services.TEXTS},
    ("of_choices", "serving_default"): {
        "article": saved_services.TEXTS,
        "question": ["Why?", "In _ and _.", "_"],
    },
}
# Loads a SavedModel where nothing but TensorFlow and TF Text can be imported,
# calls its signatures, and keeps what they say.
PROJECT = "albert_tf data_prep tf_keras official sentencepiece"
STRANGER = """
import sys

BLOCKED = set(sys.argv[3].split())

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
if "tensorflow_text" not in BLOCKED:
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


@pytest.mark.slow
def test_answers_need_tensorflow_alone(request, tmp_path):
    calls = []
    for kind in saved_services.SAVED:
        saved = request.getfixturevalue(kind)
        for name, arguments in saved.service.samples().items():
            rows = {
                key: value.numpy().repeat(3, 0)
                for key, value in arguments.items()
            }
            calls.append((saved, name, rows | TEXTS.get((kind, name), {})))
    ask(calls, tmp_path)


def plain(values):
    """An array that is stored without pickles."""
    array = np.asarray(values)
    return array.astype("S") if array.dtype == object else array


def ask(calls, folder, blocked=PROJECT):
    """Call signatures in a process of its own; compare with this one.

    Args:
        calls: Saved services, names of their signatures, and arguments.
    """
    values = {
        f"{saved.path}|{name}|{key}": plain(value)
        for saved, name, arguments in calls
        for key, value in arguments.items()
    }
    np.savez(folder / "arguments.npz", **values)
    names = "arguments.npz", "answers.npz", blocked
    # This package asks for Keras 2; a stranger would not.
    own = {k: v for k, v in os.environ.items() if "KERAS" not in k}
    done = python("-c", STRANGER, *names, cwd=folder, env=own)
    # What TensorFlow says of graphs whose shapes it cannot tell.
    assert "PredictCost" not in done.stderr
    answers = dict(np.load(folder / "answers.npz"))
    for saved, name, arguments in calls:
        own = saved.signatures[name](
            **{key: tf.constant(value) for key, value in arguments.items()}
        )
        for key, value in own.items():
            answer = answers.pop(f"{saved.path}|{name}|{key}")
            if value.dtype == tf.string:
                np.testing.assert_array_equal(answer, plain(value))
            else:
                saved_services.assert_close(answer, value)
    assert not answers


def size_of(folder):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_files_hold_little_beside_weights_and_vocabulary(
    request, tokenizer, name
):
    saved = request.getfixturevalue(name)
    weights = sum(4 * int(tf.size(v)) for v in saved.model.variables)
    vocabulary = VOCABULARY_COPIES * len(tokenizer.model_bytes)
    assert size_of(saved.path) <= 1.1 * weights + vocabulary + GRAPH_BYTES
    assert len(saved.loaded.weights) == len(saved.model.variables)


def test_without_text_nothing_of_tensorflow_text_is_needed(
    of_choices, tmp_path
):
    path = tmp_path / "model"
    saved_model.save(of_choices.service, str(path), with_text=False)
    signatures = tf.saved_model.load(str(path)).signatures
    assert set(signatures) == {"tokens"}
    ids = of_choices.service.samples()["tokens"]
    saved = types.SimpleNamespace(path=path, signatures=of_choices.signatures)
    ask([(saved, "tokens", ids)], tmp_path, f"{PROJECT} tensorflow_text")


NO_ROOM = "No space left on device"


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError(errno.ENOSPC, NO_ROOM), OSError, "bytes are free.*model"),
        (
            tf.errors.ResourceExhaustedError(None, None, NO_ROOM),
            OSError,
            "bytes are free.*model",
        ),
        (
            tf.errors.InvalidArgumentError(None, None, "a shape"),
            tf.errors.InvalidArgumentError,
            "a shape",
        ),
    ],
)
def test_full_disk_is_named(tmp_path, monkeypatch, error, raised, message):
    def fail(root, folder, **_):
        raise error

    monkeypatch.setattr(tf.saved_model, "save", fail)
    empty = types.SimpleNamespace(functions={}, tokenizer=tf.Module())
    with pytest.raises(raised, match=message) as found:
        saved_model.save(empty, str(tmp_path / "model"))
    if raised is OSError:
        assert found.value.errno == errno.ENOSPC
