"""Multiple choice: each choice has its own score, padding is never chosen."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.race import model as multiple_choice
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL


@pytest.fixture
def model(small_config):
    return passes.fill(
        multiple_choice.AlbertMultipleChoice(AlbertModel(small_config)), 0.3
    )


def test_choices_drop_what_a_classifier_does(small_config):
    model = multiple_choice.AlbertMultipleChoice(
        AlbertModel(small_config), dropout=0.3
    )
    assert model.scorer.dropout == 0.3
    ids = tf.random.stateless_uniform([3, 4, 6], [1, 2], 5, 400, tf.int32)
    scores = model({"input_ids": ids}, **passes.TRAINING)["logits"]
    rows = {"input_ids": tf.reshape(ids, [12, 6])}
    expected = model.scorer(rows, **passes.TRAINING)["logits"]
    passes.assert_close(scores, tf.reshape(expected, [3, 4]))


@pytest.fixture
def questions():
    generator = np.random.default_rng(2)
    shape = [3, 4, 10]
    lengths = generator.integers(4, 10, [3, 4, 1])
    return {
        "input_ids": tf.constant(generator.integers(5, 400, shape), tf.int32),
        "input_mask": tf.constant(np.arange(10) < lengths, tf.int32),
        "segment_ids": tf.constant([[[0] * 5 + [1] * 5] * 4] * 3, tf.int32),
    }


def test_scores_are_those_of_every_choice_alone(model, questions):
    scores = model(questions)["logits"]
    assert (scores.shape, scores.dtype) == ([3, 4], tf.float32)
    assert model.scorer.dropout == 0.1
    for choice in range(4):
        alone = {k: v[:, choice] for k, v in questions.items()}
        pooled = model.encoder(alone)["pooled_output"].numpy()
        expected = pooled @ model.scorer.output_weights.numpy()[0]
        expected += model.scorer.output_bias.numpy()[0]
        passes.assert_close(scores[:, choice], expected, PARITY_ATOL)
    flat = {k: tf.reshape(v, [12, 10]) for k, v in questions.items()}
    pooled = tf.reshape(model.encoder(flat)["pooled_output"], [3, 4, 16])
    passes.assert_close(model.logits(pooled, questions["input_mask"]), scores)


def test_padding_choices_are_never_chosen(model, questions):
    empty = tf.constant([[[1], [1], [0], [0]]] * 3)
    batch = {**questions, "input_mask": questions["input_mask"] * empty}
    odds = tf.nn.softmax(model(batch)["logits"]).numpy()
    assert (odds[:, 2:] == 0).all()
    pooled = tf.random.stateless_normal([3, 4, 16], [1, 2])
    logits = model.logits(pooled, batch["input_mask"])
    np.testing.assert_array_equal(
        logits < -1e29, [[False] * 2 + [True] * 2] * 3
    )
    np.testing.assert_allclose(odds.sum(1), 1, rtol=1e-6)
    two = {k: v[:, :2] for k, v in questions.items()}
    expected = tf.nn.softmax(model(two)["logits"])
    passes.assert_close(odds[:, :2], expected, PARITY_ATOL)
