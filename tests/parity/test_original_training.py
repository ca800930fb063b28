"""Eight recorded updates of the original, LAMB and AdamW, through our trainer.

The original reads the global step for its learning rate and increments it in
the same run of the graph. TensorFlow 1 does not order the two, so off TPU
update t has the learning rate of step t or t + 1 at random. Both occur in one
recording. So the test first finds the learning rate of each update: of the two
possible ones, that whose next loss equals the recorded one.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import model_options
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import pretraining
from albert_tf.model.losses import pretraining_objective
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.training import run_log, training_loop, training_options
from tests.conftest import make_replicas
from tests.parity import recordings
from tests.parity.conftest import assert_close

pytestmark = pytest.mark.slow

# Losses after several float32 updates; the bound.
STEPS_RTOL = 1e-4
# Weights and moments after eight updates, relative to the largest entry of the
# variable: sums of some hundred float32 terms in another order, divided by
# square roots of sums of their squares.
STATE_RTOL = 2e-4
# Below this a moment is noise: the exact gradient of a key's bias is 0.
NOISE = 1e-8


class Table(optimization.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rates):
        self.rates = rates

    def __call__(self, step):
        return tf.gather(tf.constant(self.rates, tf.float32), step)


class Held(optimization.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.rate = tf.Variable(0.0)

    def __call__(self, step):
        return self.rate + 0.0


def make_trainer(recording, folder, schedule, strategy=None, microbatches=1):
    kinds = {"lamb": optimization.Lamb, "adamw": optimization.AdamW}
    strategy = strategy or tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        encoder = AlbertModel(recording.config)
        model = pretraining.AlbertPretrainer(encoder)
        restoring.restore(model, recording.checkpoint(0))
        optimizer = kinds[str(recording.values["optimizer"])](schedule)
    return training_loop.Trainer(
        model,
        optimizer,
        pretraining_objective.make(),
        str(folder),
        training_options.TrainerOptions(
            iterations_per_loop=1,
            save_checkpoints_steps=1000,
            gradient_accumulation_steps=microbatches,
        ),
    )


def dataset(recording):
    count = len(recording.values["input_ids"])
    one = tf.data.Dataset.from_tensor_slices(recording.batch())
    return one.batch(count, drop_remainder=True).repeat()


def allowed_rates(values):
    schedule = optimization.WarmupPolynomialDecay(
        model_options.OptimizerOptions(
            learning_rate=float(values["learning_rate"]),
            poly_power=float(values["poly_power"]),
            start_warmup_step=int(values["start_warmup_step"]),
            original_start_warmup=True,
        ),
        int(values["num_train_steps"]),
        int(values["num_warmup_steps"]),
    )
    updates = len(values["loss_before_step"])
    return [float(schedule(tf.constant(s))) for s in range(updates + 1)]


def recorded_losses(values):
    return [*values["loss_before_step"], values["loss_after_last_step"]]


@functools.cache
def recorded_rates(name, folder):
    """Find the learning rate of each recorded update, of the two possible."""
    recording = recordings.Recording(name)
    held = Held()
    trainer = make_trainer(recording, folder, held)
    state = [*trainer.model.variables, *trainer.optimizer.variables]
    batches = iter(dataset(recording))
    allowed = allowed_rates(recording.values)
    losses = recorded_losses(recording.values)
    batch = recording.batch()
    objective = pretraining_objective.make()

    @tf.function
    def loss():
        ratios = objective.weighted_sums(trainer.model, batch)
        return objective.total(ratios, objective.normalizers(batch))

    rates = []
    for step, after in enumerate(losses[1:]):
        before = [variable.numpy() for variable in state]
        outcomes = []
        for rate in allowed[step : step + 2]:
            for variable, value in zip(state, before, strict=True):
                variable.assign(value)
            held.rate.assign(rate)
            trainer._train_loop(batches, tf.constant(1))
            error = abs(float(loss()) / after - 1)
            kept = [variable.numpy() for variable in state]
            outcomes.append((error, rate, kept))
        error, rate, kept = min(outcomes, key=lambda outcome: outcome[0])
        assert error < STEPS_RTOL, f"step {step}: {outcomes}"
        for variable, value in zip(state, kept, strict=True):
            variable.assign(value)
        rates.append(rate)
    return rates


@pytest.fixture(params=recordings.parameters("original_tiny"))
def replayed(request, tmp_path_factory):
    recording = recordings.Recording(request.param)
    folder = tmp_path_factory.getbasetemp()  # Nothing is written there.
    return recording, recorded_rates(request.param, folder)


def replay(recording, rates, folder, **devices):
    trainer = make_trainer(recording, folder, Table([*rates, 0.0]), **devices)
    steps = len(rates)
    folder.mkdir()
    log = run_log.RunLog(str(folder), 1)
    log.start(0, steps + 1)
    data = dataset(recording)
    trainer.train(data, steps, log)
    state = {
        f"{checkpoint_reader.name_of(variable)}{suffix}": value.numpy()
        for index, variable in enumerate(trainer.model.trainable_variables)
        for suffix, value in (
            ("", variable),
            ("/adam_m", trainer.optimizer.adam_m[index]),
            ("/adam_v", trainer.optimizer.adam_v[index]),
        )
    }
    trainer.train(data, steps + 1, log)  # Only for the loss after the last.
    return log, state


@pytest.mark.parametrize(
    ("make_strategy", "microbatches"),
    [
        (lambda: None, 1),
        (make_replicas, 2),
    ],
    ids=["one device", "two replicas with two microbatches"],
)
def test_losses_gradient_norm_and_state(
    replayed, tmp_path, make_strategy, microbatches
):
    recording, rates = replayed
    log, state = replay(
        recording,
        rates,
        tmp_path / "run",
        strategy=make_strategy(),
        microbatches=microbatches,
    )
    losses = [loss for _, loss in log.column("train", "loss")]
    np.testing.assert_allclose(
        losses, recorded_losses(recording.values), rtol=STEPS_RTOL
    )
    norms = [norm for _, norm in log.column("train", "gradient_norm")]
    expected = recording.values["grad_global_norm"]
    assert_close(norms[0], expected)

    reader = tf.train.load_checkpoint(recording.checkpoint(len(rates)))
    stored = set(reader.get_variable_to_shape_map()) - {"global_step"}
    assert stored == state.keys()
    for name, value in state.items():
        recorded = reader.get_tensor(name)
        scale = np.abs(recorded).max()
        np.testing.assert_allclose(
            value,
            recorded,
            atol=max(STATE_RTOL * scale, NOISE),
            rtol=0,
            err_msg=name,
        )
