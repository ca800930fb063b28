"""The profiler."""

import pytest
import tensorflow as tf

from albert_tf.training import profiler
from tests.albert_tf.training import tiny_training


def test_it_stops_where_an_evaluation_ends_the_training(
    make_trainer, monkeypatch
):
    """Or another training of the process could not start it."""
    calls = []
    for name in ("start", "stop"):
        monkeypatch.setattr(
            tf.profiler.experimental, name, lambda *_, n=name: calls.append(n)
        )
    trainer = make_trainer(profile_steps="2,100")

    def evaluate():
        raise LookupError

    with pytest.raises(LookupError):
        tiny_training.train(trainer, tiny_training.STEPS, evaluate)
    assert calls == ["start", "stop"]


@pytest.mark.slow
def test_the_profiler_writes_its_files(make_trainer, tmp_path):
    """Also where the run ends before the second step."""
    trainer = make_trainer(profile_steps="2,100", iterations_per_loop=100)
    tiny_training.train(trainer, tiny_training.STEPS)
    assert list((tmp_path / "run" / "plugins" / "profile").iterdir())


@pytest.mark.parametrize(
    ("steps", "seen", "expected"),
    [
        ("2,4", range(6), [("start", 2), ("stop", 4)]),
        ("2,4", [3, 9], [("start", 3), ("stop", 9)]),  # Resumed between them.
        ("2,4", [4, 5], []),
        (None, range(3), []),
    ],
)
def test_it_starts_before_the_second_step_only(
    monkeypatch, steps, seen, expected
):
    calls = []
    for name in ("start", "stop"):
        monkeypatch.setattr(
            tf.profiler.experimental,
            name,
            lambda *given, n=name: calls.append((n, *given)),
        )
    some, when = profiler.Profiler(steps, "folder"), []
    for step in seen:
        some.update(step)
        when += [step] * (len(calls) - len(when))
    some.stop()  # It is not running any more.
    names = [call[0] for call in calls]
    assert [*zip(names, when, strict=True)] == expected
    assert calls[:1] == [("start", "folder")][: len(calls)]


def test_without_steps_nothing_changes():
    never = profiler.Profiler(None, "")
    assert [never.next_change(step, 9) for step in (0, 1, 5)] == [9, 9, 9]
    some = profiler.Profiler("2,4", "")
    found = [some.next_change(step, 9) for step in (0, 1, 2, 3, 4, 5)]
    assert found == [2, 2, 4, 4, 9, 9]
    assert some.next_change(1, 2) == 2 and some.next_change(2, 3) == 3
