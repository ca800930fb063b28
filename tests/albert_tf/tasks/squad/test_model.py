"""Heads of SQuAD: logits, and the search for answers, in plain NumPy.

Recordings of the original: tests/parity/test_original_heads.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.squad import model as squad_model
from tests.albert_tf.model import initial_weights, passes
from tests.conftest import LOSS_RTOL
from tests.reference import encoder as reference

IDS = np.array([[2, 17, 30, 8, 40, 3], [2, 5, 6, 7, 3, 0]])
P_MASK = np.array([[1, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 1]])


def make(head, config, *arguments):
    return passes.fill(head(AlbertModel(config), *arguments), 0.3)


@pytest.mark.parametrize(
    ("head", "count", "stddev"),
    [
        # The classifiers' range, whatever the config says.
        (squad_model.AlbertSquadV1, 2, 0.02),
        (squad_model.AlbertSquadV2, 11, 0.05),
    ],
)
def test_new_heads_start_from_a_truncated_normal(
    small_config, head, count, stddev
):
    config = dataclasses.replace(
        small_config, initializer_range=0.05, hidden_size=64
    )
    found = passes.head_of(head(AlbertModel(config)))
    assert len(found) == count
    initial_weights.assert_initial(found, stddev)


@pytest.mark.parametrize("arguments", [{}, passes.TRAINING])
def test_logits_of_version_1_are_one_product(small_config, arguments):
    config = dataclasses.replace(small_config, hidden_dropout_prob=0.2)
    model = make(squad_model.AlbertSquadV1, config)
    outputs = model(IDS, **arguments)
    x = model.encoder(IDS, **arguments)["sequence_output"].numpy()
    weights = passes.values(model)
    for row, name in enumerate(("start_logits", "end_logits")):
        expected = x @ weights["cls/squad/output_weights"][row]
        expected += weights["cls/squad/output_bias"][row]
        passes.assert_close(outputs[name], expected)


@pytest.fixture
def version_2(small_config):
    return make(squad_model.AlbertSquadV2, small_config, 2, 3, 0.3)


def test_search_takes_the_best_ends_of_the_best_starts(version_2):
    found = version_2({"input_ids": IDS, "p_mask": P_MASK})
    assert found["end_top_index"].shape == (2, 2 * 3)
    for k in range(2):
        starts = found["start_top_index"][:, k]
        scores = version_2(
            {"input_ids": IDS, "p_mask": P_MASK, "start_positions": starts}
        )
        np.testing.assert_array_equal(
            np.argsort(-scores["start_log_probs"].numpy())[:, k], starts
        )
        # Nearly equal scores may stand in either order.
        ends = scores["end_log_probs"].numpy()
        index = found["end_top_index"].numpy()[:, 3 * k : 3 * k + 3]
        assert [len(set(row)) for row in index] == [3, 3]
        best = -np.sort(-ends)[:, :3]
        passes.assert_close(np.take_along_axis(ends, index, 1), best)
        found_ends = found["end_top_log_probs"][:, 3 * k : 3 * k + 3]
        passes.assert_close(found_ends, best)
        passes.assert_close(found["cls_logits"], scores["cls_logits"])


def test_no_more_is_searched_than_there_are_positions(small_config):
    model = make(squad_model.AlbertSquadV2, small_config)
    assert model.dropout == 0.1
    for length, top in ((4, 4), (6, 5)):
        found = model(
            {"input_ids": IDS[:, :length], "p_mask": P_MASK[:, :length]}
        )
        assert found["start_top_index"].shape == (2, top)
        assert found["end_top_index"].shape == (2, top**2)


def shares(scores, p_mask):
    powers = np.where(p_mask, 0, np.exp(scores))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("searches", [False, True])
def test_training_of_version_2_equals_plain_numpy(version_2, searches):
    """It drops inside the answerability; no answer lies outside of p_mask."""
    model, batch = version_2, passes.make_batch()
    x = model.encoder(batch, **passes.TRAINING)["sequence_output"].numpy()
    plain = reference.Encoder(model.encoder.config, passes.values(model))
    p_mask = batch["p_mask"] = 1 - batch["segment_ids"].numpy()
    starts = shares(plain.dense(x, "start_logits/dense")[..., 0], p_mask)
    both = np.concatenate([np.einsum("bs,bsh->bh", starts, x), x[:, 0]], 1)
    hidden = np.tanh(plain.dense(both, "answer_class/dense_0"))
    hidden = passes.drop(hidden, 0.3, passes.fold(passes.SEED, passes.HEAD, 1))
    kernel = plain.weights["answer_class/dense_1/kernel"]
    right = np.array([3, 4, 3])
    if not searches:
        batch["start_positions"] = right
    found = model(batch, **passes.TRAINING)
    passes.assert_close(found["cls_logits"], (hidden @ kernel)[:, 0])
    if searches:
        return
    begun = x[[0, 1, 2], right][:, None] + 0 * x
    hidden = plain.dense(np.concatenate([x, begun], -1), "end_logits/dense_0")
    hidden = plain.norm(np.tanh(hidden), "end_logits/LayerNorm")
    ends = shares(plain.dense(hidden, "end_logits/dense_1")[..., 0], p_mask)
    for name, expected in (("start", starts), ("end", ends)):
        passes.assert_close(np.exp(found[f"{name}_log_probs"]), expected)


# Objectives, for given outputs.

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
