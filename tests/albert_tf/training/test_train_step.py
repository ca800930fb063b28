"""The update as one program that XLA compiles, and what it counts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import modeling, objectives
from albert_tf.model.heads import (
    classification,
    pretraining,
    question_answering,
)
from albert_tf.training import train_step
from tests.albert_tf.training import update_runs

BATCH, LENGTH, PREDICTIONS = 2, 32, 4


def make_batch(vocab_size, **labels):
    generator = np.random.default_rng(9)
    shape = [BATCH, LENGTH]
    values = {
        "input_ids": generator.integers(5, vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "is_real_example": np.ones([BATCH]),
        **labels,
    }
    return {
        name: tf.constant(value, tf.int32)
        if np.asarray(value).dtype != np.float32
        else tf.constant(value)
        for name, value in values.items()
    }


def predictions(vocab_size):
    generator = np.random.default_rng(10)
    shape = [BATCH, PREDICTIONS]
    return {
        "masked_lm_positions": generator.integers(0, LENGTH, shape),
        "masked_lm_ids": generator.integers(5, vocab_size, shape),
        "masked_lm_weights": np.ones(shape, np.float32),
        "next_sentence_labels": np.ones([BATCH, 1]),
    }


def pretraining_batch(vocab_size):
    return make_batch(vocab_size, **predictions(vocab_size))


def questions(vocab_size, choices=4):
    shape = [BATCH, choices, LENGTH // choices]
    generator = np.random.default_rng(11)
    return {
        "input_ids": generator.integers(5, vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "label_ids": [3, 1],
    }


# Without dropout: XLA draws other numbers from the same seed.
HEADS = {
    "classes": (
        lambda e: classification.AlbertClassifier(e, 3, dropout=0.0),
        classification.OBJECTIVE,
        {"label_ids": [2, 1]},
    ),
    "regression": (
        lambda e: classification.AlbertClassifier(e, 1, dropout=0.0),
        classification.REGRESSION_OBJECTIVE,
        {"label_ids": np.array([2.5, 1.0], np.float32)},
    ),
    "squad_v1": (
        question_answering.AlbertSquadV1,
        question_answering.V1_OBJECTIVE,
        {"start_positions": [3, 4], "end_positions": [5, 6]},
    ),
    "squad_v2": (
        lambda e: question_answering.AlbertSquadV2(e, dropout=0.0),
        question_answering.V2_OBJECTIVE,
        {
            "start_positions": [3, 4],
            "end_positions": [5, 6],
            "is_impossible": [0, 1],
            "p_mask": np.zeros([BATCH, LENGTH]),
        },
    ),
    "choices": (
        lambda e: classification.AlbertMultipleChoice(e, dropout=0.0),
        classification.OBJECTIVE,
        questions(400),
    ),
    "choices_in_parts": (
        lambda e: classification.AlbertMultipleChoice(
            e, dropout=0.0, choices_at_once=2
        ),
        classification.OBJECTIVE,
        questions(400),
    ),
    "pretraining": (
        pretraining.AlbertPretrainer,
        pretraining.OBJECTIVE,
        predictions(400),
    ),
}


@pytest.fixture
def maker(small_config):
    """Returns what makes the step of a head, always the same, and its batch."""
    config = dataclasses.replace(
        small_config,
        num_hidden_layers=1,
        num_hidden_groups=1,
        inner_group_num=1,
    )

    def of(name, parts):
        make_model, objective, labels = HEADS[name]

        def make():
            keras.utils.set_random_seed(2)
            model = make_model(modeling.AlbertModel(config))
            return update_runs.make_step(model, objective, parts=parts)

        return make, make_batch(config.vocab_size, **labels)

    return of


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", sorted(HEADS))
def test_compiled_as_a_whole_or_not_makes_no_difference(maker, name, parts):
    make, batch = maker(name, parts)
    plain = update_runs.run(make, batch, compiled=False)
    update_runs.assert_same(plain, update_runs.run(make, batch, compiled=True))


def test_fused_cross_entropy_makes_no_difference(maker, monkeypatch):
    make, batch = maker("pretraining", parts=2)
    plain = update_runs.run(make, batch, compiled=False)
    monkeypatch.setattr(objectives, "FUSED_FROM_CLASSES", 400)
    update_runs.assert_same(plain, update_runs.run(make, batch, compiled=True))


def test_what_no_loss_depends_on_is_left_alone(small_config):
    config = dataclasses.replace(small_config, max_position_embeddings=LENGTH)
    model = pretraining.AlbertPretrainer(
        modeling.AlbertModel(config), sentence_order=False
    )
    pooler = model.encoder.pooler.kernel
    before = pooler.numpy()
    step = update_runs.make_step(model, pretraining.make_objective("none"))
    tf.function(step)(pretraining_batch(config.vocab_size))
    np.testing.assert_array_equal(before, pooler)
    assert int(step.optimizer.iterations) == 1


def test_numbers_of_a_skipped_update_are_zeros(maker):
    make, batch = maker("classes", parts=1)
    step = make()
    *numbers, norm, skipped = step(batch).numpy()
    assert np.isfinite(numbers).all() and norm[0] > 0
    np.testing.assert_array_equal(skipped, [0, 1])
    kernel = step.model.encoder.pooler.kernel
    kernel.assign(tf.fill(kernel.shape, np.nan))
    *numbers, skipped = step(batch).numpy()
    np.testing.assert_array_equal(numbers, np.zeros_like(numbers))
    np.testing.assert_array_equal(skipped, [1, 1])
    assert int(step.guard.skipped) == 1


# What is skipped, and the scale of float16.


def note(guard, finite, times=1):
    """Note so many updates in a row."""

    @tf.function
    def repeat():
        for _ in tf.range(times):
            guard.note(tf.constant(finite))

    repeat()


def test_skipped_updates_are_counted_all_together_and_in_a_row():
    guard = train_step.Guard("float32")
    counts = []
    for finite in (True, False, False, True, False):
        note(guard, finite)
        counts.append((int(guard.skipped), int(guard.skipped_in_row)))
    assert counts == [(0, 0), (1, 1), (2, 2), (2, 0), (3, 1)]


def test_loss_scale_doubles_after_2000_good_updates_and_halves_at_once():
    guard = train_step.Guard("float16")
    assert float(guard.loss_scale) == 2**15
    note(guard, True, 1999)
    assert float(guard.loss_scale) == 2**15
    note(guard, True)
    assert float(guard.loss_scale) == 2**16
    note(guard, True, 1999)
    note(guard, False)
    assert float(guard.loss_scale) == 2**15
    note(guard, True, 1999)  # Counted anew.
    assert float(guard.loss_scale) == 2**15
    note(guard, True)
    assert float(guard.loss_scale) == 2**16


def test_loss_scale_doubles_again_after_2000_more():
    guard = train_step.Guard("float16")
    note(guard, True, 3999)
    assert float(guard.loss_scale) == 2**16
    note(guard, True)
    assert float(guard.loss_scale) == 2**17


def test_loss_scale_has_limits():
    guard = train_step.Guard("float16")
    note(guard, False, 30)
    assert float(guard.loss_scale) == 1
    guard.loss_scale.assign(2.0**24)
    note(guard, True, 2000)
    assert float(guard.loss_scale) == 2**24


def test_only_float16_has_a_loss_scale():
    for precision in ("float32", "bfloat16"):
        guard = train_step.Guard(precision)
        note(guard, False)
        note(guard, True, 2001)
        assert float(guard.loss_scale) == 1


def test_norm_counts_every_look_up_by_itself():
    gradients = {
        0: tf.constant([[3.0, 0.0], [0.0, 4.0]]),
        2: tf.constant([5.0]),
    }
    norm = train_step.global_norm(gradients, {})
    np.testing.assert_allclose(norm, 50**0.5, rtol=1e-6)
    # Two look-ups of row 0, of 1.5 each, make the gradient of 3.
    rows = {0: tf.constant(2 * 1.5**2 + 16)}
    norm = train_step.global_norm(gradients, rows)
    np.testing.assert_allclose(norm, (2 * 1.5**2 + 16 + 25) ** 0.5, rtol=1e-6)
