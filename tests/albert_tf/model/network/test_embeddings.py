"""Embeddings against plain NumPy, and the logits of words."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network import embeddings
from tests.albert_tf.model import passes
from tests.conftest import LAYER_ATOL
from tests.reference import encoder as reference


def make(config):
    return passes.fill(embeddings.Embeddings(config, "bert/embeddings"))


def test_embeddings_equal_plain_numpy(small_config):
    config = dataclasses.replace(small_config, **passes.RATES)
    layer, batch = make(config), passes.make_batch()
    ids, segments = batch["input_ids"].numpy(), batch["segment_ids"].numpy()
    assert [v.shape[0] for v in layer.variables[:3]] == [400, 2, 64]
    words, total = layer(batch, passes.Scaling())
    plain = reference.Encoder(config, passes.values(layer), passes.scale)
    passes.assert_close(total, plain.embed(ids, segments))
    np.testing.assert_array_equal(words, layer.word_embeddings.numpy()[ids])


def test_positions_may_be_given(small_config):
    layer, batch = make(small_config), passes.make_batch()
    order = [0, 1, 2, 3, 0, 1, 2, 5, 9, 4]
    given = {**batch, "position_ids": tf.constant([order] * 3)}
    plain, total = (layer(inputs)[1].numpy() for inputs in (batch, given))
    same = np.arange(10) == order
    np.testing.assert_array_equal(total[:, same], plain[:, same])
    table = layer.position_embeddings
    table.assign(tf.concat([tf.gather(table, order), table[10:]], 0))
    np.testing.assert_array_equal(total, layer(batch)[1])


def test_the_table_of_positions_has_a_dense_gradient(small_config):
    """The norm of the gradient counts look-ups in another way."""
    layer, batch = make(small_config), passes.make_batch()
    found = []
    for more in ({}, {"position_ids": tf.tile(tf.range(10)[None], [3, 1])}):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer({**batch, **more})[1]))
        found.append(tape.gradient(loss, layer.position_embeddings))
    assert not any(isinstance(g, tf.IndexedSlices) for g in found)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=LAYER_ATOL)


@pytest.mark.parametrize("first", [False, True])
def test_logits_are_products_with_every_word(small_config, first):
    config = dataclasses.replace(small_config, project_words_first=first)
    layer = make(config)
    ids = tf.range(64)[None]
    words, _ = layer({"input_ids": ids, "segment_ids": tf.zeros_like(ids)})
    x = tf.random.stateless_normal([5, words.shape[-1]], [1, 2])
    logits = layer.word_logits(x)
    assert logits.shape == [5, 400]
    passes.assert_close(logits[:, :64], x @ tf.transpose(words[0]), 1e-5)
