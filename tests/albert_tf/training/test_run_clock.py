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


def test_the_schedule_is_shortened_but_never_stretched():
    """Ten steps a second after the first, with five seconds left or others."""
    for minutes, scale in (
        (8 / 60, 100 / (11 + 50)),
        (10, 1.0),
        (2 / 60, 100 / 12),  # No time is left: the next step is the last.
        (0, 1.0),
    ):
        clock = run_clock.RunClock(minutes, 0.0, lambda: 0.0)
        optimizer = types.SimpleNamespace(step_scale=tf.Variable(1.0))
        for step, clock.agreed in ((1, 2.0), (11, 3.0)):
            clock.adapt_schedule(step, 100, optimizer)
        assert float(optimizer.step_scale) == pytest.approx(scale)


def test_earlier_starts_count():
    """Thirty seconds of them; the clock of the machine stands at 100."""
    times = iter([100.0, 107.0])
    clock = run_clock.RunClock(0.5, 30.0, lambda: next(times))
    assert clock.elapsed == 37
    assert clock.is_up and clock.seconds_left == 0
    clock.agreed = 29.0
    assert not clock.is_up and clock.seconds_left == 1
    clock.agreed = 37.0
    assert clock.is_up and clock.seconds_left == 0
