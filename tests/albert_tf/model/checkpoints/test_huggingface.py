"""Translating Hugging Face folders: names, order of kernels, refusals."""

import dataclasses
import itertools
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    classification,
    pretraining,
    question_answering,
)
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import FIXTURES

CONFIG = AlbertConfig(
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
MODELS = {
    "AlbertModel": lambda encoder: encoder,
    "AlbertForPreTraining": pretraining.AlbertPretrainer,
    "AlbertForSequenceClassification": lambda encoder: (
        classification.AlbertClassifier(encoder, 3)
    ),
    "AlbertForQuestionAnswering": question_answering.AlbertSquadV1,
}


def random_weights(config=CONFIG, make_model=pretraining.AlbertPretrainer):
    """Small random weights by variable name; no bias is 0."""
    model = make_model(AlbertModel(config))
    generator = np.random.default_rng(12345)
    return {
        checkpoint_reader.name_of(variable): generator.standard_normal(
            variable.shape
        ).astype(np.float32)
        for variable in model.variables
    }


def round_trip(folder, config, weights):
    huggingface.write(str(folder), config, weights)
    return huggingface.read_weights(str(folder))


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == np.float32
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def tensors_of(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


@pytest.fixture
def folder(tmp_path):
    """A folder with both pretraining heads."""
    huggingface.write(str(tmp_path), CONFIG, random_weights())
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


def test_masked_lm_head_alone(tmp_path):
    weights = {
        name: value
        for name, value in random_weights().items()
        if "seq_relationship" not in name
    }
    assert_same(round_trip(tmp_path, CONFIG, weights), weights)
    assert config_of(tmp_path)["architectures"] == ["AlbertForMaskedLM"]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_groups": 1, "inner_group_num": 1},
        {"num_hidden_groups": 4, "inner_group_num": 3},
        {"num_hidden_layers": 5, "num_hidden_groups": 3},
        {"embedding_size": 6},
        {"hidden_act": "gelu_erf"},
        {"hidden_act": "relu", "type_vocab_size": 3},
    ],
)
def test_configs_round_trip(tmp_path, changes):
    config = dataclasses.replace(CONFIG, **changes)
    weights = random_weights(config)
    assert_same(round_trip(tmp_path, config, weights), weights)
    path = str(tmp_path / "config.json")
    assert huggingface.read_config(path) == config
    assert AlbertConfig.from_json_file(path) == config


def test_unshared_layers_are_groups_there(tmp_path):
    config = dataclasses.replace(CONFIG, num_hidden_groups=1, share="none")
    weights = random_weights(config)
    assert_same(round_trip(tmp_path, config, weights), weights)
    there = huggingface.read_config(str(tmp_path / "config.json"))
    assert there.num_hidden_groups == config.num_hidden_layers
    assert there.layer_groups == config.layer_groups


