"""The time limit of a run."""

import pytest

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
