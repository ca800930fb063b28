"""Losses and metrics as sums that can be added up."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.losses import objectives
from tests.conftest import LOSS_RTOL

VALUES = np.array([0.5, 3.0, 2.0, 7.0], "f4")
WEIGHTS = np.array([1.0, 2.0, 0.5, 0.0], "f4")
OBJECTIVE = objectives.Objective(
    losses={"b": 0.5, "a": 2.0},
    metrics=("c",),
    sample_weights=lambda batch: dict.fromkeys("abc", batch["weights"]),
    sample_values=lambda outputs, batch: {
        "a": batch["values"],
        "b": tf.ones_like(batch["weights"]),
        "c": 2 * batch["values"],
    },
    forward=lambda model, batch, seed: ({}, batch),
    epsilons={"b": 1.5},
)


def batch(rows=slice(4)):
    values = {"values": VALUES, "weights": WEIGHTS}
    return {name: tf.constant(value[rows]) for name, value in values.items()}


def test_sums_and_losses_of_parts_are_those_of_the_whole():
    whole = OBJECTIVE.normalizers(batch())
    parts = [
        OBJECTIVE.weighted_sums(None, batch(rows))
        for rows in (slice(1), slice(1, 4))
    ]
    sums = OBJECTIVE.weighted_sums(None, batch())
    np.testing.assert_allclose(
        sum(map(OBJECTIVE.stack, parts)), OBJECTIVE.stack(sums), rtol=LOSS_RTOL
    )
    shares = [OBJECTIVE.total(part, whole) for part in parts]
    expected = 2.0 * (VALUES @ WEIGHTS) / 3.5 + 0.5 * 3.5 / (3.5 + 1.5)
    np.testing.assert_allclose(sum(shares), expected, rtol=LOSS_RTOL)


def test_a_loss_without_entries_is_zero():
    nothing = {"values": tf.zeros([0]), "weights": tf.zeros([0])}
    sums = OBJECTIVE.weighted_sums(None, nothing)
    assert float(OBJECTIVE.total(sums, OBJECTIVE.normalizers(nothing))) == 0


def test_a_mean_over_tokens_is_zero_where_none_counts():
    values = tf.constant([[1.0, 2.0, 6.0], [4.0, 5.0, 6.0]])
    weights = tf.constant([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    found = objectives.token_mean(values, weights)
    np.testing.assert_array_equal(found, [3.5, 0])


def test_parts_have_factors_weights_and_metrics_of_their_own():
    def part(name, factor, metrics, epsilon=0.0):
        return objectives.LossTerm(
            name,
            factor,
            lambda batch: factor * batch["weights"],
            lambda outputs, batch: {
                f"{name}_{kind}": len(kind) * batch["values"]
                for kind in ("loss", *metrics)
            },
            metrics,
            epsilon,
        )

    parts = [part("one", 0.5, ("share", "x")), part("two", 2.0, (), 1.5)]
    both = objectives.combine(parts, OBJECTIVE.forward)
    assert both.names == ("one_loss", "two_loss", "one_share", "one_x")
    assert both.losses == {"one_loss": 0.5, "two_loss": 2.0}
    assert both.epsilons == {"two_loss": 1.5}
    sums = both.stack(both.weighted_sums(None, batch()))
    total, weight = VALUES @ WEIGHTS, WEIGHTS.sum()
    expected = [[4, 1], [4, 1], [5, 1], [1, 1]] * np.array([total, weight])
    expected *= np.array([[0.5], [2], [0.5], [0.5]])
    np.testing.assert_allclose(sums, expected, rtol=LOSS_RTOL)


def test_examples_have_the_weight_1_and_padding_has_0():
    objective = objectives.per_example(
        {"b": 0.5, "a": 2.0}, OBJECTIVE.sample_values, ("c",), OBJECTIVE.forward
    )
    given = {**batch(), "is_real_example": tf.constant([1, 1, 0, 1])}
    total = VALUES[[0, 1, 3]].sum()
    sums = objective.stack(objective.weighted_sums(None, given))
    np.testing.assert_array_equal(sums, [[3, 3], [total, 3], [2 * total, 3]])
    assert (
        objectives.per_example({"a": 1.0}, OBJECTIVE.sample_values).metrics
        == ()
    )


@pytest.mark.parametrize("seed, training", [(None, False), ([1, 2], True)])
def test_model_is_trained_where_there_is_a_dropout_seed(seed, training):
    def model(batch, training, dropout_seed):
        return {"asked": (batch, training, dropout_seed)}

    outputs, same = objectives.plain_forward(model, "batch", seed)
    assert outputs["asked"] == ("batch", training, seed)
    assert same == "batch"
