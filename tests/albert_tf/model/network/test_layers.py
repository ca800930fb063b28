"""Dense layer and norm."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.config import AlbertConfig
from albert_tf.model.network import layers
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LAYER_ATOL


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


@pytest.mark.parametrize("training", [False, True])
def test_norm_of_a_row_has_mean_beta_and_deviation_gamma(training):
    norm = layers.LayerNorm("a/LayerNorm", 50, 1e-12)
    assert [v.name for v in norm.variables] == [
        "a/LayerNorm/beta:0",
        "a/LayerNorm/gamma:0",
    ]
    norm.beta.assign(tf.fill([50], 3.0))
    norm.gamma.assign(tf.fill([50], 2.0))
    x = tf.random.stateless_normal([4, 50], [1, 2], 7.0, 5.0)
    y = norm(x, training=training).numpy()
    np.testing.assert_allclose(y.mean(-1), 3, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 2, atol=1e-5)
