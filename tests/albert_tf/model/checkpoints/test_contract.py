"""Every layout: what is written is read as the same model, or refused."""

import dataclasses
import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import int8_weights
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    keras_hub,
    layouts,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import from_checkpoint
from albert_tf.model.network.encoder import AlbertModel
from tests import hugging_face_files, tf1_checkpoints
from tests.albert_tf.model import models, passes
from tests.conftest import refused

SHARED = AlbertConfig(
    vocab_size=11,
    embedding_size=4,
    hidden_size=6,
    num_hidden_layers=4,
    num_hidden_groups=2,
    inner_group_num=2,
    num_attention_heads=2,
    intermediate_size=10,
    max_position_embeddings=8,
)
EQUAL = dataclasses.replace(SHARED, embedding_size=6)
BERT = dataclasses.replace(
    EQUAL,
    num_hidden_groups=1,
    inner_group_num=1,
    hidden_act="gelu_erf",
    share="none",
)
BRIGHTMART = dataclasses.replace(
    SHARED, num_hidden_groups=1, inner_group_num=1, project_words_first=True
)
# The parts of a layer, Google's in a BERT and ours.
PARTS_OF_BERT = {
    "attention/self/query": "attention_1/self/query",
    "attention/self/key": "attention_1/self/key",
    "attention/self/value": "attention_1/self/value",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}
BERT_KEYS = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads "
    "intermediate_size max_position_embeddings hidden_dropout_prob "
    "attention_probs_dropout_prob"
).split()


def as_in_bert(weights, layer="layer_{}"):
    """The same weights under the names of Google's BERT."""

    def renamed(match):
        part = next(k for k, v in PARTS_OF_BERT.items() if v == match[2])
        return f"encoder/{layer.format(match[1])}/{part}/"

    parts = "|".join(PARTS_OF_BERT.values())
    ours = rf"encoder/transformer/group_(\d)/inner_group_0/({parts})/(?=\w+$)"
    return {re.sub(ours, renamed, n): value for n, value in weights.items()}


def write_tf1(folder, config, weights):
    (folder / "albert_config.json").write_text(config.to_json())
    return tf1_checkpoints.write(folder / "model.ckpt-7", weights)


def write_tf2(folder, config, weights):
    (folder / "albert_config.json").write_text(config.to_json())
    variables = [tf.Variable(v, name=n) for n, v in weights.items()]
    checkpoint = tf.train.Checkpoint(model=variables)
    return checkpoint.write(str(folder / "model.ckpt-7"))


def write_bfloat16(folder, config, weights):
    (folder / "albert_config.json").write_text(config.to_json())
    content = huggingface.bfloat16_file(weights)
    (folder / "model.safetensors").write_bytes(content)
    return str(folder)


def write_int8(folder, config, weights):
    (folder / "albert_config.json").write_text(config.to_json())
    content = int8_weights.to_bytes(weights)
    (folder / "model.safetensors").write_bytes(content)
    return str(folder)


def write_hub(folder, config, weights):
    return str(hugging_face_files.write(folder, config, weights))


def write_bert(folder, config, weights):
    values = dataclasses.asdict(config)
    values = {key: values[key] for key in BERT_KEYS}
    values |= {"hidden_act": "gelu", "pooler_type": "first_token_transform"}
    (folder / "bert_config.json").write_text(json.dumps(values))
    tf1_checkpoints.write(folder / "bert_model.ckpt", as_in_bert(weights))
    return str(folder)


def write_brightmart(folder, config, weights):
    write_tf1(folder, config, as_in_bert(weights, "layer_shared"))
    return str(folder / "model.ckpt-7")


def write_preset(folder, config, weights):
    for name, content in keras_hub.contents(config, weights).items():
        (folder / name).write_bytes(content)
    return str(folder)


def change(**values):
    return dataclasses.replace(SHARED, **values)


