"""Every model file and every recipe loads and is what it says."""

import importlib
import re

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from albert_tf import modeling, options
from albert_tf.heads import pretraining
from tests.conftest import ROOT

# Variables of the encoder, and with the pretraining heads. The released sizes
# follow from ALBERT Table 1.
PARAMETERS = {
    "albert_base_v1": (11_683_584, 11_813_810),
    "albert_base_v2": (11_683_584, 11_813_810),
    "albert_large_v1": (17_683_968, 17_847_474),
    "albert_large_v2": (17_683_968, 17_847_474),
    "albert_xlarge_v1": (58_724_864, 59_021_490),
    "albert_xlarge_v2": (58_724_864, 59_021_490),
    "albert_xxlarge_v1": (222_595_584, 223_158_450),
    "albert_xxlarge_v2": (222_595_584, 223_158_450),
    "albert_small": (4_794_624, 4_858_290),
    "albert_tiny": (257_152, 266_194),
}
# What a recipe may leave to the command line.
PLACES = {
    "data_dir": "data",
    "input_file": "input",
    "output_dir": "output",
    "output_file": "records",
    "spm_model_file": "spm.model",
    "train_file": "train.json",
    "predict_file": "dev.json",
}
MODELS = {path.stem: path for path in (ROOT / "configs/models").iterdir()}
RECIPES = sorted((ROOT / "configs").rglob("*.flags"))


def count(model):
    return sum(int(np.prod(v.shape)) for v in model.variables)


@pytest.mark.parametrize("name", sorted(MODELS.keys() | PARAMETERS.keys()))
def test_model_has_exactly_these_parameters(name):
    assert name in PARAMETERS, f"{MODELS[name]} has no row in the table."
    config = modeling.AlbertConfig.from_json_file(str(MODELS[name]))
    # In a graph nobody runs: variables get their shapes but no memory.
    with tf.Graph().as_default():
        model = pretraining.AlbertPretrainer(modeling.AlbertModel(config))
        assert (count(model.encoder), count(model)) == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_file_is_written_as_we_write_it(name):
    config = modeling.AlbertConfig.from_json_file(str(MODELS[name]))
    assert MODELS[name].read_text() == config.to_json()


def options_class_of(recipe):
    """The options of the script that a recipe's header names."""
    command = re.search(r"^# .*python -m (\S+)", recipe.read_text(), re.M)
    script = command[1] if command else "albert_tf.run_pretraining"
    module = importlib.import_module(script)
    (name,) = re.findall(
        r"run_script\(run, (\w+)\)", (ROOT / module.__file__).read_text()
    )
    return getattr(module, name)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_understood_by_its_script(path):
    options_class = options_class_of(path)
    values = flags.FlagValues()
    options.define_flags(options_class, values)
    places = [
        f"--{name}={value}"
        for name, value in PLACES.items()
        if name in options.names(options_class)
    ]
    values(["program", *places, f"--flagfile={path}"])
    settings = options.to_dict(options.from_flags(options_class, values))
    if "albert_config_file" in settings:
        assert (ROOT / settings["albert_config_file"]) in MODELS.values()
