"""Losses and metrics as sums that can be added up."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import objectives
from tests.conftest import LOSS_RTOL

LOGITS = np.array(
    [[1.0, 3.0, 2.0], [0.5, 0.5, 4.0], [9.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "f4"
)
LABELS = np.array([1, 0, 0, 1], "i4")
WEIGHTS = np.array([1.0, 2.0, 0.5, 0.0], "f4")
CHANCES = np.exp(LOGITS.astype("f8"))
CHANCES /= CHANCES.sum(-1, keepdims=True)
LOSSES = -np.log(CHANCES[np.arange(4), LABELS])

OBJECTIVE = objectives.Objective(
    losses={"b": 0.5, "a": 2.0},
    metrics=("c",),
    sample_weights=lambda batch: dict.fromkeys("abc", batch["weights"]),
    sample_values=lambda model, batch, seed: {
        "a": objectives.cross_entropy(batch["logits"], batch["labels"]),
        "b": tf.ones_like(batch["weights"]),
        "c": objectives.correct(batch["logits"], batch["labels"]),
    },
    epsilons={"b": 1.5},
)


def batch(rows=slice(4)):
    values = {"logits": LOGITS, "labels": LABELS, "weights": WEIGHTS}
    return {name: tf.constant(value[rows]) for name, value in values.items()}


def ratios(rows=slice(4)):
    return {
        name: np.array([float(number) for number in ratio])
        for name, ratio in OBJECTIVE.ratios(None, batch(rows)).items()
    }


def test_cross_entropy_equals_plain_numpy():
    actual = objectives.cross_entropy(LOGITS, LABELS)
    np.testing.assert_allclose(actual, LOSSES, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale, offset", [(1, 0), (1, 1e4), (1e4, 0)])
def test_long_rows_are_fused_and_equal_tensorflow(dtype, scale, offset):
    classes = 1500
    # Otherwise both sides were TensorFlow's.
    assert classes > objectives.FUSED_FROM_CLASSES
    generator = np.random.default_rng(3)
    logits = generator.normal(size=[2, 3, classes]) * scale + offset
    logits = tf.cast(logits, dtype)
    labels = tf.constant(generator.integers(classes, size=[2, 3]), tf.int32)
    upstream = tf.constant(generator.normal(size=[2, 3]), tf.float32)

    def plain(logits, labels):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(logits, tf.float32)
        )

    # Batches of unknown size, as a distributed dataset may have them.
    unknown = tf.TensorSpec([None, 3, classes], dtype)
    fused = tf.function(
        objectives.cross_entropy,
        input_signature=[unknown, tf.TensorSpec([None, 3], tf.int32)],
    )
    found = []
    for function in (plain, objectives.cross_entropy, fused):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = function(logits, labels)
        gradient = tape.gradient(losses, logits, upstream)
        assert (losses.dtype, gradient.dtype) == (tf.float32, logits.dtype)
        found.append((losses, tf.cast(gradient, tf.float32)))
    (losses, gradient), *others = found
    for fused_losses, fused_gradient in others:
        np.testing.assert_allclose(fused_losses, losses, rtol=1e-6)
        np.testing.assert_allclose(
            fused_gradient, gradient, atol=1e-6 if dtype == "float32" else 1e-2
        )


@pytest.mark.parametrize("label", [-1, 1500])
def test_the_loss_of_an_impossible_label_is_not_a_number(label):
    losses = objectives.cross_entropy(tf.zeros([2, 1500]), [label, 0])
    np.testing.assert_allclose(losses, [np.nan, np.log(1500)], rtol=1e-6)


def test_correct_is_where_the_largest_logit_is_the_label():
    np.testing.assert_array_equal(
        objectives.correct(LOGITS, LABELS), [1, 0, 1, 1]
    )


def test_entries_may_have_any_shape_before_the_classes():
    logits, labels = LOGITS.reshape(2, 2, 3), LABELS.reshape(2, 2)
    np.testing.assert_allclose(
        objectives.cross_entropy(logits, labels),
        LOSSES.reshape(2, 2),
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        objectives.correct(logits, labels), [[1, 0], [1, 1]]
    )


def test_number_of_classes_may_be_unknown_until_the_graph_runs():
    unknown = tf.TensorSpec([None, None], tf.float32)
    compute = tf.function(objectives.cross_entropy).get_concrete_function(
        unknown, tf.TensorSpec([None], tf.int32)
    )
    actual = compute(tf.constant(LOGITS), tf.constant(LABELS))
    np.testing.assert_allclose(actual, LOSSES, atol=1e-6)


@pytest.mark.parametrize("seed, training", [(None, False), ([1, 2], True)])
def test_model_is_trained_where_there_is_a_dropout_seed(seed, training):
    def model(batch, training, dropout_seed):
        return {"asked": (batch, training, dropout_seed)}

    asked = objectives.outputs(model, "batch", seed)["asked"]
    assert asked == ("batch", training, seed)


def test_ratios_are_weighted_sums():
    actual = ratios()
    np.testing.assert_allclose(
        actual["a"], [LOSSES @ WEIGHTS, 3.5], rtol=LOSS_RTOL
    )
    np.testing.assert_array_equal(actual["c"], [1.5, 3.5])


@pytest.mark.parametrize("name", "abc")
def test_sums_of_parts_are_the_sum_of_the_whole(name):
    parts = ratios(slice(1))[name] + ratios(slice(1, 4))[name]
    np.testing.assert_allclose(parts, ratios()[name], rtol=LOSS_RTOL)


def test_shares_of_parts_add_up_to_the_loss_of_the_whole():
    whole = OBJECTIVE.denominators(batch())
    shares = [
        OBJECTIVE.total(OBJECTIVE.ratios(None, batch(rows)), whole)
        for rows in (slice(1), slice(1, 4))
    ]
    expected = 2.0 * (LOSSES @ WEIGHTS) / 3.5 + 0.5 * 3.5 / (3.5 + 1.5)
    np.testing.assert_allclose(sum(shares), expected, rtol=LOSS_RTOL)


def test_half_precision_logits_become_float32_losses():
    half = tf.constant(LOGITS, tf.float16)
    assert objectives.cross_entropy(half, LABELS).dtype == tf.float32


def test_names_are_losses_then_metrics():
    assert OBJECTIVE.names == ("b", "a", "c")
