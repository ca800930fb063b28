"""The names that users import: what the README shows, works as it shows it."""

import os
import re
import shutil

import pytest
import tf_keras as keras

import albert_tf
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import FIXTURES, ROOT, python


@pytest.fixture
def example():
    readme = (ROOT / "README.md").read_text()
    section = readme.split("\n## Use from Python\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.S)
    return code


def test_example_of_the_readme_runs(example, tmp_path, monkeypatch):
    folder = FIXTURES / "original_tiny_lamb"
    shutil.copy(folder / "albert_config.json", tmp_path)
    for path in folder.glob("model.ckpt-0.*"):
        shutil.copy(path, tmp_path / path.name.replace("-0.", "-best.", 1))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    outputs = names["outputs"]
    assert outputs["sequence_output"].shape == (1, 6, 48)
    assert outputs["pooled_output"].shape == (1, 48)
    assert len(outputs["all_encoder_layers"]) == 4


def test_every_listed_head_is_a_keras_model_on_a_finished_encoder(
    example, small_config
):
    heads = re.findall(r"^(\w+\.Albert\w+)\(encoder(.*?)\)", example, re.M)
    assert len(heads) == 5
    encoder = AlbertModel(small_config)
    for name, rest in heads:
        names = {"encoder": encoder, "albert_tf": albert_tf}
        model = eval(f"{name}(encoder{rest})", names)
        assert isinstance(model, keras.Model)
        assert model.encoder is encoder
        assert len(model.variables) > len(encoder.variables)


def test_public_names_are_loaded_when_they_are_used():
    program = """
import sys, albert_tf
assert set(albert_tf.__all__) <= set(dir(albert_tf))
assert "tensorflow" not in sys.modules
for name in albert_tf.__all__:
    assert getattr(albert_tf, name).__name__ == name
assert "tensorflow" in sys.modules
"""
    python("-c", program)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'AlbertModle'"):
        albert_tf.AlbertModle  # noqa: B018


@pytest.mark.slow
def test_tensorflow_is_quiet_unless_asked():
    code = (
        "import albert_tf, os, tensorflow as tf;"
        "tf.config.list_physical_devices('GPU');"
        "print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    )
    environment = dict(os.environ)
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    quiet = python("-c", code, env=environment)
    assert quiet.stderr == ""
    environment["TF_CPP_MIN_LOG_LEVEL"] = "0"
    loud = python("-c", code, env=environment)
    assert loud.stdout == "0\n"
    assert "tensorflow" in loud.stderr


@pytest.mark.parametrize("already, wanted", [(None, "1"), ("0", "0")])
def test_onednn_is_on_unless_turned_off(already, wanted):
    environment = dict(os.environ)
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    if already is not None:
        environment["TF_ENABLE_ONEDNN_OPTS"] = already
    code = "import albert_tf, os; print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    assert python("-c", code, env=environment).stdout == f"{wanted}\n"
