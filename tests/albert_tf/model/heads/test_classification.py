"""The classifier's defaults; logits: tests/parity/test_original_heads.py."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes


def test_new_head_starts_from_its_own_range(small_config):
    config = dataclasses.replace(small_config, initializer_range=0.05)
    model = classification.AlbertClassifier(AlbertModel(config), 9)
    initial_weights.assert_initial(passes.head_of(model), 0.02)


@pytest.mark.parametrize(("mean", "deviation"), [(0, 2), (3, 1), (3, 2)])
def test_a_regression_is_multiplied_and_shifted(small_config, mean, deviation):
    encoder = AlbertModel(small_config)
    model = classification.AlbertClassifier(encoder, 1, 0.1, mean, deviation)
    passes.fill(model)
    x = tf.random.stateless_normal([5, 16], [1, 2])
    numbers = x @ tf.transpose(model.output_weights) + model.output_bias
    passes.assert_close(model.logits(x), deviation * numbers + mean, 1e-5)


def test_a_tenth_of_the_pooled_output_is_dropped(small_config):
    encoder = AlbertModel(
        dataclasses.replace(small_config, hidden_dropout_prob=0.2)
    )
    model = passes.fill(classification.AlbertClassifier(encoder, 3))
    batch = passes.make_batch()
    cls = tf.zeros([3, 1], tf.int32)
    below = encoder(batch, output_positions=cls, **passes.TRAINING)
    key = passes.fold(passes.SEED, passes.HEAD, 1)
    pooled = passes.drop(below["pooled_output"].numpy(), 0.1, key)
    expected = pooled @ model.output_weights.numpy().T
    expected += model.output_bias.numpy()
    passes.assert_close(model(batch, **passes.TRAINING)["logits"], expected)