# Names of transformers 5.23.0; kernels are turned. Blocks have two numbers:
# group and inner block.
MAPPING = "encoder.embedding_hidden_mapping_in"
PAIRS = {
    f"bert/embeddings/{ours}": f"embeddings.{theirs}"
    for ours, theirs in {
        "word_embeddings": "word_embeddings.weight",
        "token_type_embeddings": "token_type_embeddings.weight",
        "position_embeddings": "position_embeddings.weight",
        "LayerNorm/gamma": "LayerNorm.weight",
        "LayerNorm/beta": "LayerNorm.bias",
    }.items()
} | {
    "bert/encoder/embedding_hidden_mapping_in/kernel": f"{MAPPING}.weight",
    "bert/encoder/embedding_hidden_mapping_in/bias": f"{MAPPING}.bias",
    "bert/pooler/dense/kernel": "pooler.weight",
    "bert/pooler/dense/bias": "pooler.bias",
}
OUR_BLOCK = "bert/encoder/transformer/group_{}/inner_group_{}/"
THEIR_BLOCK = "encoder.albert_layer_groups.{}.albert_layers.{}."
BLOCK_PAIRS = {
    "attention_1/self/query/kernel": "attention.query.weight",
    "attention_1/self/query/bias": "attention.query.bias",
    "attention_1/self/key/kernel": "attention.key.weight",
    "attention_1/self/key/bias": "attention.key.bias",
    "attention_1/self/value/kernel": "attention.value.weight",
    "attention_1/self/value/bias": "attention.value.bias",
    "attention_1/output/dense/kernel": "attention.dense.weight",
    "attention_1/output/dense/bias": "attention.dense.bias",
    "LayerNorm/gamma": "attention.LayerNorm.weight",
    "LayerNorm/beta": "attention.LayerNorm.bias",
    "ffn_1/intermediate/dense/kernel": "ffn.weight",
    "ffn_1/intermediate/dense/bias": "ffn.bias",
    "ffn_1/intermediate/output/dense/kernel": "ffn_output.weight",
    "ffn_1/intermediate/output/dense/bias": "ffn_output.bias",
    "LayerNorm_1/gamma": "full_layer_layer_norm.weight",
    "LayerNorm_1/beta": "full_layer_layer_norm.bias",
}
HEAD_PAIRS = {
    "AlbertModel": {},
    "AlbertForPreTraining": {
        "cls/predictions/transform/dense/kernel": "predictions.dense.weight",
        "cls/predictions/transform/dense/bias": "predictions.dense.bias",
        "cls/predictions/transform/LayerNorm/gamma": (
            "predictions.LayerNorm.weight"
        ),
        "cls/predictions/transform/LayerNorm/beta": (
            "predictions.LayerNorm.bias"
        ),
        "cls/predictions/output_bias": "predictions.bias",
        "cls/seq_relationship/output_weights": (
            "sop_classifier.classifier.weight"
        ),
        "cls/seq_relationship/output_bias": "sop_classifier.classifier.bias",
    },
    "AlbertForSequenceClassification": {
        "output_weights": "classifier.weight",
        "output_bias": "classifier.bias",
    },
    "AlbertForQuestionAnswering": {
        "cls/squad/output_weights": "qa_outputs.weight",
        "cls/squad/output_bias": "qa_outputs.bias",
    },
}


@pytest.mark.parametrize("architecture", MODELS)
def test_every_weight_is_written_under_its_name(tmp_path, architecture):
    weights = random_weights(make_model=MODELS[architecture])
    huggingface.write(str(tmp_path), CONFIG, weights)
    prefix = "" if architecture == "AlbertModel" else "albert."
    pairs = {ours: prefix + theirs for ours, theirs in PAIRS.items()}
    pairs |= {
        OUR_BLOCK.format(*place) + ours: (
            prefix + THEIR_BLOCK.format(*place) + theirs
        )
        for ours, theirs in BLOCK_PAIRS.items()
        for place in itertools.product(range(2), range(2))
    }
    pairs |= HEAD_PAIRS[architecture]
    assert config_of(tmp_path)["architectures"] == [architecture]
    tensors = tensors_of(tmp_path)
    assert sorted(tensors) == sorted(pairs.values())
    back = huggingface.read_weights(str(tmp_path))
    assert sorted(back) == sorted(pairs)
    for ours, theirs in pairs.items():
        turned = ours.endswith("/kernel")
        expected = weights[ours].T if turned else weights[ours]
        np.testing.assert_array_equal(tensors[theirs], expected, err_msg=ours)
        np.testing.assert_array_equal(back[ours], weights[ours], err_msg=ours)


def test_equal_sizes_get_an_identity_for_the_mapping(tmp_path):
    config = dataclasses.replace(CONFIG, embedding_size=6)
    huggingface.write(str(tmp_path), config, random_weights(config))
    tensors = tensors_of(tmp_path)
    kernel, bias = f"albert.{MAPPING}.weight", f"albert.{MAPPING}.bias"
    np.testing.assert_array_equal(tensors[kernel], np.eye(6))
    np.testing.assert_array_equal(tensors[bias], np.zeros(6))


