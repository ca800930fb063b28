"""Pretraining: which predictions and examples count for the losses."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

OBJECTIVE = pretraining_objective.OBJECTIVE


@pytest.fixture
def model(small_config):
    return pretraining.AlbertPretrainer(AlbertModel(small_config))


@pytest.fixture
def batch():
    return passes.masked_batch()[0]


def compute(model, batch):
    return passes.compute(OBJECTIVE, model, batch)


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_losses_equal_plain_numpy(model, batch):
    sums = compute(model, batch)
    outputs = model(passes.tensors(batch))
    words = log_softmax(outputs["masked_lm_logits"])
    order = log_softmax(outputs["sentence_order_logits"])
    counted = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    loss = -sum(words[r, p, batch["masked_lm_ids"][r, p]] for r, p in counted)
    correct = sum(
        words[r, p].argmax() == batch["masked_lm_ids"][r, p] for r, p in counted
    )
    labels = batch["next_sentence_labels"][:, 0]
    order_loss = -sum(order[row, labels[row]] for row in range(3))
    order_correct = sum(order[row].argmax() == labels[row] for row in range(3))
    for name, expected in {
        "masked_lm_loss": (loss, 6),
        "masked_lm_accuracy": (correct, 6),
        "sentence_order_loss": (order_loss, 3),
        "sentence_order_accuracy": (order_correct, 3),
    }.items():
        np.testing.assert_allclose(sums[name], expected, rtol=LOSS_RTOL)


def test_padding_does_not_count(model, batch):
    """Neither predictions of weight 0 nor examples that are not real."""
    expected = compute(model, batch)
    batch["masked_lm_ids"][2, 1:] = 399
    batch["masked_lm_positions"][2, 1:] = 11
    assert compute(model, batch) == expected
    batch["input_ids"][3] = 7
    batch["masked_lm_ids"][3] = 7
    batch["next_sentence_labels"][3] = 1
    assert compute(model, batch) == expected


def test_examples_without_a_label_count_for_masked_words_only(model, batch):
    expected = compute(model, batch)
    batch["is_real_example"][1] = 0
    others = compute(model, batch)
    batch["is_real_example"][1] = 1
    batch["next_sentence_labels"][1] = layouts.NO_LABEL
    actual = compute(model, batch)
    for name, pair in actual.items():
        same = expected if name.startswith("masked_lm") else others
        assert pair == same[name]


def test_batch_without_labels_has_a_finite_loss_and_gradient(model, batch):
    batch["next_sentence_labels"][:] = layouts.NO_LABEL
    batch = passes.tensors(batch)
    with tf.GradientTape() as tape:
        sums = OBJECTIVE.weighted_sums(model, batch)
        loss = OBJECTIVE.total(sums, OBJECTIVE.normalizers(batch))
    assert [float(x) for x in sums["sentence_order_loss"]] == [0, 0]
    words = sums["masked_lm_loss"]
    expected = float(words.numerator) / (float(words.denominator) + 1e-5)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    gradient = tape.gradient(loss, model.order_weights)
    assert not np.any(gradient)


def test_batch_without_predictions_has_a_finite_loss(model, batch):
    batch["masked_lm_weights"][:] = 0
    batch = passes.tensors(batch)
    sums = OBJECTIVE.weighted_sums(model, batch)
    order = sums["sentence_order_loss"]
    total = OBJECTIVE.total(sums, OBJECTIVE.normalizers(batch))
    np.testing.assert_allclose(total, order.numerator / order.denominator)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("sop", "sentence_order"), ("nsp", "next_sentence"), ("none", None)],
)
def test_total_is_the_weighted_sum_of_its_losses(model, batch, kind, sentence):
    objective = pretraining_objective.make(kind, 3.0, 0.5)
    names = ["masked_lm_loss", "masked_lm_accuracy"]
    if sentence:
        names = [names[0], f"{sentence}_loss", names[1], f"{sentence}_accuracy"]
    assert list(objective.names) == names
    batch = passes.tensors(batch)
    normalizers = objective.normalizers(batch)
    sums = objective.weighted_sums(model, batch)
    loss = {name: float(sums[name].numerator) for name in objective.losses}
    # Six words, and 1e-5 of the original; three pairs of segments.
    expected = 3.0 * loss["masked_lm_loss"] / (6 + 1e-5)
    if sentence:
        expected += 0.5 * loss[f"{sentence}_loss"] / 3
    np.testing.assert_allclose(
        objective.total(sums, normalizers), expected, rtol=1e-6
    )


def test_instances_of_one_row_have_the_losses_of_their_own_rows(model, batch):
    """Of 12, 6, 9 and 4 tokens, in rows of 18 and 13 tokens."""
    lengths = np.array([12, 6, 9, 4])
    batch["input_mask"] = (np.arange(12) < lengths[:, None]).astype(np.int32)
    batch["masked_lm_positions"] %= lengths[:, None]
    batch["next_sentence_labels"][1] = layouts.NO_LABEL
    batch["is_real_example"][:] = 1

    def joined(name, counts, shifts=(0, 0, 0, 0)):
        """The first values of two rows in one, padded with 0."""
        parts = [
            row[:count] + shift
            for row, count, shift in zip(
                batch[name], counts, shifts, strict=True
            )
        ]
        rows = [np.concatenate(parts[:2]), np.concatenate(parts[2:])]
        width = max(map(len, rows))
        return np.stack([np.pad(row, (0, width - len(row))) for row in rows])

    words = 3, 2, 1, 3
    numbers = [[1] * 12 + [2] * 6, [1] * 9 + [2] * 4 + [0] * 5]
    weights = [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]
    packed = {
        "input_ids": joined("input_ids", lengths),
        "segment_ids": joined("segment_ids", lengths),
        "masked_lm_positions": joined(
            "masked_lm_positions", words, (0, 12, 0, 9)
        ),
        "masked_lm_ids": joined("masked_lm_ids", words),
        "masked_lm_weights": np.array(weights, np.float32),
        "position_ids": np.array(
            [[*range(12), *range(6)], [*range(9), *range(9)]]
        ),
        "instance_ids": np.array(numbers),
        "cls_positions": np.array([[0, 12, 0], [0, 9, 0]]),
        "next_sentence_labels": np.array([[0, -1, -1], [1, 0, -1]]),
        "is_real_example": np.ones(2, np.int32),
    }
    found = compute(model, packed)
    for name, pair in compute(model, batch).items():
        assert found[name] == pytest.approx(pair, rel=LOSS_RTOL), name
