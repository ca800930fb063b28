"""The names that users import: what the README shows, works as it shows it."""

import re
import shutil

import pytest
import tensorflow as tf

from albert_tf import checkpoints, modeling
from tests.conftest import FIXTURES, ROOT


@pytest.fixture
def example():
    """The Python of the README's section on use from Python."""
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
    layers = outputs["all_encoder_layers"]
    assert len(layers) == 4
    assert (layers[-1].numpy() == outputs["sequence_output"].numpy()).all()


def test_every_listed_head_is_a_keras_model_on_a_finished_encoder(
    example, small_config
):
    heads = re.findall(r"^(\w+\.Albert\w+)\(encoder(.*?)\)", example, re.M)
    assert len(heads) == 5
    encoder = modeling.AlbertModel(small_config)
    before = {checkpoints.name_of(v): v for v in encoder.variables}
    for name, rest in heads:
        model = eval(
            f"{name}(encoder{rest})",
            {
                "encoder": encoder,
                **{
                    m: __import__(f"albert_tf.heads.{m}", fromlist=[m])
                    for m in (
                        "classification",
                        "pretraining",
                        "question_answering",
                    )
                },
            },
        )
        assert isinstance(model, modeling.keras.Model)
        assert model.encoder is encoder
        names = {checkpoints.name_of(v): v for v in model.variables}
        assert all(names[key] is variable for key, variable in before.items())
        assert len(names) > len(before)


def test_inputs_may_be_int64_and_mask_and_segments_left_out(small_config):
    encoder = modeling.AlbertModel(small_config)
    outputs = encoder(dict(input_ids=tf.constant([[2, 5, 3]], tf.int64)))
    assert outputs["pooled_output"].shape == (1, 16)
