"""Heads of SQuAD: logits, and the search for answers, in plain NumPy.

Recordings of the original: tests/parity/test_original_heads.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import question_answering
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import initial_weights, passes

IDS = np.array([[2, 17, 30, 8, 40, 3], [2, 5, 6, 7, 3, 0]])
P_MASK = np.array([[1, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 1]])


def make(head, config, *arguments):
    return passes.fill(head(AlbertModel(config), *arguments), 0.3)


@pytest.mark.parametrize(
    ("head", "count", "stddev"),
    [
        # The classifiers' range, whatever the config says.
        (question_answering.AlbertSquadV1, 2, 0.02),
        (question_answering.AlbertSquadV2, 11, 0.05),
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


def test_logits_of_version_1_are_one_product(small_config):
    model = make(question_answering.AlbertSquadV1, small_config)
    outputs = model(IDS)
    x = model.encoder(IDS)["sequence_output"].numpy().astype(np.float64)
    for row, name in enumerate(("start_logits", "end_logits")):
        expected = x @ model.output_weights[row].numpy()
        expected += model.output_bias[row].numpy()
        passes.assert_close(outputs[name], expected)


@pytest.fixture
def version_2(small_config):
    return make(question_answering.AlbertSquadV2, small_config, 2, 3)


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


def test_no_answer_lies_outside_of_the_passage(version_2):
    starts = tf.constant([2, 1])
    outputs = version_2(
        {"input_ids": IDS, "p_mask": P_MASK, "start_positions": starts}
    )
    for name in ("start_log_probs", "end_log_probs"):
        probabilities = np.exp(outputs[name].numpy())
        np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
        assert (probabilities[P_MASK == 1] == 0).all()
        assert (probabilities[P_MASK == 0] > 0).all()


@pytest.mark.parametrize("searches", [False, True])
def test_squad_v2_drops_inside_the_answerability(version_2, searches):
    model, batch = version_2, passes.make_batch()
    x = model.encoder(batch, **passes.TRAINING)["sequence_output"].numpy()
    weights = passes.values(model)
    batch["p_mask"] = 1 - batch["segment_ids"]
    if not searches:
        batch["start_positions"] = tf.constant([3, 4, 3])
    scores = x @ weights["start_logits/dense/kernel"][:, 0]
    scores = np.where(batch["p_mask"], -np.inf, scores)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    both = np.concatenate([np.einsum("bs,bsh->bh", shares, x), x[:, 0]], 1)
    hidden = np.tanh(
        both @ weights["answer_class/dense_0/kernel"]
        + weights["answer_class/dense_0/bias"]
    )
    hidden = passes.drop(hidden, 0.1, passes.fold(passes.SEED, passes.HEAD, 1))
    expected = (hidden @ weights["answer_class/dense_1/kernel"])[:, 0]
    passes.assert_close(model(batch, **passes.TRAINING)["cls_logits"], expected)
