"""Dense layer, norm and feed-forward part, against plain NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import HIDDEN_ACTS, AlbertConfig
from albert_tf.model.network import feed_forward, layers
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL
from tests.reference import encoder as reference


def test_a_kernel_starts_from_the_range_of_the_config():
    config = AlbertConfig(vocab_size=1, initializer_range=0.3)
    dense = layers.Dense("a/dense", 50, 40, config)
    initial_weights.assert_initial(passes.named(dense), 0.3)


@pytest.mark.parametrize("training", [False, True])
def test_dense_transforms_the_last_axis(training):
    dense = layers.Dense("a/dense", 3, 2, AlbertConfig(vocab_size=1))
    assert dense.kernel.name == "a/dense/kernel:0"
    generator = np.random.default_rng(1)
    kernel, bias = generator.normal(size=[3, 2]), generator.normal(size=2)
    dense.set_weights([kernel, bias])
    for shape in ([4, 5, 3], [4, 3]):
        x = generator.normal(size=shape)
        actual = dense(tf.constant(x, tf.float32), training=training)
        np.testing.assert_allclose(actual, x @ kernel + bias, atol=LAYER_ATOL)
    assert dense(tf.cast(x, "bfloat16"), training=training).dtype == "bfloat16"


@pytest.mark.parametrize("training", [False, True])
def test_norm_follows_its_formula(training):
    norm = passes.fill(layers.LayerNorm("a/LayerNorm", 50, 4.0), 1.0)
    gamma, beta = (
        passes.values(norm)[f"a/LayerNorm/{part}"] for part in ("gamma", "beta")
    )
    x = np.random.default_rng(1).normal(7, 5, [4, 50])
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt(x.var(-1, keepdims=True) + 4.0) * gamma + beta
    found = norm(tf.constant(x, tf.float32), training=training)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("activation", HIDDEN_ACTS)
@pytest.mark.parametrize("training", [False, True])
def test_feed_forward_equals_plain_numpy(small_config, activation, training):
    config = dataclasses.replace(
        small_config,
        hidden_act=activation,
        initializer_range=0.3,
        **passes.RATES,
    )
    layer = passes.fill(feed_forward.FeedForward(config, "bert/x"))
    x = np.random.default_rng(4).normal(size=[2, 6, 16])
    plain = reference.Encoder(config, passes.values(layer), passes.scale)
    expected = plain.feed_forward(
        x, "bert/x", 0, reference.ACTIVATIONS[activation]
    )
    x = tf.constant(x, tf.float32)
    actual = layer(x, passes.Scaling(), training=training)
    passes.assert_close(actual, expected)
