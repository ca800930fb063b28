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


# Of three real examples and padding: the names of their texts.
DIFFERENT = [("a", "b", "c"), ("d", "e", "f"), ("g", "h", "i"), ("", "", "")]
EQUAL = {
    "first": [("a", "b", "c"), ("a", "e", "f"), ("g", "h", "i"), ("", "", "")],
    "second": [("a", "b", "c"), ("d", "b", "f"), ("g", "h", "i"), ("", "", "")],
    "own": [("a", "b", "c"), ("d", "a", "f"), ("b", "h", "i"), ("", "", "")],
    "itself": [("a", "a", "c"), ("d", "e", "a"), ("g", "h", "i"), ("", "", "")],
    "third": [("a", "b", "h"), ("d", "e", "b"), ("g", "h", "d"), ("", "", "")],
}


def is_negative(examples, n, m, place):
    """Whether text `place` of example m is wrong for the first text of n."""
    (first, second, *_), text = examples[n], examples[m][place]
    is_right = place == 1 and examples[m][0] == first
    return not is_right and text not in (first, second)


@pytest.mark.parametrize("texts", [2, 3])
@pytest.mark.parametrize("examples", [DIFFERENT, *EQUAL.values()])
def test_a_text_is_to_be_found_among_those_of_the_batch(texts, examples):
    """In both directions, the second without negatives; not padding.

    Texts that are right for another reason are not counted as wrong.
    """
    vectors = make_vectors(texts)
    objective = embedding_objectives.ranking(0.1)
    names = sorted({name for example in examples for name in example})
    ids = [[[7, names.index(x)] for x in e[:texts]] for e in examples]
    batch = {"input_ids": np.array(ids), "is_real_example": REAL}
    sums = passes.compute(objective, model_of(vectors), batch)
    real = vectors[:3].astype("f8")
    loss = correct = 0
    for n in range(3):
        right = real[n, 0] @ real[n, 1] / 0.1
        wrong = [
            real[n, 0] @ real[m, place] / 0.1
            for m in range(3)
            for place in range(1, texts)
            if is_negative(examples, n, m, place)
        ]
        back = [
            real[m, 0] @ real[n, 1] / 0.1
            for m in range(3)
            if is_negative(examples, m, n, 1)
            and examples[m][1] != examples[n][1]
        ]
        for others in (wrong, back):
            loss -= log_softmax(np.array([right, *others]))[0] / 2
        correct += right > max(wrong)
    assert list(sums) == ["ranking_loss", "accuracy"]
    np.testing.assert_allclose(sums["ranking_loss"], [loss, 3], rtol=LOSS_RTOL)
    np.testing.assert_allclose(sums["accuracy"], [correct, 3])
