"""The training loop on a tiny model: resuming, replicas, skipped updates."""

import dataclasses
import os
import shutil
import signal
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import preemption
from albert_tf.model import model_options
from albert_tf.model.losses import pretraining_objective
from albert_tf.training import run_log, training_loop, training_options
from tests.albert_tf.training import tiny_training
from tests.conftest import LOSS_RTOL, make_replicas, refused

ONE_BATCH = {
    name: value[: tiny_training.BATCH]
    for name, value in tiny_training.EXAMPLES.items()
}


@pytest.mark.parametrize(
    "changes",
    [
        {"weight_precision": "int8", "quantize_from": 0.3},
        pytest.param(
            {"objective": "rtd", "optimizer": "muon"}, marks=pytest.mark.slow
        ),
    ],
)
def test_interrupted_run_equals_an_uninterrupted_one(make_trainer, changes):
    changes = {"dropout": 0.1, **changes}
    whole = make_trainer("whole", **changes)
    whole_log = tiny_training.train(whole, tiny_training.STEPS)
    tiny_training.train(make_trainer("parts", **changes), 3)
    resumed = make_trainer("parts", **changes)
    assert resumed.step == 3 and resumed.resumed_from.endswith("model.ckpt-3")
    evaluated = []  # Also what the first start saved.

    def evaluate():
        evaluated.append(resumed.step)
        return {"loss": 1.0}

    resumed_log = tiny_training.train(resumed, tiny_training.STEPS, evaluate)
    assert evaluated == [3, 6]
    for one, other in zip(
        tiny_training.state(whole), tiny_training.state(resumed), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    expected = whole_log.column("train", "loss")
    assert resumed_log.column("train", "loss") == expected
    assert len(expected) == tiny_training.STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "microbatches", "changes"),
    [
        (2, 2, {}),
        (2, 2, {"objective": "rtd"}),
        (2, 1, {"weight_precision": "int8", "quantize_from": 0.0}),
        (1, 4, {"optimizer": "muon"}),
    ],
)
def test_replicas_and_microbatches_do_not_change_the_update(
    make_trainer, replicas, microbatches, changes
):
    one = make_trainer("one", **changes)
    other = make_trainer(
        "other",
        **changes,
        strategy=make_replicas(replicas),
        gradient_accumulation_steps=microbatches,
    )
    logs = [tiny_training.train(trainer, 3) for trainer in (one, other)]
    for name in ("loss", "masked_lm_loss", "gradient_norm"):
        columns = (log.column("train", name) for log in logs)
        np.testing.assert_allclose(*columns, rtol=LOSS_RTOL)
    moments = (trainer.optimizer.adam_m for trainer in (one, other))
    for ours, theirs in zip(*moments, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_training_lowers_the_loss_logs_its_rates_and_saves(
    make_trainer, tmp_path, monkeypatch
):
    """And removes what killed saves left; the best one may be another's."""
    left = [tmp_path / "run" / f"model.ckpt-{n}_temp" for n in (9, "best")]
    trainer = make_trainer(
        learning_rate=0.03, save_checkpoints_steps=2, keep_checkpoint_max=2
    )
    for path in left:
        path.mkdir()
    log = tiny_training.train(trainer, tiny_training.STEPS, examples=ONE_BATCH)
    assert [path.exists() for path in left] == [False, True]
    losses = [value for _, value in log.column("train", "loss")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)  # The first rate: 0.
    assert losses[-1] < losses[1]
    rates = [value for _, value in log.column("train", "learning_rate")]
    shares = [0, 1 / 2, 1 - 2 / 6, 1 - 3 / 6, 1 - 4 / 6, 1 - 5 / 6]
    np.testing.assert_allclose(rates, np.array(shares) * 0.03, rtol=1e-6)
    found = {path.name for path in (tmp_path / "run").glob("*.index")}
    assert found == {"model.ckpt-4.index", "model.ckpt-6.index"}
    assert run_log.final_step(trainer.output_dir) == tiny_training.STEPS
    trainer.restore_best()  # None was evaluated: as it is.
    full = types.SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    tiny_training.train(trainer, tiny_training.STEPS)  # Needs no room.


def test_every_line_of_training_is_watched(make_trainer, caplog):
    """No line is written while all updates are skipped."""
    trainer = make_trainer(iterations_per_loop=2, save_checkpoints_steps=100)
    log = run_log.RunLog(trainer.output_dir, tiny_training.BATCH)
    log.start(0, tiny_training.STEPS)
    seen = []

    def watch():
        seen.append([step for step, _ in log.column("train", "loss")])

    dataset = tiny_training.batches(examples=spoiled(1, 2, 3))
    trainer.train(dataset, tiny_training.STEPS, log, watch=watch)
    assert seen == [[2], [2, 6]]
    skipped = [m for m in caplog.messages if "were skipped" in m]
    assert [m[:21] for m in skipped] == [
        f"{n} of the last 2 updat" for n in "12"
    ]


@pytest.mark.parametrize("place", ["watch", "evaluate"])
def test_sigterm_ends_a_run_with_a_checkpoint(make_trainer, caplog, place):
    """After one more call of the loop, or at once while it is evaluated."""
    trainer = make_trainer(iterations_per_loop=3, save_checkpoints_steps=5)

    def stop():
        os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": 1.0}

    log = run_log.RunLog(trainer.output_dir, tiny_training.BATCH)
    log.start(0, 100)
    given = {place: stop}
    if place == "evaluate":
        given = {"validator": trainer.validation(log, stop, "loss")}
    with pytest.raises(SystemExit) as ended:
        trainer.train(tiny_training.batches(), 100, log, **given)
    assert ended.value.code == preemption.EXIT_CODE
    step, said = 5, "all finished work is saved"
    if place == "watch":
        step = 4  # No step that is saved anyway.
        said = f"step {step} is saved in {trainer.output_dir}"
    assert f"SIGTERM: {said}. " in caplog.text
    assert trainer.step == make_trainer().step == step
    assert run_log.final_step(trainer.output_dir) is None


def spoiled(*steps):
    """The examples, with a weight that is no number in some batches."""
    weights = tiny_training.EXAMPLES["masked_lm_weights"].copy()
    for step in steps:
        weights[tiny_training.BATCH * step] = np.nan
    return {**tiny_training.EXAMPLES, "masked_lm_weights": weights}


def test_ten_skipped_updates_in_a_row_stop_the_run(make_trainer):
    trainer = make_trainer()
    tiny_training.train(trainer, 1)
    every = spoiled(*range(tiny_training.STEPS))
    with refused(r"last 10 updates before step 11.*model\.ckpt-9"):
        tiny_training.train(trainer, 20, examples=every)
    resumed = make_trainer()
    assert resumed.step == 9
    assert int(resumed._guard.skipped) == 8
    weights = resumed.model.get_weights()
    assert all(np.isfinite(value).all() for value in weights)


def test_float16_finds_a_scale_for_its_loss(make_trainer):
    trainer = make_trainer(precision="float16", learning_rate=0.03)
    trainer._guard.loss_scale.assign(2.0**24)  # Too much for the first steps.
    log = tiny_training.train(trainer, 40, examples=ONE_BATCH)
    scale = float(trainer._guard.loss_scale.numpy())
    skipped = int(trainer._guard.skipped.numpy())
    assert skipped and scale == 2.0 ** (24 - skipped)
    losses = [value for _, value in log.column("train", "loss")]
    assert len(losses) == 40 - skipped and np.isfinite(losses).all()


def test_no_call_of_the_loop_outlasts_the_time(
    make_trainer, monkeypatch, capsys
):
    """Half a second for a step, and twenty seconds; a line after 20 steps."""
    seen = []

    def now():
        seen.append(trainer.step)
        return trainer.step / 2

    changes = {
        "max_minutes": 20 / 60,
        "steps": 1000,
        "iterations_per_loop": 20,
        "save_checkpoints_steps": 1000,
    }
    profiled = []
    for name in ("start", "stop"):
        monkeypatch.setattr(
            tf.profiler.experimental,
            name,
            lambda *_, n=name: profiled.append((n, trainer.step)),
        )
    trainer = make_trainer(now=now, profile_steps="5,1000", **changes)
    log = tiny_training.train(trainer, 1000)
    # Twice as many steps in each call as in the one before, up to three
    # seconds, and to half of the time that is left.
    ends = [0, 1, 3, 5, 11, 17, 20, 21, 23, 27, 33, 36, 38, 39, 40]
    assert sorted(set(seen)) == ends
    assert profiled == [("start", 5), ("stop", 40)]
    line, _ = capsys.readouterr().out.splitlines()
    assert line.startswith("train step   20/1000")
    assert line.endswith("8.0 examples/s  ETA 0:00:10")
    again = make_trainer(**changes)
    assert again.step == 40 and float(again._elapsed) == 20
    scales = [float(x.optimizer.step_scale) for x in (again, trainer)]
    assert scales == [pytest.approx(1000 / 41)] * 2  # No step is left.
    rates = dict(log.column("train", "learning_rate"))
    # As in a run of 40 steps.
    assert rates[20] == pytest.approx(0.01 * (1 - 19 / 40))
    assert rates[40] == pytest.approx(0.01 * (1 - 39 / 41))
    tiny_training.train(again, 1000)
    assert again.step == 40


def test_only_whole_weights_are_evaluated_and_only_steps_asked_for_go_on(
    make_trainer, tmp_path
):
    first = make_trainer("first")
    first.optimizer.iterations.assign(7)
    path = str(tmp_path / "model.ckpt-7")
    parts = {"model": first.model, "optimizer": first.optimizer}
    tf.train.Checkpoint(**parts).write(path)
    trainer, init = make_trainer(), model_options.InitOptions(path)
    new = dataclasses.replace(init, new_weights="cls/predictions")
    trainer.restore_or_initialize(new)
    with refused("no checkpoint to evaluate"):
        trainer.restore_best()
    for goes_on, step in ((False, 0), (True, 7)):
        trainer.restore_or_initialize(init, continue_schedule=goes_on)
        trainer.restore_best()
        assert trainer.step == step


def test_variables_exist_before_training(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.model.late = keras.layers.Dense(2)
    with refused("'dense.*when it is first"):
        training_loop.Trainer(
            trainer.model,
            trainer.optimizer,
            pretraining_objective.make(),
            str(tmp_path),
            training_options.TrainerOptions(),
        )
