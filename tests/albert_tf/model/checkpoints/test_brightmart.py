"""Checkpoints and config files of brightmart's albert_zh."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.checkpoints import (
    brightmart,
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import serving
from albert_tf.model.heads import classification, from_checkpoint, pretraining
from albert_tf.model.network.encoder import AlbertModel
from tests import brightmart_files
from tests.conftest import PARITY_ATOL, tiny_config
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
    model = from_checkpoint.make_model(config, checkpoint)
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
    for name, value in expected.items():
        np.testing.assert_allclose(
            outputs[name], value, atol=PARITY_ATOL, rtol=0, err_msg=name
        )
    heads = model(inputs)
    np.testing.assert_allclose(
        heads["masked_lm_logits"],
        plain.masked_lm_logits(expected["sequence_output"], positions),
        atol=PARITY_ATOL,
        rtol=0,
    )
    scope = "cls/seq_relationship"
    np.testing.assert_allclose(
        heads["sentence_order_logits"],
        expected["pooled_output"] @ weights[f"{scope}/output_weights"].T
        + weights[f"{scope}/output_bias"],
        atol=PARITY_ATOL,
        rtol=0,
    )


@pytest.mark.parametrize(
    ("precision", "close"), [("float32", 1e-6), ("bfloat16", 1e-2)]
)
def test_weights_converted_for_serving_fill_masks(
    model, batch, precision, close
):
    inputs = {name: tf.constant(x, tf.int32) for name, x in batch.items()}
    inputs["masked_lm_positions"] = tf.constant([[1], [2], [3]])
    expected = model(inputs)["masked_lm_logits"]
    encoder = AlbertModel(model.encoder.config, precision=precision)
    served = pretraining.AlbertPretrainer(encoder)
    served.set_weights(model.get_weights())
    outputs = serving.ServedEncoder(encoder, freeze=True)(inputs)
    actual = served.masked_lm_logits(
        outputs["sequence_output"], inputs["masked_lm_positions"]
    )
    atol = close * np.ptp(expected)
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


def test_gradients_are_the_slopes_of_the_loss(model, batch):
    """Along the gradient of each variable, by differences."""
    inputs = {name: tf.constant(x, tf.int32) for name, x in batch.items()}
    inputs["masked_lm_positions"] = tf.constant([[1], [2], [3]])

    def loss():
        outputs = model(inputs, training=True, dropout_seed=tf.constant([1, 2]))
        return sum(tf.reduce_mean(x**2) for x in outputs.values())

    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, model.variables)
    for variable, gradient in zip(model.variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        norm = float(tf.norm(gradient))
        if variable.name.endswith("/key/bias:0"):  # The softmax ignores it.
            assert norm < 1e-5
            continue
        step = 0.02 * gradient / norm
        before = variable.numpy()
        ends = []
        for sign in (1, -1):
            variable.assign(before + sign * step)
            ends.append(float(loss()))
        variable.assign(before)
        slope = (ends[0] - ends[1]) / 0.04
        assert slope == pytest.approx(norm, rel=0.02), variable.name


def test_optimizer_state_and_heads_are_read_as_in_other_layouts(
    weights, tmp_path
):
    theirs = "bert/encoder/layer_shared/output/LayerNorm/beta"
    ours = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/beta"
    prefix = brightmart_files.save(
        weights,
        tmp_path / "x.ckpt",
        **{
            f"{theirs}/adam_m": np.ones(12, np.float32),
            "global_step": np.array(3),
            "output_weights": np.ones([4, 12], np.float32),
            "output_bias": np.ones(4, np.float32),
        },
    )
    checkpoint = checkpoint_reader.read(prefix)
    assert set(checkpoint.state) == {f"{ours}/adam_m", "global_step"}
    config = AlbertConfig.from_json_file(
        brightmart_files.write_config(tmp_path / "c.json")
    )
    model = classification.AlbertClassifier(AlbertModel(config), 4)
    restoring.restore(model, checkpoint)


@pytest.mark.parametrize("old", [{}, {"ln_type": None}])
def test_config_files_mean_the_other_order(tmp_path, old):
    path = brightmart_files.write_config(tmp_path / "c.json", **old)
    config = AlbertConfig.from_json_file(path)
    assert config.project_words_first
    assert (config.num_hidden_groups, config.share) == (1, "all")


def test_config_files_before_ln_type_are_recognized(tmp_path):
    values = {
        k: v for k, v in brightmart_files.CONFIG.items() if k != "ln_type"
    }
    assert brightmart.describes_albert(values)
    del values["embedding_size"]  # BERT's.
    assert not brightmart.describes_albert(values)


def test_norms_before_the_sublayers_are_refused(tmp_path):
    path = brightmart_files.write_config(tmp_path / "c.json", ln_type="preln")
    with pytest.raises(
        errors.UserError, match="ln_type='preln': this model of brightmart's"
    ):
        AlbertConfig.from_json_file(path)


def test_a_config_without_the_key_names_the_layout(weights, tmp_path):
    prefix = brightmart_files.save(weights, tmp_path / "x.ckpt")
    sizes = {
        k: v for k, v in brightmart_files.CONFIG.items() if k.endswith("_size")
    }
    sizes["max_position_embeddings"] = 16
    del sizes["pooler_fc_size"]
    model = AlbertModel(
        AlbertConfig(**sizes, num_hidden_layers=3, num_attention_heads=3)
    )
    with pytest.raises(
        errors.UserError, match="This is the layout of brightmart's albert_zh"
    ):
        restoring.restore(model, prefix)


def test_hugging_face_has_no_such_model(model, tmp_path):
    values = {checkpoint_reader.name_of(v): v.numpy() for v in model.variables}
    with pytest.raises(errors.UserError, match="brightmart's albert_zh, is no"):
        huggingface.write(str(tmp_path / "hf"), model.encoder.config, values)
    assert not (tmp_path / "hf").exists()


def test_names_of_other_layouts_stay():
    for name in (
        "bert/encoder/layer_0/output/dense/bias",
        "bert/encoder/layer_shared/other/dense/bias",
        "bert/pooler/dense/bias",
    ):
        assert brightmart.our_name(name) == name


def test_embeddings_of_the_encoder_s_width_are_projected_too():
    config = tiny_config(embedding_size=16, project_words_first=True)
    encoder = AlbertModel(config)
    assert encoder.embeddings.word_projection.shape == (16, 16)
    assert encoder.embedding_mapping is None
