"""The time limit of a run."""

import types

import pytest
import tensorflow as tf

from albert_tf.training import run_clock
from tests.albert_tf.training import tiny_training


def test_the_time_that_is_up_ends_the_schedule(make_trainer):
    def now():
        """A tenth of a second for a step; two more to compile the first."""
        return 1000 + trainer.step / 10 + 2 * (trainer.step > 0)

    limited = {
        "max_minutes": 6 / 60,
        "steps": 1000,
        "learning_rate": 0.01,
    }
    trainer = make_trainer(now=now, **limited)
    log = tiny_training.train(trainer, 1000)
    assert trainer.step == 40
    rates = dict(log.column("train", "learning_rate"))
    # As in a run of 40 steps; before 40 the trainer sees that it is the last.
    for step in (11, 21, 39):
        assert rates[step] == pytest.approx(0.01 * (1 - (step - 1) / 40))
    again = make_trainer(**limited)
    assert again.step == trainer.step
    scales = [float(x.optimizer.step_scale) for x in (again, trainer)]
    assert scales[0] == scales[1] > 1
    assert float(again._elapsed) == 6
    tiny_training.train(again, 1000)
    assert again.step == trainer.step  # No time is left.


def test_the_schedule_is_shortened_but_never_stretched():
    """Ten steps a second after the first, with five seconds left or more."""
    for minutes, scale in ((8 / 60, 100 / (11 + 50)), (10, 1.0)):
        clock = run_clock.RunClock(minutes, 0.0, lambda: 0.0)
        optimizer = types.SimpleNamespace(step_scale=tf.Variable(1.0))
        for step, clock.agreed in ((1, 2.0), (11, 3.0)):
            clock.adapt_schedule(step, 100, optimizer)
        assert float(optimizer.step_scale) == pytest.approx(scale)
