"""The update as one program that XLA compiles, and what it counts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model.heads import pretraining
from albert_tf.model.losses import (
    cross_entropy,
    objectives,
    pretraining_objective,
)
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.training import train_step
from tests.albert_tf.model import passes
from tests.albert_tf.training import head_steps, update_runs
from tests.conftest import make_replicas


# The others are in test_train_step_of_choices.py: programs stay in memory.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pretraining", 2),
        ("regression", 2),
        ("squad_v2", 2),
        ("classes", 1),
        ("squad_v1", 2),
    ],
)
def test_compiled_as_a_whole_or_not_makes_no_difference(
    small_config, name, parts
):
    head_steps.assert_compiling_changes_nothing(small_config, name, parts)


def test_what_no_loss_depends_on_is_left_alone(small_config):
    config = dataclasses.replace(
        small_config, max_position_embeddings=head_steps.LENGTH
    )
    model = pretraining.AlbertPretrainer(
        AlbertModel(config), sentence_order=False
    )
    pooler = model.encoder.pooler.kernel
    before = pooler.numpy()
    step = update_runs.make_step(model, pretraining_objective.make("none"))
    step(head_steps.pretraining_batch(config.vocab_size))
    np.testing.assert_array_equal(before, pooler)
    assert int(step.optimizer.iterations) == 1


def test_numbers_of_a_skipped_update_are_zeros(small_config):
    make, batch = head_steps.make(small_config, "classes", parts=1)
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


def test_a_loss_alone_that_is_not_finite_skips_the_update(
    one_layer, monkeypatch
):
    """The fused loss of a label outside the vocabulary, not its gradient."""
    monkeypatch.setattr(cross_entropy, "FUSED_FROM_CLASSES", 400)
    make, batch = head_steps.make(one_layer, "pretraining", parts=1)
    labels = batch["masked_lm_ids"].numpy()
    labels[0, 0] = one_layer.vocab_size
    step = make()
    before = step.model.get_weights()
    compiled = tf.function(step, jit_compile=True)
    *numbers, skipped = compiled(
        {**batch, "masked_lm_ids": tf.constant(labels)}
    ).numpy()
    np.testing.assert_array_equal(skipped, [1, 1])
    np.testing.assert_array_equal(numbers, np.zeros_like(numbers))
    np.testing.assert_equal(step.model.get_weights(), before)


def test_the_loss_scale_leaves_the_update_alone(small_config):
    """Two microbatches, whose gradients are larger than the norm allows."""
    make, batch = head_steps.make(small_config, "classes", parts=2)
    plain = make()
    scaled = dataclasses.replace(make(), guard=train_step.Guard("float16"))
    assert float(scaled.guard.loss_scale) > 1
    for step in (plain, scaled):
        weights = step.model.output_weights
        draws = np.random.default_rng(1).normal(size=weights.shape)
        weights.assign(draws)
    rows = [step(batch).numpy() for step in (plain, scaled)]
    assert rows[0][-2, 0] > 1
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-5)
    moments = (step.optimizer.adam_m for step in (plain, scaled))
    for ours, theirs in zip(*moments, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


class Number(keras.Model):
    """A model of one number."""

    def __init__(self):
        super().__init__()
        self.number = self.add_weight(name="number", initializer="ones")


def seeds_of_updates(replicas, parts, seed, steps=3):
    """The seeds that reach the model: step, replica and part to seed."""
    noted = {}

    def forward(model, batch, dropout_seed):
        place = tuple(batch["place"][0].numpy().tolist())
        noted[int(step.optimizer.iterations.numpy()), *place] = tuple(
            dropout_seed.numpy().tolist()
        )
        return {"loss": model.number * tf.ones([1])}, batch

    objective = objectives.Objective(
        losses={"loss": 1.0},
        metrics=(),
        sample_weights=lambda batch: {"loss": tf.ones([1])},
        of_outputs=lambda outputs, batch: outputs,
        forward=forward,
    )
    strategy = make_replicas(replicas)
    with strategy.scope():
        model, optimizer = Number(), optimization.AdamW(0.1)
        optimizer.build(model.trainable_variables)
        guard = train_step.Guard("float32")
    step = train_step.TrainStep(model, optimizer, objective, guard, parts, seed)

    def share(context):
        """Rows that know the replica and the part they are for."""
        replica = context.replica_id_in_sync_group
        return tf.constant([[replica, part] for part in range(parts)])

    for _ in range(steps):
        places = strategy.experimental_distribute_values_from_function(share)
        strategy.run(step, [{"place": places}])
    assert len(noted) == steps * replicas * parts
    return noted


@pytest.mark.parametrize(("replicas", "parts"), [(1, 1), (1, 3), (2, 2)])
def test_seed_of_an_update_is_of_run_step_replica_and_part(replicas, parts):
    first = seeds_of_updates(replicas, parts, seed=5)
    for (step, replica, part), seed in first.items():
        expected = passes.fold([5, step], replica * parts + part)
        assert seed == tuple(expected.numpy().tolist())
    other = seeds_of_updates(replicas, parts, seed=6)
    assert len({*first.values(), *other.values()}) == 2 * len(first)


def test_a_line_of_the_log_is_about_updates_that_were_made(
    small_config, monkeypatch
):
    step = head_steps.make(small_config, "classes", parts=1)[0]()
    rows = np.zeros([3, len(step.names), 2])
    rows[:2, :-1, 1] = 1
    rows[:2, -2, 0] = 3, 5  # Norms.
    rows[:, -1] = [[0, 1], [0, 1], [1, 1]]
    step.optimizer.iterations.assign(7)
    monkeypatch.setattr(
        step.optimizer, "learning_rate_at", lambda number: number * 10
    )
    found = step.summarize(rows)
    assert found["gradient_norm"] == 4
    assert found["learning_rate"] == 60  # After six updates.
    assert found["skipped_updates"] == 1
    assert step.summarize(rows[2:]) == {}


# What is skipped, and the scale of float16.


def note(guard, finite, times=1):
    """Note so many updates in a row."""

    @tf.function
    def repeat():
        for _ in tf.range(times):
            guard.record(tf.constant(finite))

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
    note(guard, True, 2000)
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
