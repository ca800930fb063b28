"""Every model file and every recipe loads and is what it says."""

import importlib
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import options
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.run_classifier import ClassifierOptions
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
    "albert_base_zh": (10_547_968, 10_669_322),
    "albert_large_zh": (16_548_352, 16_702_986),
    "albert_xlarge_zh": (57_589_248, 57_877_002),
    "albert_xxlarge_zh": (221_459_968, 222_013_962),
    "albert_tiny_zh_google": (4_080_520, 4_142_594),
    "albert_small_zh_google": (4_742_272, 4_813_706),
    "albert_tiny_zh_brightmart": (4_175_152, 4_295_186),
    "albert_base_zh_brightmart": (10_877_440, 11_492_234),
    "albert_large_zh_brightmart": (17_009_664, 18_084_490),
    "albert_small": (4_794_624, 4_858_290),
    "albert_hour": (1_978_624, 2_020_290),
    "albert_tiny": (257_152, 266_194),
    "bert_base": (109_482_240, 110_106_428),
    "t5_base": (110_694_528, 111_320_294),
    "xlnet_base": (117_722_880, 118_348_546),
}
# What a recipe may leave to the command line.
PLACES = {
    "data_dir": "data",
    "input_file": "input",
    "output_dir": "output",
    "output_file": "records",
    "spm_model_file": "spm.model",
    "teacher": "teacher",
    "train_file": "train.json",
    "predict_file": "dev.json",
}
# ALBERT Table 14: learning rate, batch, steps, warm-up, length, ALBERT dropout.
# Copied from there, never from the recipes. RACE for version 2 is that of the
# release's README. The dropout of the classifier is 0.1 throughout.
RECIPE_NUMBERS = {
    "cola": (1e-5, 16, 5336, 320, 512, 0.0),
    "sts-b": (2e-5, 16, 3598, 214, 512, 0.0),
    "sst-2": (1e-5, 32, 20935, 1256, 512, 0.0),
    "mnli": (3e-5, 128, 10000, 1000, 512, 0.0),
    "qnli": (1e-5, 32, 33112, 1986, 512, 0.0),
    "qqp": (5e-5, 128, 14000, 1000, 512, 0.1),
    "rte": (3e-5, 32, 800, 200, 512, 0.1),
    "mrpc": (2e-5, 32, 800, 200, 512, 0.0),
    "wnli": (2e-5, 16, 2000, 250, 512, 0.1),
    "squad_v1": (5e-5, 48, 3649, 365, 384, 0.0),
    "squad_v2": (3e-5, 48, 8144, 814, 512, 0.0),
    "race_v1": (2e-5, 32, 12000, 1000, 512, 0.1),
    "race": (1e-5, 32, 12000, 1000, 512, 0.0),
}


def numbers(batch, rate, steps, warmup, **others):
    return {
        "train_batch_size": batch,
        "learning_rate": rate,
        "num_train_steps": steps,
        "num_warmup_steps": warmup,
        **others,
    }


OF_BERT = {
    "sentence_objective": "nsp",
    "max_seq_length": 512,
    "max_predictions_per_seq": 77,
}
OF_ROBERTA = {"records": "passages", "max_seq_length": 512}
ADAM = {"optimizer": "adamw"}
OF_PAPERS = {
    # BERT A.2 (arXiv 1810.04805); Adam is that of its release.
    "bert": OF_BERT
    | ADAM
    | numbers(256, 1e-4, 1_000_000, 10_000, bias_correction=False),
    "bert_data": OF_BERT | {"ngram": 1, "do_whole_word_mask": False},
    # RoBERTa, table 9 (arXiv 1907.11692), the column of base.
    "roberta": OF_ROBERTA
    | ADAM
    | numbers(8192, 6e-4, 500_000, 24_000, beta_2=0.98)
    | {"sentence_objective": "none"},
    "roberta_data": OF_ROBERTA | {"cross_documents": True},
    # XLNet, table 8 (arXiv 1906.08237); 85 pieces: its README.
    "xlnet": numbers(8192, 4e-4, 500_000, 40_000, objective="plm")
    | {"masked_lm_budget": 85},
    # T5, section 3.1.2 (arXiv 1910.10683): 2 ** 19 steps; rate and warm-up are
    # ours.
    "t5": numbers(128, 1e-4, 524_288, 10_000, objective="spans")
    | {"masked_lm_budget": 77},
}
# One that trains nothing, and our own.
OTHER_RECIPES = {"ax", "cola_tiny", "vectors"}
MODELS = {path.stem: path for path in (ROOT / "configs/models").iterdir()}
RECIPES = sorted((ROOT / "configs").rglob("*.flags"))
FINETUNING_RECIPES = {
    path.stem: path
    for path in RECIPES
    if path.parent.name != "pretraining" and path.stem not in OTHER_RECIPES
}


