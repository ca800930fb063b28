"""Translating Hugging Face folders: names, order of kernels, refusals."""

import dataclasses
import itertools
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.network.encoder import AlbertModel
from tests import hugging_face_files
from tests.albert_tf.model import models, passes
from tests.albert_tf.model.checkpoints import test_contract
from tests.conftest import FIXTURES, refused

CONFIG = test_contract.SHARED
ARCHITECTURES = {
    "AlbertModel": "encoder",
    "AlbertForPreTraining": "pretraining",
    "AlbertForMaskedLM": "masked words",
    "AlbertForSequenceClassification": "classifier",
    "AlbertForQuestionAnswering": "squad_v1",
    "AlbertForTokenClassification": "tags",
}


def random_weights(config=CONFIG, kind="pretraining"):
    return models.random_weights(kind, config)


def round_trip(folder, config, weights):
    hugging_face_files.write(folder, config, weights)
    return huggingface.read_weights(str(folder))


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def tensors_of(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


@pytest.fixture
def folder(tmp_path):
    """A folder with both pretraining heads."""
    hugging_face_files.write(tmp_path, CONFIG, random_weights())
    return tmp_path


def change_config(folder, **values):
    (folder / "config.json").write_text(
        json.dumps({**config_of(folder), **values})
    )


def change_tensors(folder, change):
    """Rewrite the weights after `change` has worked on the dict."""
    tensors = tensors_of(folder)
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def test_unshared_layers_are_groups_there(tmp_path):
    config = dataclasses.replace(CONFIG, num_hidden_groups=1, share="none")
    weights = random_weights(config)
    passes.assert_same(round_trip(tmp_path, config, weights), weights)
    there = huggingface.read_config(str(tmp_path / "config.json"))
    assert there.num_hidden_groups == config.num_hidden_layers
    assert there.layer_groups == config.layer_groups


# Names of transformers 5.23.0 by ours. Layers have two numbers, of group and
# inner group. Kernels are turned there.
MAPPING = "encoder.embedding_hidden_mapping_in"
OUR_LAYER = "bert/encoder/transformer/group_{}/inner_group_{}/"
THEIR_LAYER = "encoder.albert_layer_groups.{}.albert_layers.{}."
LAYER_SCOPES = {
    "attention_1/self/query": "attention.query",
    "attention_1/self/key": "attention.key",
    "attention_1/self/value": "attention.value",
    "attention_1/output/dense": "attention.dense",
    "LayerNorm": "attention.LayerNorm",
    "ffn_1/intermediate/dense": "ffn",
    "ffn_1/intermediate/output/dense": "ffn_output",
    "LayerNorm_1": "full_layer_layer_norm",
}
SCOPES = {
    "bert/embeddings/LayerNorm": "embeddings.LayerNorm",
    "bert/encoder/embedding_hidden_mapping_in": MAPPING,
    "bert/pooler/dense": "pooler",
} | {
    OUR_LAYER.format(*place) + ours: THEIR_LAYER.format(*place) + theirs
    for ours, theirs in LAYER_SCOPES.items()
    for place in itertools.product(range(2), range(2))
}
TABLES = "word_embeddings", "token_type_embeddings", "position_embeddings"
MASKED_LM = {
    "cls/predictions/transform/dense/kernel": "predictions.dense.weight",
    "cls/predictions/transform/dense/bias": "predictions.dense.bias",
    "cls/predictions/transform/LayerNorm/gamma": "predictions.LayerNorm.weight",
    "cls/predictions/transform/LayerNorm/beta": "predictions.LayerNorm.bias",
    "cls/predictions/output_bias": "predictions.bias",
}
ORDER = "cls/seq_relationship/output"
HEADS = {
    "AlbertModel": {},
    "AlbertForMaskedLM": MASKED_LM,
    "AlbertForPreTraining": {
        **MASKED_LM,
        f"{ORDER}_weights": "sop_classifier.classifier.weight",
        f"{ORDER}_bias": "sop_classifier.classifier.bias",
    },
    "AlbertForSequenceClassification": {
        "output_weights": "classifier.weight",
        "output_bias": "classifier.bias",
    },
    "AlbertForQuestionAnswering": {
        "cls/squad/output_weights": "qa_outputs.weight",
        "cls/squad/output_bias": "qa_outputs.bias",
    },
    "AlbertForTokenClassification": {
        "cls/tags/output_weights": "classifier.weight",
        "cls/tags/output_bias": "classifier.bias",
    },
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_is_written_under_its_name(tmp_path, architecture):
    weights = random_weights(kind=ARCHITECTURES[architecture])
    hugging_face_files.write(tmp_path, CONFIG, weights)
    pairs = {f"bert/embeddings/{n}": f"embeddings.{n}.weight" for n in TABLES}
    for ours, theirs in SCOPES.items():
        weight = "gamma" if "LayerNorm" in ours else "kernel"
        pairs[f"{ours}/{weight}"] = f"{theirs}.weight"
        bias = "beta" if "LayerNorm" in ours else "bias"
        pairs[f"{ours}/{bias}"] = f"{theirs}.bias"
    if architecture != "AlbertModel":
        pairs = {ours: f"albert.{theirs}" for ours, theirs in pairs.items()}
    pairs |= HEADS[architecture]
    config = config_of(tmp_path)
    assert config["architectures"] == [architecture]
    assert config["classifier_dropout_prob"] == 0.1
    labels = {"classifier": 3, "tags": 4}.get(ARCHITECTURES[architecture], 0)
    assert len(config.get("id2label", [])) == labels
    tensors = tensors_of(tmp_path)
    assert sorted(tensors) == sorted(pairs.values())
    passes.assert_same(huggingface.read_weights(str(tmp_path)), weights)
    for ours, theirs in pairs.items():
        turned = ours.endswith("/kernel")
        expected = weights[ours].T if turned else weights[ours]
        np.testing.assert_array_equal(tensors[theirs], expected, err_msg=ours)


def test_the_same_weights_give_the_same_bytes():
    weights = random_weights()
    one = huggingface.files_of(CONFIG, weights)
    assert huggingface.files_of(CONFIG, dict(reversed(weights.items()))) == one
    assert b'"__metadata__":{"format":"pt"}' in one[1]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read(folder, dtype):
    def halve(tensors):
        tensors |= {n: value.astype(dtype) for n, value in tensors.items()}

    change_tensors(folder, halve)
    expected = {
        name: value.astype(dtype).astype(np.float32)
        for name, value in random_weights().items()
    }
    passes.assert_same(huggingface.read_weights(str(folder)), expected)


def test_shards_old_names_and_position_ids_are_read(folder):
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in tensors_of(folder).items()
    }
    assert "albert.embeddings.LayerNorm.gamma" in tensors
    tensors["albert.embeddings.position_ids"] = np.arange(8)[None]
    tensors["predictions.decoder.weight"] = tensors[
        "albert.embeddings.word_embeddings.weight"
    ].copy()
    (folder / "model.safetensors").unlink()
    index = {}
    for number in range(2):
        shard = f"model-{number}.safetensors"
        names = sorted(tensors)[number::2]
        index |= dict.fromkeys(names, shard)
        safetensors.numpy.save_file(
            {name: tensors[name] for name in names}, folder / shard
        )
    listed = folder / "model.safetensors.index.json"
    listed.write_text(json.dumps({"weight_map": index}))
    passes.assert_same(huggingface.read_weights(str(folder)), random_weights())
    before = checkpoint_files.fingerprint(str(folder))
    # Each shard counts, and each must be there.
    content = (folder / shard).read_bytes()
    (folder / shard).write_bytes(content[:-1] + b"\x7f")
    assert checkpoint_files.fingerprint(str(folder)) != before
    (folder / shard).unlink()
    with refused("model-1.safetensors does not"):
        huggingface.read_weights(str(folder))
    listed.write_text(json.dumps({"weight_map": {"x": "../x.safetensors"}}))
    with refused("names no files in its folder"):
        huggingface.read_weights(str(folder))


@pytest.mark.parametrize(
    ("copy", "name"),
    [
        (
            "predictions.decoder.weight",
            "albert.embeddings.word_embeddings.weight",
        ),
        ("predictions.decoder.bias", "predictions.bias"),
    ],
)
def test_tied_tensors_count_once(folder, copy, name):
    """Both may be there, or one of them; then they must be equal."""
    for change in (
        lambda tensors: tensors.update({copy: tensors[name].copy()}),
        lambda tensors: tensors.pop(name),
    ):
        change_tensors(folder, change)
        passes.assert_same(
            huggingface.read_weights(str(folder)), random_weights()
        )
    other = tensors_of(folder)[copy] + 1
    change_tensors(folder, lambda tensors: tensors.update({name: other}))
    with refused(f"{copy} that differs from"):
        huggingface.read_weights(str(folder))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("albert.pooler.bias", np.zeros(6, np.int32), "pooler.bias as I32"),
        (
            "albert.encoder.albert_layer_groups.2.albert_layers.0.ffn.bias",
            np.zeros(10, np.float32),
            "albert_layer_groups.2.albert_layers.0.ffn.bias, which",
        ),
        (
            "lm_head.weight",
            np.zeros(10, np.float32),
            "holds lm_head.weight, wh",
        ),
    ],
)
def test_tensors_without_a_place_are_refused(folder, name, value, message):
    change_tensors(folder, lambda tensors: tensors.update({name: value}))
    with refused(message):
        huggingface.read_weights(str(folder))


