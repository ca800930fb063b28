"""The classifier's defaults; logits: tests/parity/test_original_heads.py."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from tests.albert_tf.model import initial_weights, passes


@pytest.mark.parametrize(("mean", "deviation"), [(0, 2), (3, 1), (3, 2)])
def test_a_regression_is_multiplied_and_shifted(small_config, mean, deviation):
    encoder = AlbertModel(small_config)
    model = classification.AlbertClassifier(encoder, 1, 0.3, mean, deviation)
    assert model.dropout == 0.3
    passes.fill(model)
    x = tf.random.stateless_normal([5, 16], [1, 2])
    numbers = x @ tf.transpose(model.output_weights) + model.output_bias
    passes.assert_close(model.logits(x), deviation * numbers + mean, 1e-5)


@pytest.mark.parametrize("size", [0, 5])
def test_a_head_reads_the_vectors_that_an_embedder_gives(small_config, size):
    """With the projection of its checkpoint; without one nothing changes."""
    encoder = AlbertModel(small_config)
    embedder = embedding.AlbertEmbedder(encoder, "mean", size)
    model = classification.AlbertClassifier(
        AlbertModel(small_config), 3, vectors=("mean", size)
    )
    passes.fill(embedder)
    weights = {v.name.split(":")[0]: v.numpy() for v in embedder.variables}
    checkpoint = checkpoint_reader.Checkpoint(
        "memory",
        {name: list(value.shape) for name, value in weights.items()},
        None,
        lambda names: {name: weights[name] for name in names},
    )
    restored = restoring.restore(model, checkpoint, new_heads=True)
    identity = [] if size else ["projection/kernel", "projection/bias"]
    assert sorted(restored.new) == sorted(
        ["output_weights", "output_bias", *identity]
    )
    batch = passes.make_batch()
    vectors = embedder(batch)["embedding"]
    logits = vectors @ tf.transpose(model.output_weights) + model.output_bias
    passes.assert_close(model(batch)["logits"], logits)
    again = type(model).from_config(model.get_config())
    assert [v.shape for v in again.variables] == [
        v.shape for v in model.variables
    ]


def test_each_depth_drops_and_has_its_own_head(small_config):
    """A tenth; texts that come together are as in rows of their own."""
    encoder = AlbertModel(
        dataclasses.replace(
            small_config, hidden_dropout_prob=0.2, initializer_range=0.5
        )
    )
    model = classification.AlbertClassifier(encoder, 1)
    model.add_exits((2,), own_heads=True)
    initial_weights.assert_initial(passes.head_of(model), 0.02)
    passes.fill(model)
    batch = passes.make_batch()
    last = model(batch, **passes.TRAINING)
    cls = tf.zeros([3, 1], tf.int32)
    below = encoder(batch, output_positions=cls, **passes.TRAINING)
    x = encoder.pooler(below["all_encoder_layers"][3][:, 0])
    for use, (pooled, depth, found) in enumerate(
        [(below["pooled_output"], 4, last), (x, 2, *last["exits"])], 1
    ):
        key = passes.fold(passes.SEED, passes.HEAD, use)
        weights, bias = (v.numpy() for v in model.output_of(depth))
        expected = passes.drop(pooled.numpy(), 0.1, key) @ weights.T + bias
        passes.assert_close(found["logits"], expected)
    pairs = {
        name: tf.reshape(tf.tile(value, [2, 1]), [3, 2, 10])
        for name, value in batch.items()
    }
    together = model(pairs)["logits"]
    logits = tf.tile(model(batch)["logits"], [2, 1])
    passes.assert_close(together, tf.reshape(logits, [3, 2]))
