"""Finding checkpoints and restoring them by name, strictly."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import checkpoints, errors, modeling
from albert_tf.heads import classification, pretraining
from tests.conftest import FIXTURES

RECORDED = str(FIXTURES / "original_tiny_lamb" / "model.ckpt-0")


@pytest.fixture
def recorded_config():
    return modeling.AlbertConfig.from_json_file(
        str(FIXTURES / "original_tiny_lamb" / "albert_config.json")
    )


@pytest.fixture
def pretrainer(small_config):
    return pretraining.AlbertPretrainer(modeling.AlbertModel(small_config))


def save(model, path):
    return tf.train.Checkpoint(model=model).write(str(path))


def values_of(model):
    return {checkpoints.name_of(v): v.numpy() for v in model.variables}


def assert_same_values(model, expected):
    actual = values_of(model)
    for name, value in actual.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_original_checkpoint_is_restored_by_name(recorded_config):
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(recorded_config))
    assert checkpoints.restore(model, RECORDED) == RECORDED
    reader = tf.train.load_checkpoint(RECORDED)
    assert_same_values(
        model, {name: reader.get_tensor(name) for name in values_of(model)}
    )


def test_own_checkpoint_round_trip(pretrainer, small_config, tmp_path):
    prefix = save(pretrainer, tmp_path / "model.ckpt-7")
    other = pretraining.AlbertPretrainer(modeling.AlbertModel(small_config))
    checkpoints.restore(other, prefix)
    assert_same_values(other, values_of(pretrainer))


def test_encoder_is_restored_from_a_checkpoint_with_heads(
    pretrainer, small_config, tmp_path
):
    prefix = save(pretrainer, tmp_path / "model.ckpt-7")
    encoder = modeling.AlbertModel(small_config)
    checkpoints.restore(encoder, prefix)
    assert_same_values(encoder, values_of(pretrainer))


def test_head_without_scope_round_trip(small_config, tmp_path):
    models = [
        classification.AlbertClassifier(modeling.AlbertModel(small_config), 3)
        for _ in range(2)
    ]
    checkpoints.restore(models[1], save(models[0], tmp_path / "model.ckpt-1"))
    assert_same_values(models[1], values_of(models[0]))


@pytest.mark.parametrize(
    "suffix", ["", ".index", ".data-00000-of-00001", ".meta"]
)
def test_any_file_of_a_checkpoint_names_it(suffix):
    assert checkpoints.find(RECORDED + suffix) == RECORDED


def test_folder_means_its_best_checkpoint_else_its_latest(pretrainer, tmp_path):
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=pretrainer),
        str(tmp_path),
        max_to_keep=2,
        checkpoint_name="model.ckpt",
    )
    manager.save(checkpoint_number=3)
    latest = manager.save(checkpoint_number=5)
    assert checkpoints.find(f"{tmp_path}/") == latest
    best = save(pretrainer, tmp_path / checkpoints.BEST_NAME)
    assert checkpoints.find(str(tmp_path)) == best


def test_empty_folder_is_an_error(tmp_path):
    with pytest.raises(errors.UserError, match="--checkpoint=.*a folder with"):
        checkpoints.find(str(tmp_path), "checkpoint")


def test_missing_checkpoint_is_an_error(tmp_path):
    with pytest.raises(
        errors.UserError, match="--init_checkpoint=.*/x.index does not exist"
    ):
        checkpoints.find(str(tmp_path / "x"))


def test_every_variable_without_a_partner_is_listed(
    pretrainer, small_config, tmp_path
):
    prefix = save(pretrainer, tmp_path / "model.ckpt-7")
    config = dataclasses.replace(
        small_config, num_hidden_groups=1, vocab_size=401
    )
    other = modeling.AlbertModel(dataclasses.replace(config, inner_group_num=3))
    before = values_of(other)
    with pytest.raises(errors.UserError) as error:
        checkpoints.restore(other, prefix)
    message = str(error.value)
    transformer = "bert/encoder/transformer"
    for line in (
        "bert/embeddings/word_embeddings: model [401, 8], checkpoint [400, 8]",
        f"{transformer}/group_0/inner_group_2/LayerNorm/beta: "
        "model [16], checkpoint nothing",
        f"{transformer}/group_1/inner_group_0/LayerNorm/beta: "
        "model nothing, checkpoint [16]",
    ):
        assert f"  {line}\n" in message
    assert "cls/" not in message
    assert_same_values(other, before)


def test_truncated_data_is_an_error(recorded_config, tmp_path):
    for path in (FIXTURES / "original_tiny_lamb").glob("model.ckpt-0.*"):
        shutil.copy(path, tmp_path)
    data = tmp_path / "model.ckpt-0.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    model = modeling.AlbertModel(recorded_config)
    with pytest.raises(errors.UserError, match="cannot be read"):
        checkpoints.restore(model, str(tmp_path / "model.ckpt-0"))


def test_damaged_index_is_an_error(recorded_config, tmp_path):
    (tmp_path / "x.index").write_bytes(b"no table")
    with pytest.raises(errors.UserError, match="--init_checkpoint=.*cannot be"):
        checkpoints.read(str(tmp_path / "x"))


def test_scope_of_a_module_and_optimizer_state_are_ignored(
    recorded_config, tmp_path
):
    reader = tf.train.load_checkpoint(RECORDED)
    names = list(checkpoints.read(RECORDED).keys)
    tensors = [reader.get_tensor(name) for name in names]
    extra = ["module/" + name + "/adam_m" for name in names] + ["global_step"]
    prefix = str(tmp_path / "module.ckpt")
    tf.raw_ops.SaveV2(
        prefix=tf.constant(prefix + "_part"),
        tensor_names=["module/" + name for name in names] + extra,
        shape_and_slices=[""] * (2 * len(names) + 1),
        tensors=[*tensors, *tensors, tf.constant(3, tf.int64)],
    )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[prefix + "_part"], destination_prefix=prefix
    )
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(recorded_config))
    checkpoints.restore(model, prefix)
    assert_same_values(model, dict(zip(names, tensors, strict=True)))
    assert set(checkpoints.read(prefix).keys) == set(names)