# How it is written, the config, and whether transformers has its name for it.
LAYOUTS = {
    "TF1": (write_tf1, SHARED),
    "TF2": (write_tf2, SHARED),
    "bfloat16": (write_bfloat16, SHARED),
    "int8": (write_int8, SHARED),
    "BERT": (write_bert, BERT),
    "brightmart": (write_brightmart, BRIGHTMART),
    "hub, groups": (write_hub, SHARED),
    "hub, more groups": (
        write_hub,
        change(num_hidden_groups=4, inner_group_num=3),
    ),
    "hub, uneven groups": (
        write_hub,
        change(num_hidden_layers=5, num_hidden_groups=3),
    ),
    "hub, one size": (write_hub, EQUAL),
    "hub, mapped": (
        write_hub,
        dataclasses.replace(EQUAL, map_equal_sizes=True),
    ),
    "hub, details": (
        write_hub,
        change(hidden_act="gelu_erf", type_vocab_size=3),
    ),
    "hub, BERT": (write_hub, BERT),
    "preset": (
        write_preset,
        change(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1),
    ),
    "preset, mapped": (
        write_preset,
        dataclasses.replace(EQUAL, map_equal_sizes=True),
    ),
    "preset, BERT": (
        write_preset,
        dataclasses.replace(BERT, hidden_act="gelu"),
    ),
}
# By name of the model, its class in transformers; the first five a BERT has.
CLASSES = {
    "encoder": "Model",
    "pretraining": "ForPreTraining",
    "masked words": "ForMaskedLM",
    "classifier": "ForSequenceClassification",
    "squad_v1": "ForQuestionAnswering",
    "tags": "ForTokenClassification",
    "squad_v2": None,
    "vectors": None,
}
CASES = [
    (layout, model)
    for layout in LAYOUTS
    for model in CLASSES
    if not layout.startswith("hub") or CLASSES[model]
    # Of most configs a model with two heads is enough.
    if layout in ("TF2", "hub, groups", "hub, BERT")
    or model == ("encoder" if layout.startswith("preset") else "pretraining")
]


def written(layout, model, folder):
    """The path, the config, and the weights that are to be read."""
    write, config = LAYOUTS[layout]
    weights = models.random_weights(model, config)
    path = write(folder, config, weights)
    if layout == "bfloat16":
        bfloat16 = tf.bfloat16.as_numpy_dtype
        weights = {
            n: v.astype(bfloat16).astype(np.float32)
            if n != "output_bias"
            else v
            for n, v in weights.items()
        }
    if layout == "int8":
        weights = {
            n: np.multiply(*int8_weights.quantize(n, v)) if v.ndim == 2 else v
            for n, v in weights.items()
        }
    return path, config, weights


@pytest.mark.parametrize(("layout", "model"), CASES)
def test_a_model_is_read_as_it_was_written(tmp_path, layout, model):
    path, config, weights = written(layout, model, tmp_path)
    checkpoint = checkpoint_reader.read(path)
    assert checkpoint.config == config
    shapes = {name: list(value.shape) for name, value in weights.items()}
    assert checkpoint.shapes == shapes
    passes.assert_same(checkpoint.load(checkpoint.shapes), weights)
    made = from_checkpoint.make_untrained_model(checkpoint.config, checkpoint)
    kind = "classifier" if model == "choice" else model
    assert type(made) is type(models.MODELS[kind](AlbertModel(config)))
    assert restoring.restore(made, checkpoint).new == ()
    passes.assert_same(passes.values(made), weights)
    if layout.startswith("hub"):
        values = json.loads((tmp_path / "config.json").read_text())
        family = "Bert" if layout == "hub, BERT" else "Albert"
        assert values["architectures"] == [family + CLASSES[model]]
        assert values["model_type"] == family.lower()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_is_noticed(tmp_path, layout):
    """Half of the weights is missing, or a number is not finite."""
    path, config, weights = written(layout, "encoder", tmp_path)
    model = AlbertModel(config)
    before = passes.values(model)
    broken = weights | {"bert/pooler/dense/bias": np.full([6], np.inf, "f4")}
    for values, message in (
        (broken, "bert/pooler/dense/bias that are not finite"),
        (weights, "cannot be read: .* damaged or incomplete"),
    ):
        LAYOUTS[layout][0](tmp_path, config, values)
        if values is weights:
            (data,) = [
                file
                for file in tmp_path.iterdir()
                if ".data-" in file.name
                or file.suffix in (".safetensors", ".h5")
            ]
            os.truncate(data, data.stat().st_size // 2)
        with refused(message):
            restoring.restore(model, path)
    passes.assert_same(passes.values(model), before)


def test_names_of_google_s_bert():
    weights = as_in_bert(models.random_weights("encoder", BERT))
    assert "bert/encoder/layer_2/output/LayerNorm/gamma" in weights
    for name in weights:
        assert ("/layer_" in name) == (layouts.from_bert(name) != name)


def test_old_files_have_no_model_type(tmp_path):
    weights = models.random_weights("encoder", BERT)
    hugging_face_files.write(tmp_path, BERT, weights)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    assert (values["hidden_act"], values["classifier_dropout"]) == ("gelu", 0.1)
    assert "embedding_size" not in values
    del values["model_type"], values["hidden_act"]
    file.write_text(json.dumps(values))
    assert checkpoint_reader.read(str(tmp_path)).config == BERT
    passes.assert_same(huggingface.read_weights(str(tmp_path)), weights)
