"""Both formats: every kind of model against the live one, and the folder."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.formats import id_model, lite_model, onnx_model
from albert_tf.serving.services import encoder_service, service
from tests.albert_tf.serving import saved_services
from tests.albert_tf.serving.formats import id_services
from tests.conftest import python, refused

FORMS = {form.name: form for form in (lite_model.FORMAT, onnx_model.FORMAT)}
# The same network, written by another compiler.
FLOAT_ATOL = 1e-4
# Of the outputs of the encoder, whose entries are about 1: eight bits for
# kernels and for what is multiplied with them.
INT8_ATOL = 0.2


# Answers in a process that has NumPy and the runtime, nothing of this project.
STRANGER = """
import sys
for name in sys.argv[3].split():
    sys.modules[name] = None
import numpy as np

inputs, outputs = sys.argv[1:3]
calls = {}
for key, value in np.load(inputs).items():
    path, name, number, argument = key.split("|")
    calls.setdefault((path, name, number), {})[argument] = value

def ask(path, name, arguments):
    if path.endswith(".tflite"):
        from ai_edge_litert import interpreter
        model = interpreter.Interpreter(path)
        return model.get_signature_runner(name)(**arguments)
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, arguments)))

answers = {}
for (path, name, number), arguments in calls.items():
    for output, value in ask(path, name, arguments).items():
        answers[f"{path}|{name}|{number}|{output}"] = value
