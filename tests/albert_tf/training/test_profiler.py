"""The profiler."""

import pytest
import tensorflow as tf

from albert_tf.training import profiler
from tests.albert_tf.training import tiny_training


@pytest.mark.slow
def test_the_profiler_writes_its_files(make_trainer, tmp_path):
    trainer = make_trainer(profile_steps="2,4", iterations_per_loop=100)
    tiny_training.train(trainer, tiny_training.STEPS)
    assert list((tmp_path / "run" / "plugins" / "profile").iterdir())


@pytest.mark.slow
def test_it_runs_from_the_first_step_to_the_second(make_trainer, monkeypatch):
    """Also where a line of the log and the end of the run come between."""
    calls = []
    for name in ("start", "stop"):
        monkeypatch.setattr(
            tf.profiler.experimental,
            name,
            lambda *folder, n=name: calls.append((n, *folder, trainer.step)),
        )
    for steps, stop in (("2,4", 4), ("1,100", tiny_training.STEPS)):
        folder = f"run_{stop}"
        trainer = make_trainer(
            folder, profile_steps=steps, iterations_per_loop=3
        )
        tiny_training.train(trainer, tiny_training.STEPS)
        first = int(steps[0])
        assert calls == [("start", trainer.output_dir, first), ("stop", stop)]
        calls.clear()


def test_without_steps_nothing_changes():
    never = profiler.Profiler(None, "")
    assert [never.next_change(step, 9) for step in (0, 1, 5)] == [9, 9, 9]
    some = profiler.Profiler("2,4", "")
    found = [some.next_change(step, 9) for step in (0, 1, 2, 3, 4, 5)]
    assert found == [2, 2, 4, 4, 9, 9]
    assert some.next_change(1, 2) == 2 and some.next_change(2, 3) == 3