def test_of_many_tensors_three_are_named(folder):
    change_config(folder, num_hidden_groups=1)
    with refused(r"holds (\S+1\.albert_layers\.0\S+,? ){3}and 29 more, which"):
        huggingface.read_weights(str(folder))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pooler_may_be_missing_where_transformers_saves_none(architecture):
    weights = random_weights(kind=ARCHITECTURES[architecture])
    kept = {n: v for n, v in weights.items() if "/pooler/" not in n}
    if architecture in (
        "AlbertForPreTraining",
        "AlbertForSequenceClassification",
    ):
        with refused("pooler/dense/bias, bert"):
            huggingface.files_of(CONFIG, kept)
    else:
        values, _ = huggingface.files_of(CONFIG, kept)
        assert values["architectures"] == [architecture]


@pytest.mark.parametrize("leaf", ["weight", "bias"])
def test_a_mapping_that_is_no_identity_is_kept(tmp_path, leaf):
    config = dataclasses.replace(CONFIG, embedding_size=6)
    hugging_face_files.write(tmp_path, config, random_weights(config))
    file = str(tmp_path / "config.json")
    for read in (huggingface.read_config, AlbertConfig.from_json_file):
        assert read(file) == config
    names = huggingface.read_weights(str(tmp_path)).keys()
    tensors = tensors_of(tmp_path)
    passes.assert_close(tensors[f"albert.{MAPPING}.weight"], np.eye(6), 0)
    assert not tensors[f"albert.{MAPPING}.bias"].any()

    def change(tensors):
        tensors[f"albert.{MAPPING}.{leaf}"] += 1e-6

    change_tensors(tmp_path, change)
    mapped = dataclasses.replace(config, map_equal_sizes=True)
    for read in (huggingface.read_config, AlbertConfig.from_json_file):
        assert read(file) == mapped
    weights = huggingface.read_weights(str(tmp_path))
    mapping = "bert/encoder/embedding_hidden_mapping_in"
    assert weights.keys() - names == {f"{mapping}/kernel", f"{mapping}/bias"}
    hugging_face_files.write(tmp_path / "again", mapped, weights)
    assert tensors_of(tmp_path / "again").keys() == tensors_of(tmp_path).keys()
    # Half of it is none either.
    change_tensors(tmp_path, lambda t: t.pop(f"albert.{MAPPING}.{leaf}"))
    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config.map_equal_sizes
    model = AlbertModel(checkpoint.config)
    with refused("mapping_in.*nothing"):
        restoring.restore(model, checkpoint)


