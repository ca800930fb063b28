"""Checkpoints and config files of brightmart's albert_zh."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import (
    checkpoint_reader,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification, from_checkpoint
from albert_tf.model.network.encoder import AlbertModel
from tests import brightmart_files
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL, refused
from tests.reference import encoder as reference


@pytest.fixture
def weights():
    return brightmart_files.make_weights()


@pytest.fixture
def model(weights, tmp_path):
    checkpoint = checkpoint_reader.read(
        brightmart_files.save(weights, tmp_path / "albert_model.ckpt")
    )
    config = AlbertConfig.from_json_file(
        brightmart_files.write_config(tmp_path / "c.json")
    )
    model = from_checkpoint.make_untrained_model(config, checkpoint)
    restoring.restore(model, checkpoint)
    return model


@pytest.fixture
def batch():
    mask = np.arange(10) < np.array([[10], [7], [4]])
    ids = np.random.default_rng(2).integers(5, 60, mask.shape) * mask
    return {
        "input_ids": ids,
        "input_mask": mask.astype(int),
        "segment_ids": (mask & (np.arange(10) > 2)).astype(int),
    }


def test_outputs_equal_plain_numpy_by_their_names(model, weights, batch):
    positions = np.array([[1, 9], [4, 2], [3, 0]])
    inputs = {**batch, "masked_lm_positions": positions}
    inputs = {n: tf.constant(x, tf.int32) for n, x in inputs.items()}
    plain = reference.BrightmartEncoder(model.encoder.config, weights)
    expected = plain.encode(*batch.values())
    outputs = model.encoder({name: inputs[name] for name in batch})
    passes.assert_close(outputs, expected, PARITY_ATOL)
    scope = "cls/seq_relationship"
    order = expected["pooled_output"] @ weights[f"{scope}/output_weights"].T
    expected = {
        "masked_lm_logits": plain.masked_lm_logits(
            expected["sequence_output"], positions
        ),
        "sentence_order_logits": order + weights[f"{scope}/output_bias"],
    }
    passes.assert_close(model(inputs), expected, PARITY_ATOL)


def test_optimizer_state_and_heads_are_read_as_in_other_layouts(
    weights, tmp_path
):
    theirs = "bert/encoder/layer_shared/output/LayerNorm/beta"
    ours = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/beta"
    more = {
        f"{theirs}/adam_m": np.ones(12, np.float32),
        "global_step": np.array(3),
        "output_weights": np.ones([4, 12], np.float32),
        "output_bias": np.ones(4, np.float32),
    }
    checkpoint = checkpoint_reader.read(
        brightmart_files.save(weights, tmp_path / "x.ckpt", **more)
    )
    assert set(checkpoint.state) == {f"{ours}/adam_m", "global_step"}
    path = brightmart_files.write_config(tmp_path / "c.json", ln_type=None)
    config = AlbertConfig.from_json_file(path)
    assert (config.num_hidden_groups, config.share) == (1, "all")
    model = classification.AlbertClassifier(AlbertModel(config), 4)
    restoring.restore(model, checkpoint)


def test_a_config_without_the_key_names_the_layout(weights, tmp_path):
    prefix = brightmart_files.save(weights, tmp_path / "x.ckpt")
    path = brightmart_files.write_config(tmp_path / "c.json")
    config = AlbertConfig.from_json_file(path)
    model = AlbertModel(dataclasses.replace(config, project_words_first=False))
    with refused("This is the layout of brightmart's albert_zh"):
        restoring.restore(model, prefix)
