"""Logits of tokens: against their definition."""

import numpy as np

from albert_tf.model.heads import token_classification
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes


def test_logits_are_a_linear_layer_on_every_token(small_config):
    model = token_classification.AlbertTokenClassifier(
        AlbertModel(small_config), 4
    )
    initial_weights.assert_initial(passes.head_of(model), 0.02)
    passes.fill(model)
    batch = passes.make_batch()
    x = model.encoder(batch)["sequence_output"].numpy()
    kernel, bias = model.output_weights.numpy(), model.output_bias.numpy()
    passes.assert_close(model(batch)["logits"], x @ kernel.T + bias, 1e-6)


def test_dropout_is_drawn_in_training_only(small_config):
    model = passes.fill(
        token_classification.AlbertTokenClassifier(AlbertModel(small_config), 4)
    )
    batch = passes.make_batch()
    assert model.dropout == 0.1
    calm = model(batch)["logits"].numpy()
    one, same, other = (
        model(batch, training=True, dropout_seed=np.array([n, 7], np.int32))
        for n in (1, 1, 2)
    )
    np.testing.assert_array_equal(one["logits"], same["logits"])
    assert np.abs(one["logits"] - calm).max() > 1e-3
    assert np.abs(one["logits"] - other["logits"]).max() > 1e-3
