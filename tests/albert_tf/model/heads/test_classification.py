"""The classifier: parity with the recorded original, and its dropout."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights
from tests.conftest import FIXTURES, PARITY_ATOL

RECORDING = FIXTURES / "original_head_classifier"


@pytest.fixture(scope="module")
def recorded():
    return dict(np.load(RECORDING / "fixture.npz"))


@pytest.fixture(scope="module")
def restored():
    """The recorded classifier; its head is found by name."""
    config = AlbertConfig.from_json_file(str(RECORDING / "albert_config.json"))
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    restoring.restore(model, str(RECORDING / "model.ckpt-0"))
    return model


@pytest.fixture(scope="module")
def batch(recorded):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: tf.constant(recorded[name]) for name in names}


def test_logits_equal_the_original(restored, batch, recorded):
    logits = restored(batch)["logits"]
    np.testing.assert_allclose(
        logits, recorded["logits"], atol=PARITY_ATOL, rtol=0
    )
    np.testing.assert_allclose(
        tf.nn.softmax(logits),
        recorded["probabilities"],
        atol=PARITY_ATOL,
        rtol=0,
    )
    assert logits.numpy().argmax(-1).tolist() == [2, 2, 2]


def test_head_carries_the_names_of_the_original(restored):
    names = {checkpoint_reader.name_of(v): v.shape for v in restored.variables}
    assert names["output_weights"] == [3, 48]
    assert names["output_bias"] == [3]


def test_new_head_starts_from_its_own_range(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = classification.AlbertClassifier(AlbertModel(config), 9)
    head = {"weights": model.output_weights, "bias": model.output_bias}
    initial_weights.assert_initial(head, 0.02)


def test_dropout_drops_a_tenth_of_the_pooled_output(small_config):
    # With the identity as its weights, the head shows what it was given.
    size = small_config.hidden_size
    encoder = AlbertModel(small_config)
    model = classification.AlbertClassifier(encoder, size)
    # Drawn by a seed: next to 0, a quotient shows rounding.
    generator = np.random.default_rng(1)
    for variable in encoder.variables:
        variable.assign(generator.normal(0, 0.3, variable.shape))
    model.output_weights.assign(tf.eye(size))
    batch = {"input_ids": tf.ones([64, 4], tf.int32)}
    still = model(batch)["logits"].numpy()
    quotients = np.concatenate(
        [
            model(batch, training=True, dropout_seed=tf.constant([12345, s]))[
                "logits"
            ]
            / still
            for s in range(8)
        ]
    )
    kept = quotients > 0.5
    np.testing.assert_allclose(quotients[kept], 1 / 0.9, rtol=1e-4)
    np.testing.assert_array_equal(quotients[~kept], 0)
    # 8,192 draws: the standard error of the share is 0.0033.
    assert kept.mean() == pytest.approx(0.9, abs=0.015)
