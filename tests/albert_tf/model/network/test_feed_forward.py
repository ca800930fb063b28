"""The feed-forward part against plain NumPy, with every activation."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import HIDDEN_ACTS
from albert_tf.model.network import feed_forward
from tests.albert_tf.model import passes
from tests.reference import encoder as reference


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