np.savez(outputs, **answers)
"""
BLOCKED = (
    "albert_tf data_prep official onnx sentencepiece tensorflow "
    "tensorflow_text tf2onnx tf_keras"
)


@pytest.fixture(scope="module", params=FORMS)
def form(request):
    """A format."""
    return FORMS[request.param]


def make_inputs(function, rows, length, vocab_size):
    """Random sequences; the last one has padding."""
    generator = np.random.default_rng(rows)
    largest = {"input_ids": vocab_size, "mlm_positions": length}
    inputs = {}
    for spec in function.input_signature:
        shape = [rows, *spec.shape[1:-1], length]
        inputs[spec.name] = generator.integers(
            largest.get(spec.name, 2), size=shape, dtype=np.int32
        )
    inputs["input_mask"][:] = 1
    inputs["input_mask"][-1, ..., length // 2 :] = 0
    if "p_mask" in inputs:  # Nearly everywhere may be answers: no ties.
        inputs["p_mask"][:, 2:] = 0
    return inputs


@pytest.mark.parametrize(
    "kinds",
    [
        ["pretraining", "classifier", "squad 2.0", "race"],
        ["encoder", "embedding", "tagging", "regression", "squad 1.1"],
    ],
)
@pytest.mark.slow
def test_a_stranger_gets_the_answers_of_the_live_model(
    form, kinds, tiny_vocab, tmp_path
):
    """All outputs of all functions of every kind: shapes, dtypes, values."""
    inputs, wanted = {}, {}
    for kind in kinds:
        model = id_services.make_model(kind, tiny_vocab)
        id_model.save(model, str(tmp_path / kind), form)
        vocab_size = model.service.encoder.config.vocab_size
        for name, function in form.functions(model.service).items():
            # Batch and length are none of those that it was tried with.
            for number, size in enumerate(((1, 12), (3, 17))):
                given = make_inputs(function, *size, vocab_size)
                outputs = function(*map(tf.constant, given.values()))
                call = f"{kind}/{form.file_name}|{name}|{number}|"
                inputs |= {call + key: value for key, value in given.items()}
                wanted |= {call + key: x for key, x in outputs.items()}
    np.savez(tmp_path / "inputs.npz", **inputs)
    names = "inputs.npz", "found.npz", BLOCKED
    python("-c", STRANGER, *names, cwd=tmp_path)
    with np.load(tmp_path / "found.npz") as found:
        assert set(found.files) == wanted.keys()
        for key, value in wanted.items():
            assert found[key].dtype == value.dtype.as_numpy_dtype, key
            assert found[key].shape == value.shape, key
            np.testing.assert_allclose(
                found[key], value, rtol=0, atol=FLOAT_ATOL, err_msg=key
            )


def test_shared_layers_are_stored_once(form, tiny_vocab, tmp_path):
    model = id_services.make_model("encoder", tiny_vocab, **id_services.WIDE)
    content = id_services.save(model, form, tmp_path)
    assert len(content) < 1.1 * 4 * id_services.count_parameters(model)


def test_differences_are_the_largest_to_either_side():
    @tf.function(input_signature=[tf.TensorSpec([None, None], name="x")])
    def function(x):
        return {"b": x, "a": -2 * x, "n": tf.range(3)}

    x = np.array([[1, 2], [3, 4]], np.float32)
    answers = {"a": -2 * x + [[0, 0.5], [0, 0.25]], "b": x - [[0, 0], [3, 1]]}
    found = id_model.differences(function, {"x": x}, answers)
    assert found == {"a": 0.5, "b": 3.0}


@pytest.fixture(scope="module")
def saved(form, tiny_vocab, tmp_path_factory):
    """A classifier in 8 bits, its folder, and the description returned."""
    model = id_services.make_model("classifier", tiny_vocab, "int8")
    path = tmp_path_factory.mktemp(form.name) / "model"
    return model, path, id_model.save(model, str(path), form)


def test_folder_says_how_to_use_it(form, saved, tiny_vocab, tiny_tokenizer):
    model, path, returned = saved
    assert {file.name for file in path.iterdir()} == {
        form.file_name,
        id_model.DESCRIPTION_NAME,
        "answer.py",
        "answer_text.py",
        "cleaning.py",
        "overlaps.py",
        "probabilities.py",
        "spm.model",
        "spm.normalization.json",
    }
    assert [file.name for file in path.parent.iterdir()] == ["model"]
    with open(tiny_vocab, "rb") as stream:
        assert (path / "spm.model").read_bytes() == stream.read()
    description = json.loads((path / id_model.DESCRIPTION_NAME).read_text())
    assert description == returned
    digests = description.pop("sha256")
    assert digests.keys() == {form.file_name, "spm.model"}
    (function,) = description.pop("functions").values()
    far = function.pop("largest_difference")
    ids = {"dtype": "int32", "shape": [None, None]}
    floats = {
        "sequence_output": [None, None, 16],
        "pooled_output": [None, 16],
        "logits": [None, 3],
        "probabilities": [None, 3],
    }
    assert function == {
        "inputs": dict.fromkeys(service.IDS, ids),
        "outputs": {
            name: {"dtype": "float32", "shape": shape}
            for name, shape in floats.items()
        },
    }
    assert far.keys() == floats.keys()
    # Rounded, but the same network.
    assert 1e-4 < far["sequence_output"] < INT8_ATOL
    assert description == {
        "format": form.name,
        "precision": "int8",
        "service": "ClassifierService",
        "decoder": {
            "module": "answer_text",
            "outputs": ["probabilities", "layers"],
        },
        "max_positions": 64,
        "max_seq_length": 64,
        "texts": ["text", "text_pair"],
        "read_whole": None,
        "labels": list(saved_services.LABELS),
        "special_ids": {
            "pad": tiny_tokenizer.pad_id,
            "unk": tiny_tokenizer.unk_id,
            "cls": tiny_tokenizer.cls_id,
            "sep": tiny_tokenizer.sep_id,
            "mask": tiny_tokenizer.mask_id,
        },
        "vocabulary": {
            "spm_model_file": "spm.model",
            "do_lower_case": True,
            "keep_accents": False,
            "strip_spurious_marker": False,
            "replaced_ids": {
                str(id_): list(new)
                for id_, new in tiny_tokenizer.digit_comma_ids.items()
            },
        },
        "options": {"learned": "yes"},
    }


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("tagging", "answer_tagging offsets overlaps wordpiece_rules"),
        ("squad 1.1", "answer_squad offsets overlaps"),
        ("race", "answer_race"),
    ],
)
def test_a_folder_has_what_its_task_needs(kind, parts, tiny_vocab, tmp_path):
    model = id_services.make_model(kind, tiny_vocab)
    id_model.save(model, str(tmp_path / "model"), lite_model.FORMAT)
    names = {file.stem for file in (tmp_path / "model").glob("*.py")}
    shared = {"answer", "cleaning", "probabilities"}
    assert names - {"words"} == {*parts.split(), *shared}


def test_too_long_sequences_get_no_answer(form, saved):
    model, path, _ = saved
    (function,) = form.functions(model.service).values()
    inputs = make_inputs(function, 1, 65, 400)
    said = {"litert": "failed to reshape", "onnx": "by 65"}[form.name]
    with pytest.raises(Exception, match=said):
        form.open(str(path / form.file_name))("tokens", inputs)


class Odd(encoder_service.EncoderService):
    """A service with an operation that nobody else has."""

    def tokens(self, *ids):
        outputs = super().tokens(*ids)
        return {"odd": tf.math.bessel_i1(outputs["pooled_output"])}


def test_operations_that_a_format_lacks_are_refused(
    form, tiny_vocab, tiny_tokenizer, tmp_path
):
    model = id_services.make_model("encoder", tiny_vocab)
    odd = Odd(model.service.model, tiny_tokenizer, id_services.LENGTH)
    model = dataclasses.replace(model, service=odd)
    with refused(r"no operation for.*BesselI1"):
        id_model.save(model, str(tmp_path / "model"), form)


@pytest.mark.parametrize(
    ("name", "package", "needed"),
    [
        ("litert", "ai_edge_litert", "ai-edge-litert"),
        ("onnx", "tf2onnx", "onnx onnxruntime tf2onnx"),
        ("onnx", "onnxruntime", "onnx onnxruntime tf2onnx"),
    ],
)
def test_missing_package_is_named(monkeypatch, name, package, needed):
    monkeypatch.setitem(sys.modules, "tf2onnx", object())
    monkeypatch.setitem(sys.modules, package, None)
    with refused(f"`format={name}` needs {package}.*pip install {needed}$"):
        FORMS[name].require()
