"""Reading checkpoints by names; test_restoring.py reads whole ones."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader
from tests import tf1_checkpoints
from tests.conftest import FIXTURES, refused


def test_damaged_index_is_an_error(tmp_path):
    (tmp_path / "x.index").write_bytes(b"no table")
    with refused("`init_checkpoint=.*` cannot be"):
        checkpoint_reader.read(str(tmp_path / "x"))


def test_what_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """Root may read all files, so the error is TensorFlow's for others."""
    (tmp_path / "x.index").write_bytes(b"no table")
    reason = f"{tmp_path}/x.index; Permission denied"
    raised = tf.errors.OpError(None, None, reason, tf.errors.UNKNOWN)

    def load(_):
        raise raised

    monkeypatch.setattr(tf.train, "load_checkpoint", load)
    with refused("the right to") as error:
        checkpoint_reader.read(str(tmp_path / "x"))
    assert "damaged" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("bert/pooler/dense/bias", "bert"),
        ("cls/predictions/output_bias", "cls/predictions"),
        ("cls/squad/output_weights", "cls/squad"),
        ("output_weights", "classifier"),
        ("output_bias", "classifier"),
        ("answer_class/dense_0/bias", "squad_v2"),
        ("start_logits/dense/bias", "squad_v2"),
        ("end_logits/dense_0/bias", "squad_v2"),
    ],
)
def test_part_of(name, part):
    assert checkpoint_reader.part_of(name) == part


def test_state_of_another_adam_is_left_out(tmp_path):
    name = "bert/pooler/dense/bias"
    names = [f"module/{name}", f"{name}/Adam", f"{name}/Adam_1", "beta1_power"]
    names += [f"adam_v/{name}", f"{name}/lamb_m"]
    names += "iteration current_learning_rate learning_rate pace".split()
    names += "skipped skipped_in_row good_in_row loss_scale elapsed".split()
    names += ["save_counter"]
    values = {n: np.full(2, i, "f4") for i, n in enumerate(names)}
    prefix = tf1_checkpoints.write(tmp_path / "x.ckpt", values)
    checkpoint = checkpoint_reader.read(prefix)
    assert checkpoint.shapes == {name: [2]}
    moments = {f"{name}/adam_v", f"{name}/adam_m"}
    assert checkpoint.state == {*moments, "global_step"}
    assert checkpoint.projection_size == 0
    shapes = {"projection/kernel": [6, 5], "projection/bias": [5]}
    found = dataclasses.replace(checkpoint, shapes=shapes)
    assert found.projection_size == 5
    for ours, theirs in (
        (name, f"module/{name}"),
        (f"{name}/adam_v", f"adam_v/{name}"),
        (f"{name}/adam_m", f"{name}/lamb_m"),
        ("global_step", "iteration"),
    ):
        np.testing.assert_array_equal(
            checkpoint.load([ours])[ours], values[theirs]
        )
    # Of the config files beside it ours counts first, and only if it is one.
    assert checkpoint.config is None
    for file, text, size in (
        ("bert_config.json", '{"vocab_size": 8}', 8),
        ("albert_config.json", '{"vocab_size": 7}', 7),
    ):
        (tmp_path / file).write_text(text)
        assert checkpoint_reader.config_beside(prefix).vocab_size == size
    (tmp_path / "albert_config.json").write_text("{")
    assert checkpoint_reader.config_beside(prefix) is None


def test_config_of_a_hugging_face_folder_is_its_own(tmp_path):
    shutil.copytree(FIXTURES / "huggingface_tiny", tmp_path / "hf")
    (tmp_path / "hf" / "albert_config.json").write_text('{"vocab_size": 7}')
    assert checkpoint_reader.read(str(tmp_path / "hf")).config.vocab_size == 211
