"""The time limit of a run."""

import types

import pytest
import tensorflow as tf

from albert_tf.training import run_clock


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
        for step, clock.agreed_seconds in ((1, 2.0), (11, 3.0)):
            clock.adapt_schedule(step, 100, optimizer)
        assert float(optimizer.step_scale) == pytest.approx(scale)


def test_earlier_starts_count():
    """Thirty seconds of them; the clock of the machine stands at 100."""
    times = iter([100.0, 107.0])
    clock = run_clock.RunClock(0.5, 30.0, lambda: next(times))
    assert clock.elapsed == 37
    assert clock.is_up and clock.seconds_left == 0
    clock.agreed_seconds = 29.0
    assert not clock.is_up and clock.seconds_left == 1
    clock.agreed_seconds = 37.0
    assert clock.is_up and clock.seconds_left == 0