def test_groups_that_transformers_rounds_otherwise_are_refused(folder):
    change_config(folder, num_hidden_layers=18, num_hidden_groups=14)
    with refused("rounds"):
        huggingface.read_config(str(folder / "config.json"))


def test_a_missing_config_is_an_error(tmp_path):
    assert not huggingface.is_folder(str(tmp_path))
    with refused("config.json does not exist"):
        huggingface.read_weights(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "safe_serialization=True"),
        ("tf_model.h5", "safe_serialization=True"),
        ("else", "has no model.safetensors. Copy"),
    ],
)
def test_other_forms_of_weights_are_named(folder, name, message):
    (folder / "model.safetensors").rename(folder / name)
    with refused(message):
        huggingface.read_weights(str(folder))


def test_only_a_folder_with_a_config_of_hugging_face_is_one(folder):
    assert huggingface.is_folder(str(folder))
    assert huggingface.is_folder(f"{folder}/")
    (folder / "config.json").write_text("{}")
    assert not huggingface.is_folder(str(folder))
    assert not huggingface.is_folder(str(folder / "config.json"))
    assert not huggingface.is_folder(str(FIXTURES / "original_tiny_lamb"))


def test_remote_folders_are_read_and_written():
    weights = random_weights()
    place = "ram://test_huggingface/folder"
    hugging_face_files.write(place, CONFIG, weights)
    assert huggingface.is_folder(place)
    passes.assert_same(huggingface.read_weights(place), weights)
    tf.io.gfile.rmtree(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": "attention"}, "share='attention'"),
        ({"share": "ffn", "num_hidden_groups": 1}, "share='ffn'"),
        ({"num_hidden_layers": 18, "num_hidden_groups": 14}, "rounds"),
        (
            {"num_hidden_layers": 22, "num_hidden_groups": 22}
            | {"float_group_index": True},
            "float_group_index=True",
        ),
        ({"pooling": "pair"}, "pooling='pair' has no counterpart"),
        ({"project_words_first": True}, "project_words_first=True has no"),
    ],
)
def test_what_transformers_lacks_is_refused(changes, message):
    config = dataclasses.replace(CONFIG, **changes)
    with refused(message):
        huggingface.files_of(config, random_weights())


NORM = "bert/encoder/transformer/group_1/inner_group_1/LayerNorm/beta"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.update({"end_logits/dense_1/bias": 0}), "with just"),
        (lambda w: w.update(output_weights=0), "with just"),
        (lambda w: w.pop("cls/seq_relationship/output_bias"), "with just"),
        (lambda w: w.pop(NORM), f"do not fit the config: {NORM} on one side"),
        (
            lambda w: w.update({f"bert/{n}": 0 for n in "cab"}),
            "do not fit the config: bert/a, bert/b, bert/c on one side",
        ),
    ],
    ids=["squad_v2", "two_models", "half_a_head", "less", "more"],
)
def test_weights_that_transformers_lacks_are_refused(change, message):
    weights = random_weights()
    change(weights)
    with refused(message):
        huggingface.files_of(CONFIG, weights)
