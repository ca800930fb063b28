"""The update as one program that XLA compiles, and what it counts."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_inputs
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


def test_a_loss_alone_that_is_not_finite_skips_the_update(
    one_layer, monkeypatch
):
    """The fused loss of a label outside the vocabulary, not its gradient."""
    monkeypatch.setattr(cross_entropy, "FUSED_FROM_CLASSES", 400)
    make, batch = head_steps.make(one_layer, "pretraining", parts=1)
    labels = batch["masked_lm_ids"].numpy()
    labels[0, 0] = one_layer.vocab_size
    step = make()
    kept = [*step.model.variables, *step.optimizer.variables]
    kept = [v for v in kept if v is not step.optimizer.iterations]
    before = [value.numpy() for value in kept]
    compiled = tf.function(step, jit_compile=True)
    *numbers, skipped = compiled(
        {**batch, "masked_lm_ids": tf.constant(labels)}
    ).numpy()
    np.testing.assert_array_equal(skipped, [1, 1])
    np.testing.assert_array_equal(numbers, np.zeros_like(numbers))
    np.testing.assert_equal([value.numpy() for value in kept], before)
    assert int(step.optimizer.iterations) == 1  # For schedule and data.


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


def test_microbatches_may_have_a_length_that_the_graph_does_not_know(
    small_config,
):
    """Those of finetuning, which differ in it."""
    make, batch = head_steps.make(small_config, "classes", parts=2)
    specs = {
        name: tf.TensorSpec([None] * value.shape.rank, value.dtype)
        for name, value in batch.items()
    }
    unknown = tf.function(make(), input_signature=[specs])
    np.testing.assert_allclose(unknown(batch), make()(batch), rtol=1e-5)


class Table(keras.Model):
    """A model of two numbers."""

    def __init__(self):
        super().__init__()
        self.table = self.add_weight(
            name="table", shape=[2], initializer="ones"
        )


def make_update(replicas, parts, seed=5, note=None, size=1.0):
    """Return an update, and its batches, whose rows know replica and part.

    The loss of a row is the first number of the table, looked up twice, times
    `size` for the first part, more for others.
    """

    def forward(model, batch, dropout_seed):
        if note:
            note(batch["place"][0], dropout_seed, batch[model_inputs.SEED])
        place = tf.cast(batch["place"], tf.float32)
        factors = size * (1 + place[:, 0] + place[:, 1] / 4)
        looked_up = tf.gather(model.table, [0, 0])
        return {"loss": factors * tf.reduce_sum(looked_up)}, batch

    objective = objectives.Objective(
        losses={"loss": 1.0},
        metrics=(),
        sample_weights=lambda batch: {
            "loss": tf.ones_like(batch["place"][:, 0], tf.float32)
        },
        sample_values=lambda outputs, batch: outputs,
        forward=forward,
    )
    strategy = make_replicas(replicas)
    with strategy.scope():
        model, optimizer = Table(), optimization.AdamW(0.1)
        optimizer.build(model.trainable_variables)
        guard = train_step.Guard("float32")
    step = train_step.TrainStep(model, optimizer, objective, guard, parts, seed)
    places = [[r, part] for r in range(replicas) for part in range(parts)]
    dataset = tf.data.Dataset.from_tensor_slices({"place": places})
    dataset = dataset.batch(len(places), drop_remainder=True).repeat()
    return step, iter(strategy.experimental_distribute_dataset(dataset))


@pytest.mark.parametrize(("replicas", "parts"), [(1, 1), (1, 3), (2, 2)])
def test_seed_of_an_update_is_of_run_step_replica_and_part(replicas, parts):
    noted = []

    def note(*given):
        noted.append(tuple(tuple(x.numpy().tolist()) for x in given))

    for run_seed in (5, 6):
        step, batches = make_update(replicas, parts, run_seed, note)
        for _ in range(3):
            step.model.distribute_strategy.run(step, [next(batches)])
    for (replica, part), seed, of_step in noted:
        expected = passes.fold(list(of_step), replica * parts + part)
        assert list(seed) == expected.numpy().tolist()
    of_steps = {of_step for _, _, of_step in noted}
    assert of_steps == {*itertools.product((5, 6), range(3))}
    assert len({seed for _, seed, _ in noted}) == len(noted)
    assert len(noted) == len({*noted}) == 6 * replicas * parts


@pytest.mark.parametrize(
    ("replicas", "parts", "size"), [(1, 1, 1.0), (1, 3, 0.1), (2, 2, 3.0)]
)
def test_an_update_is_that_of_the_whole_batch(replicas, parts, size):
    """Clipped as a whole, where every look-up counts by itself."""
    step, batches = make_update(replicas, parts, size=size)
    rows = train_step.compile_loop(step)(batches, tf.constant(2)).numpy()
    factors = np.array(
        [1 + r + part / 4 for r in range(replicas) for part in range(parts)]
    )
    factors *= size
    count = replicas * parts
    norm = np.sqrt(2 * np.sum(factors**2)) / count
    expected = [[2 * factors.sum(), count], [norm, 1], [0, 1]]
    np.testing.assert_allclose(rows[0], expected, rtol=1e-5)
    np.testing.assert_allclose(rows[1, 1:], expected[1:], rtol=1e-5)
    assert rows[1, 0, 0] < rows[0, 0, 0] and rows.shape == (2, 3, 2)
    moment = 0.1 * 2 * factors.mean() / max(1, norm) * np.array([1 + 0.9, 0])
    np.testing.assert_allclose(step.optimizer.adam_m[0], moment, rtol=1e-5)


def test_a_norm_alone_that_is_not_finite_skips_the_update():
    step, batches = make_update(2, 1, size=1e30)  # Its square is infinite.
    rows = train_step.compile_loop(step)(batches, tf.constant(1)).numpy()
    assert rows.tolist() == [[[0, 0], [0, 0], [1, 1]]]
    assert step.guard.skipped.numpy() == 1
    assert step.model.table.numpy().tolist() == [1, 1]


def test_a_line_of_the_log_is_about_updates_that_were_made(
    small_config, monkeypatch
):
    step = head_steps.make(small_config, "classes", parts=1)[0]()
    rows = np.zeros([3, len(step.names), 2])
    rows[:2, :-1, 1] = 1
    rows[:2, -2, 0] = 3, 5  # Norms.
    rows[:2, 0, 0], rows[:2, 1, 0] = (2, 4), (0, 1)
    rows[:, -1] = [[0, 1], [0, 1], [1, 1]]
    step.optimizer.iterations.assign(7)
    monkeypatch.setattr(
        step.optimizer, "learning_rate_at", lambda number: number * 10
    )
    found = step.summarize(rows)
    assert found["gradient_norm"] == 4
    assert [found[name] for name in step.names[:2]] == [3, 0.5]
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
        assert guard.has_failed(2) == (counts[-1] == (2, 2))
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
    note(guard, False, 14)
    assert float(guard.loss_scale) == 2 and not guard.has_failed(10)
    note(guard, False, 16)
    assert float(guard.loss_scale) == 1 and guard.has_failed(10)
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
