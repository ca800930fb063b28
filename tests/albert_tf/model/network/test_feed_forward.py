"""The feed-forward part against plain NumPy, with every activation."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import HIDDEN_ACTS
from albert_tf.model.network import feed_forward
from tests.albert_tf.model import passes
from tests.conftest import LAYER_ATOL
from tests.reference import encoder as reference

ACTIVATIONS = {
    "gelu": reference.gelu,
    "gelu_erf": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


@pytest.mark.parametrize("activation", HIDDEN_ACTS)
@pytest.mark.parametrize("training", [False, True])
def test_feed_forward_equals_plain_numpy(small_config, activation, training):
    config = dataclasses.replace(
        small_config, hidden_act=activation, initializer_range=0.3
    )
    layer = passes.fill(feed_forward.FeedForward(config, "bert/x"))
    x = np.random.default_rng(4).normal(size=[2, 6, 16])
    weights = {n: v.numpy() for n, v in passes.named(layer).items()}
    expected = reference.Encoder(config, weights).feed_forward(
        x, "bert/x", 0, ACTIVATIONS[activation]
    )
    actual = layer(tf.constant(x, tf.float32), training=training)
    np.testing.assert_allclose(actual, expected, atol=LAYER_ATOL, rtol=0)