def test_the_same_weights_give_the_same_bytes(tmp_path):
    weights = random_weights()
    huggingface.write(str(tmp_path / "a"), CONFIG, weights)
    turned = dict(reversed(weights.items()))
    huggingface.write(str(tmp_path / "b"), CONFIG, turned)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()
    with safetensors.safe_open(
        tmp_path / "a" / "model.safetensors", framework="numpy"
    ) as stream:
        assert stream.metadata() == {"format": "pt"}


@pytest.mark.parametrize("labels", [1, 2, 3])
def test_number_of_labels_is_written(tmp_path, labels):
    weights = random_weights(
        make_model=lambda e: classification.AlbertClassifier(e, labels)
    )
    huggingface.write(str(tmp_path), CONFIG, weights)
    id2label = config_of(tmp_path).get("id2label", {"0": "", "1": ""})
    assert list(id2label) == [str(index) for index in range(labels)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read(folder, dtype):
    def halve(tensors):
        tensors |= {n: value.astype(dtype) for n, value in tensors.items()}

    change_tensors(folder, halve)
    expected = {
        name: value.astype(dtype).astype(np.float32)
        for name, value in random_weights().items()
    }
    assert_same(huggingface.read_weights(str(folder)), expected)


def test_buffers_of_older_versions_are_ignored(folder):
    buffer = {"albert.embeddings.position_ids": np.arange(8)[None]}
    change_tensors(folder, lambda tensors: tensors.update(buffer))
    assert_same(huggingface.read_weights(str(folder)), random_weights())


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
        assert_same(huggingface.read_weights(str(folder)), random_weights())
    other = tensors_of(folder)[copy] + 1
    change_tensors(folder, lambda tensors: tensors.update({name: other}))
    with pytest.raises(errors.UserError, match=f"{copy} that differs from"):
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
    with pytest.raises(errors.UserError, match=message):
        huggingface.read_weights(str(folder))


@pytest.mark.parametrize("leaf", ["weight", "bias"])
def test_a_mapping_that_is_no_identity_is_kept(tmp_path, leaf):
    config = dataclasses.replace(CONFIG, embedding_size=6)
    huggingface.write(str(tmp_path), config, random_weights(config))
    file = str(tmp_path / "config.json")
    assert huggingface.read_config(file) == config
    names = huggingface.read_weights(str(tmp_path)).keys()

    def change(tensors):
        tensors[f"albert.{MAPPING}.{leaf}"] += 1e-6

    change_tensors(tmp_path, change)
    mapped = dataclasses.replace(config, map_equal_sizes=True)
    assert huggingface.read_config(file) == mapped
    weights = huggingface.read_weights(str(tmp_path))
    mapping = "bert/encoder/embedding_hidden_mapping_in"
    assert weights.keys() - names == {f"{mapping}/kernel", f"{mapping}/bias"}
    huggingface.write(str(tmp_path / "again"), mapped, weights)
    assert tensors_of(tmp_path / "again").keys() == tensors_of(tmp_path).keys()
    # Half of it is none either.
    change_tensors(tmp_path, lambda t: t.pop(f"albert.{MAPPING}.{leaf}"))
    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config.map_equal_sizes
    model = AlbertModel(checkpoint.config)
    with pytest.raises(errors.UserError, match="mapping_in.*nothing"):
        restoring.restore(model, checkpoint)


def test_config_has_the_special_pieces_and_the_dropout_of_the_heads(folder):
    values = config_of(folder)
    ids = [values[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert ids == [0, 2, 3]
    assert values["classifier_dropout_prob"] == 0.1
    text = (folder / "config.json").read_text()
    assert text.startswith('{\n  "architectures": [\n    "')


def test_the_encoder_of_a_classifier_of_tokens_is_read(tmp_path, caplog):
    weights = random_weights(
        make_model=MODELS["AlbertForSequenceClassification"]
    )
    huggingface.write(str(tmp_path), CONFIG, weights)
    change_config(tmp_path, architectures=["AlbertForTokenClassification"])
    found = huggingface.read_weights(str(tmp_path))
    assert "holds a classifier of tokens" in caplog.text
    assert found.keys() == {n for n in weights if n.startswith("bert/")}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_act": "silu"}, "hidden_act='silu'. Allowed are gelu_new"),
        ({"hidden_size": 7}, "hidden_size=7"),
        ({"num_hidden_layers": 18, "num_hidden_groups": 14}, "rounds"),
    ],
)
def test_unsupported_configs_are_refused(folder, values, message):
    change_config(folder, **values)
    with pytest.raises(errors.UserError, match=message):
        huggingface.read_config(str(folder / "config.json"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_damaged_files_are_an_error(folder, name):
    path = folder / name
    content = path.read_bytes()
    for part in (b"", content[:5], content[:100], content[:-2], b"\xff\xfe{"):
        path.write_bytes(part)
        message = f"{name} (is not|holds|cannot be read)"
        with pytest.raises(errors.UserError, match=message):
            huggingface.read_weights(str(folder))


def test_a_missing_config_is_an_error(tmp_path):
    assert not huggingface.is_folder(str(tmp_path))
    with pytest.raises(errors.UserError, match="config.json does not exist"):
        huggingface.read_weights(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "safe_serialization=True"),
        ("tf_model.h5", "safe_serialization=True"),
        ("model.safetensors.index.json", "max_shard_size"),
        ("else", "has no model.safetensors. Copy"),
    ],
)
def test_other_forms_of_weights_are_named(folder, name, message):
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(errors.UserError, match=message):
        huggingface.read_weights(str(folder))


def test_only_a_folder_of_an_albert_is_one(folder, tmp_path):
    assert huggingface.is_folder(str(folder))
    assert huggingface.is_folder(f"{folder}/")
    change_config(folder, model_type="bert")
    assert not huggingface.is_folder(str(folder))
    assert not huggingface.is_folder(str(folder / "config.json"))
    assert not huggingface.is_folder(str(FIXTURES / "original_tiny_lamb"))


def test_remote_folders_are_read_and_written():
    weights = random_weights()
    place = "ram://test_huggingface/folder"
    huggingface.write(place, CONFIG, weights)
    assert huggingface.is_folder(place)
    assert_same(huggingface.read_weights(place), weights)
    tf.io.gfile.rmtree(place)


FLOAT_GROUPS = {
    "num_hidden_layers": 22,
    "num_hidden_groups": 22,
    "float_group_index": True,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": "attention"}, "share='attention'"),
        ({"share": "ffn", "num_hidden_groups": 1}, "share='ffn'"),
        ({"num_hidden_layers": 18, "num_hidden_groups": 14}, "rounds"),
        (FLOAT_GROUPS, "float_group_index=True"),
    ],
)
def test_what_transformers_cannot_share_is_refused(tmp_path, changes, message):
    config = dataclasses.replace(CONFIG, **changes)
    with pytest.raises(errors.UserError, match=message):
        huggingface.write(str(tmp_path / "new"), config, random_weights())
    assert not (tmp_path / "new").exists()


def squad_v2_head():
    weights = random_weights(
        make_model=lambda e: question_answering.AlbertSquadV2(e, 2, 2)
    )
    return {n: v for n, v in weights.items() if not n.startswith("bert/")}


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.update(squad_v2_head()),
        lambda weights: weights.update(output_weights=np.ones([2, 6])),
        lambda weights: weights.pop("cls/seq_relationship/output_bias"),
    ],
    ids=["squad_v2", "two_models", "half_a_head"],
)
def test_heads_that_transformers_lacks_are_refused(tmp_path, change):
    weights = random_weights()
    change(weights)
    with pytest.raises(errors.UserError, match="has a head with just"):
        huggingface.write(str(tmp_path / "new"), CONFIG, weights)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("change", ["drop", "add"])
def test_weights_of_another_config_are_refused(tmp_path, change):
    weights = random_weights()
    name = "bert/encoder/transformer/group_1/inner_group_1/LayerNorm/beta"
    value = weights.pop(name)
    if change == "add":
        weights |= {name: value, "bert/more": value}
    with pytest.raises(errors.UserError, match="do not fit the config"):
        huggingface.write(str(tmp_path / "new"), CONFIG, weights)
    assert not (tmp_path / "new").exists()
