"""Objectives of answers in a passage: against NumPy, for given outputs."""

import numpy as np
import tensorflow as tf

from albert_tf.tasks.squad import model as squad_model
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

BATCH = {
    "start_positions": np.array([1, 0, 2]),
    "end_positions": np.array([2, 0, 3]),
    "is_impossible": np.array([0, 1, 0]),
    "is_real_example": np.array([1, 1, 0]),  # The last one is padding.
}
SCORES = np.random.default_rng(1).normal(size=[2, 3, 4]).astype("f4")
LOGS = SCORES - np.log(np.exp(SCORES).sum(-1, keepdims=True))
# Of the first two examples, at the right positions.
START, END = LOGS[0, 0, 1] + LOGS[0, 1, 0], LOGS[1, 0, 2] + LOGS[1, 1, 0]


def compute(objective, **outputs):
    tensors = {name: tf.constant(value) for name, value in outputs.items()}
    found = passes.compute(
        objective, lambda batch, training, dropout_seed: tensors, BATCH
    )
    assert objective.losses == dict.fromkeys(found, 0.5)
    return found


def test_version_1_has_the_losses_of_start_and_end():
    found = compute(
        squad_model.V1, start_logits=SCORES[0], end_logits=SCORES[1]
    )
    assert list(found) == ["start_loss", "end_loss"]
    np.testing.assert_allclose(
        list(found.values()), [[-START, 2], [-END, 2]], rtol=LOSS_RTOL
    )


def test_version_2_also_has_that_of_answerability():
    cls = np.array([0.3, -1.2, 5.0], "f4")
    found = compute(
        squad_model.V2,
        start_log_probs=LOGS[0],
        end_log_probs=LOGS[1],
        cls_logits=cls,
    )
    # The second question has no answer.
    answer = np.log1p(np.exp(0.3)) + np.log1p(np.exp(1.2))
    assert list(found) == ["start_loss", "end_loss", "answer_loss"]
    np.testing.assert_allclose(
        list(found.values()),
        [[-START, 2], [-END, 2], [answer, 2]],
        rtol=LOSS_RTOL,
    )
