"""Objectives of vectors: against NumPy, for given vectors."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import embedding_objectives
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

REAL = np.array([1, 1, 1, 0])  # The last example is padding.


def make_vectors(texts):
    x = np.random.default_rng(3).normal(size=[4, texts, 5]).astype("f4")
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def model_of(vectors):
    return lambda batch, training, dropout_seed: {
        "embedding": tf.constant(vectors)
    }


def test_cosine_learns_the_score():
    vectors = make_vectors(2)
    scores = np.array([0.5, -1, 1, 0.7], "f4")
    found = passes.compute(
        embedding_objectives.COSINE,
        model_of(vectors),
        {"label_ids": scores, "is_real_example": REAL},
    )
    errors = (vectors[:, 0] * vectors[:, 1]).sum(-1) - scores
    np.testing.assert_allclose(
        found["cosine_loss"], [(errors[:3] ** 2).sum(), 3], rtol=LOSS_RTOL
    )


def log_softmax(row):
    return row - np.log(np.exp(row).sum())


@pytest.mark.parametrize("texts", [2, 3])
def test_a_text_is_to_be_found_among_those_of_the_batch(texts):
    """In both directions, the second without negatives; not padding."""
    vectors = make_vectors(texts)
    objective = embedding_objectives.ranking(0.1)
    found = passes.compute(
        objective, model_of(vectors), {"is_real_example": REAL}
    )
    real = vectors[:3].astype("f8")
    first, second = real[:, 0], real[:, 1]
    others = np.concatenate([real[:, n] for n in range(1, texts)])
    loss = correct = 0
    for n in range(3):
        cosines = others @ first[n] / 0.1
        loss -= log_softmax(cosines)[n] / 2
        loss -= log_softmax(first @ second[n] / 0.1)[n] / 2
        correct += cosines.argmax() == n
    assert list(found) == ["ranking_loss", "accuracy"]
    np.testing.assert_allclose(found["ranking_loss"], [loss, 3], rtol=LOSS_RTOL)
    np.testing.assert_allclose(found["accuracy"], [correct, 3])
