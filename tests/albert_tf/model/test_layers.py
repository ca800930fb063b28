"""Linear layer, norm and dropout."""

import numpy as np
import tensorflow as tf

from albert_tf.model import layers
from albert_tf.model.config import AlbertConfig
from tests.conftest import LAYER_ATOL


def test_dense_transforms_the_last_axis():
    dense = layers.Dense("a/dense", 3, 2, AlbertConfig(vocab_size=1))
    assert dense.kernel.name == "a/dense/kernel:0"
    generator = np.random.default_rng(1)
    kernel, bias = generator.normal(size=[3, 2]), generator.normal(size=2)
    dense.set_weights([kernel, bias])
    x = generator.normal(size=[4, 5, 3])
    actual = dense(tf.constant(x, tf.float32))
    np.testing.assert_allclose(actual, x @ kernel + bias, atol=LAYER_ATOL)


def test_norm_of_a_row_has_mean_beta_and_deviation_gamma():
    norm = layers.LayerNorm("a/LayerNorm", 50)
    assert {v.name for v in norm.variables} == {
        "a/LayerNorm/beta:0",
        "a/LayerNorm/gamma:0",
    }
    norm.beta.assign(tf.fill([50], 3.0))
    norm.gamma.assign(tf.fill([50], 2.0))
    y = norm(tf.random.stateless_normal([4, 50], [1, 2], 7.0, 5.0)).numpy()
    np.testing.assert_allclose(y.mean(-1), 3, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 2, atol=1e-5)


def test_every_use_of_dropout_has_its_own_seed():
    dropout = layers.Dropout(tf.constant([1, 2]))
    ones = tf.ones([1000])
    first, second = dropout(ones, 0.25).numpy(), dropout(ones, 0.25).numpy()
    assert set(first) == {0, np.float32(1 / 0.75)}
    assert 0.2 < (first == 0).mean() < 0.3
    assert (first != second).any()


def test_dropout_without_a_seed_changes_nothing():
    ones = tf.ones([100])
    np.testing.assert_array_equal(layers.NO_DROPOUT(ones, 0.5), ones)
