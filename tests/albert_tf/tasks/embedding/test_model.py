"""Vectors of texts: against their definition, and what padding changes."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from tests.albert_tf.model import passes

MASK = np.array([[1] * 7, [1] * 4 + [0] * 3, [0] * 7], np.int32)


@pytest.fixture
def batch():
    ids = np.random.default_rng(0).integers(5, 90, [3, 7], np.int32)
    return {"input_ids": tf.constant(ids), "input_mask": tf.constant(MASK)}


def expected(model, batch, **arguments):
    """Pool the encoder's outputs text by text, project and divide."""
    found = []
    for x, mask in zip(
        model.encoder(batch, **arguments)["sequence_output"].numpy(),
        MASK,
        strict=True,
    ):
        x = x[mask > 0]
        pools = {"mean": x.mean, "max": x.max, "cls": lambda _, x=x: x[0]}
        vector = pools[model.text_pooling](0)
        if model.projection_size:
            kernel, bias = (v.numpy() for v in model.projection.variables)
            vector = vector @ kernel + bias
        found.append(vector / np.linalg.norm(vector))
        if len(found) == 2:  # The third is padding.
            return np.array(found)
    return None


@pytest.mark.parametrize("width", [0, 5])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_what_the_docstring_says(
    small_config, batch, pooling, width
):
    config = dataclasses.replace(small_config, hidden_dropout_prob=0.2)
    encoder = AlbertModel(config)
    model = passes.fill(embedding.AlbertEmbedder(encoder, pooling, width))
    arguments = passes.TRAINING if width else {}
    vectors = model(batch, **arguments)["embedding"]
    assert vectors.shape == [3, width or small_config.hidden_size]
    passes.assert_close(vectors[:2], expected(model, batch, **arguments), 1e-6)
    assert np.isfinite(vectors).all()
    tiny = model.vectors(1e-9 * tf.ones([1, 7, 16]), tf.ones([1, 7], tf.int32))
    assert np.linalg.norm(tiny) == pytest.approx(1)


def test_texts_that_come_together_are_what_each_is_alone(small_config, batch):
    """And the mask may be left out."""
    model = passes.fill(embedding.AlbertEmbedder(AlbertModel(small_config)))
    alone = model(batch)["embedding"]
    together = model({k: tf.stack([v, v[::-1]]) for k, v in batch.items()})
    passes.assert_close(
        together["embedding"], tf.stack([alone, alone[::-1]]), 1e-6
    )
    bare = model({"input_ids": batch["input_ids"]})["embedding"]
    passes.assert_close(bare[0], alone[0], 1e-6)
