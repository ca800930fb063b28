"""Pretraining: which predictions and examples count for the losses."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import layouts, marks
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import LOSS_RTOL

OBJECTIVE = pretraining_objective.make()


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
    """Of what has a weight or a label, in examples that are real."""
    batch["next_sentence_labels"][1] = layouts.NO_LABEL
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
    order_loss = -sum(order[row, labels[row]] for row in (0, 2))
    order_correct = sum(order[row].argmax() == labels[row] for row in (0, 2))
    for name, expected in {
        "masked_lm_loss": (loss, 6),
        "masked_lm_accuracy": (correct, 6),
        "sentence_order_loss": (order_loss, 2),
        "sentence_order_accuracy": (order_correct, 2),
    }.items():
        np.testing.assert_allclose(sums[name], expected, rtol=LOSS_RTOL)


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


def test_instances_of_one_row_have_the_losses_of_their_own_rows(model):
    """Two in a row, of 6 tokens and of 4 with padding; 2 words in each."""
    draw = np.random.default_rng(3).integers
    lengths = np.array([6, 4] * 3)
    real = (np.arange(6) < lengths[:, None]).astype(np.int32)
    alone = {
        "input_ids": draw(5, 400, [6, 6]),
        "input_mask": real,
        "segment_ids": draw(2, size=[6, 6]),
        "masked_lm_positions": draw(4, size=[6, 2]),
        "masked_lm_ids": draw(5, 400, [6, 2]),
        "masked_lm_weights": np.array([[1, 1], [1, 0]] * 3, np.float32),
        "next_sentence_labels": np.array([[0], [1], [layouts.NO_LABEL]] * 2),
        "is_real_example": np.ones(6, np.int32),
    }
    packed = {n: v.copy().reshape(3, -1) for n, v in alone.items()}
    del packed["input_mask"]
    packed["masked_lm_positions"] += [0, 0, 6, 6]
    packed["is_real_example"] = np.ones(3, np.int32)
    packed["position_ids"] = np.tile(np.arange(6), [3, 2])
    packed["instance_ids"] = np.tile(np.repeat([1, 2], 6), [3, 1])
    packed["instance_ids"] *= real.reshape(3, 12)
    packed["cls_positions"] = np.array([[0, 6]] * 3)
    found = compute(model, packed)
    for name, pair in compute(model, alone).items():
        assert found[name] == pytest.approx(pair, rel=LOSS_RTOL), name


def test_each_task_counts_the_examples_that_it_has(small_config, batch):
    tasks = {"sentence_distance": 3, "sentence_reordering": 9}
    model = pretraining.AlbertPretrainer(
        AlbertModel(small_config),
        tasks=tasks,
        token_tasks=["capitalization"],
    )
    objective = pretraining_objective.make(
        "sop,reordering,distance",
        token_objective="capitalization",
        token_factor=0.25,
    )
    assert list(objective.losses.values()) == [1, 1, 1, 1, 0.25]
    starts = np.zeros(batch["input_ids"].shape, np.int32)
    starts[0, 1:4] = marks.WORD
    starts[0, 2] |= marks.UPPER
    starts[1, 5] = marks.UPPER  # It starts no word.
    given = {
        **batch,
        "marks": starts,
        "sentence_task": np.array([[1], [2], [2], [0]], np.int32),
        "next_sentence_labels": np.array([[8], [2], [-1], [1]], np.int32),
    }
    sums = passes.compute(objective, model, given)
    outputs = model(passes.tensors(given))
    order = log_softmax(outputs["sentence_reordering_logits"])
    away = log_softmax(outputs["sentence_distance_logits"])
    upper = log_softmax(outputs["capitalization_logits"])
    for name, expected in {
        "sentence_order_loss": (0, 0),
        "sentence_reordering_loss": (-order[0, 8], 1),
        "sentence_distance_loss": (-away[1, 2], 1),
        "capitalization_loss": (
            -upper[0, 1, 0] - upper[0, 2, 1] - upper[0, 3, 0],
            3,
        ),
    }.items():
        np.testing.assert_allclose(sums[name], expected, rtol=LOSS_RTOL)