def count(model):
    return sum(int(np.prod(v.shape)) for v in model.variables)


@pytest.mark.parametrize("name", sorted(MODELS.keys() | PARAMETERS.keys()))
def test_model_has_exactly_these_parameters(name):
    assert name in PARAMETERS, f"{MODELS[name]} has no row in the table."
    config = AlbertConfig.from_json_file(str(MODELS[name]))
    # In a graph that is not run: variables have shapes but no memory.
    with tf.Graph().as_default():
        model = pretraining.AlbertPretrainer(AlbertModel(config))
        assert (count(model.encoder), count(model)) == PARAMETERS[name]


def options_class_of(recipe):
    command = re.search(
        r"^# .*python -m (\S+)[\s\\#]+--flagfile=", recipe.read_text(), re.M
    )
    script = command[1] if command else "albert_tf.run_pretraining"
    module = importlib.import_module(script)
    (name,) = re.findall(
        r"run_script\(run, (\w+)\)", (ROOT / module.__file__).read_text()
    )
    return getattr(module, name)


def read_recipe(path):
    options_class = options_class_of(path)
    places = [
        f"--{name}={value}"
        for name, value in PLACES.items()
        if name in options.names(options_class)
        # A task's files are in a folder.
        and (name, options_class) != ("train_file", ClassifierOptions)
    ]
    return options.to_dict(
        options.parse(options_class, [*places, f"--flagfile={path}"])
    )


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_understood_by_its_script(path):
    settings = read_recipe(path)
    if "albert_config_file" in settings:
        assert (ROOT / settings["albert_config_file"]).is_file()


@pytest.mark.parametrize("name", OF_PAPERS)
def test_pretraining_recipe_has_the_numbers_of_its_paper(name):
    settings = read_recipe(ROOT / f"configs/pretraining/{name}.flags")
    expected = OF_PAPERS[name]
    assert {key: settings[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "bias"),
    [("bert", "none"), ("xlnet", "relative"), ("t5", "buckets")],
)
def test_models_of_other_papers_share_no_layer(name, bias):
    config = AlbertConfig.from_json_file(f"{name}_base")
    assert config.position_bias == bias
    assert config.layer_groups == [(n, n) for n in range(12)]


@pytest.mark.parametrize(
    "name", sorted(FINETUNING_RECIPES.keys() | RECIPE_NUMBERS.keys())
)
def test_finetuning_recipe_has_the_numbers_of_the_paper(name):
    assert name in RECIPE_NUMBERS, f"{name} has no row in the table."
    settings = read_recipe(FINETUNING_RECIPES[name])
    rate, batch, steps, warmup, length, dropout = RECIPE_NUMBERS[name]
    expected = {
        "optimizer": "adamw",
        "learning_rate": rate,
        "train_batch_size": batch,
        "train_step": steps,
        "warmup_step": warmup,
        "max_seq_length": length,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    if "dropout_prob" in settings:
        expected["dropout_prob"] = 0.1
    assert {key: settings[key] for key in expected} == expected
