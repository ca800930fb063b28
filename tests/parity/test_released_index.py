"""Released checkpoints: the names, types and shapes of their variables.

The values could not be had, so they are random here.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.config import AlbertConfig
from tests import tf1_checkpoints
from tests.conftest import FIXTURES

INDEX = json.loads((FIXTURES / "released_index.json").read_text())


def random_variables(index):
    generator = np.random.default_rng(5)
    return {
        name: generator.standard_normal(shape, np.float32)
        if kind == "float32"
        else np.array(125_000, kind)
        for name, (kind, *shape) in index.items()
    }


def convert(variables, config_file, tmp_path, name="tf1"):
    source = tf1_checkpoints.write(tmp_path / "model.ckpt-best", variables)
    target = str(tmp_path / "back" / "model.ckpt-best")
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            source, target, name, albert_config_file=config_file
        )
    )
    return target


def test_chinese_base_model_of_google_travels_through_a_model(tmp_path):
    index = INDEX["google_albert_base_zh"]
    assert len(index) == 33
    variables = random_variables(index)
    target = convert(variables, "albert_base_zh", tmp_path)
    back = tf.train.load_checkpoint(target)
    assert index == {
        name: [back.get_variable_to_dtype_map()[name].name, *shape]
        for name, shape in back.get_variable_to_shape_map().items()
    }
    for name, value in variables.items():
        np.testing.assert_array_equal(back.get_tensor(name), value, name)


def test_brightmart_s_tiny_model_gets_our_names(tmp_path):
    index = INDEX["brightmart_albert_tiny_zh"]
    assert len(index) == 31
    variables = random_variables(index)
    back = checkpoint_reader.read(
        convert(variables, "albert_tiny_zh_brightmart", tmp_path, "tf2")
    )
    shapes, values = back.shapes, back.load(back.shapes)
    assert sorted(shapes.values()) == sorted(s for _, *s in index.values())
    for name in index.keys() & shapes.keys():
        np.testing.assert_array_equal(values[name], variables[name])
    assert all("/layer_shared/" in name for name in index.keys() - shapes)


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_small_chinese_configs_are_those_of_their_authors(shared_dir, size):
    """Trained by brightmart with Google's code."""
    theirs = shared_dir / f"data/configs/albert_zh_{size}_google.json"
    assert AlbertConfig.from_json_file(str(theirs)) == (
        AlbertConfig.from_json_file(f"albert_{size}_zh_google")
    )
