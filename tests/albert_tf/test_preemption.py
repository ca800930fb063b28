"""What SIGTERM does."""

import os
import signal
import unittest.mock

import pytest

from albert_tf import (
    distribution,
    finetuning,
    modeling,
    preemption,
    run_pretraining,
)


def test_it_is_noted_and_nothing_else():
    with preemption.Watch() as watch:
        assert not watch.is_asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert watch.is_asked
    assert signal.getsignal(signal.SIGTERM) != watch._handle


def test_where_nothing_is_lost_the_process_ends_at_once():
    with preemption.Watch() as watch, pytest.raises(SystemExit) as end:
        with watch.leaving_at_once():
            os.kill(os.getpid(), signal.SIGTERM)
    assert end.value.code == preemption.EXIT_CODE == 42


def test_what_was_asked_before_counts():
    with preemption.Watch() as watch, pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
        with watch.leaving_at_once():
            pytest.fail("not reached")


@pytest.mark.parametrize("program", [run_pretraining, finetuning])
def test_a_run_that_does_not_train_yet_ends_at_once(program, monkeypatch):
    def ask(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("not reached")

    # The first that both do.
    monkeypatch.setattr(distribution, "make_strategy", ask)
    monkeypatch.setattr(modeling.AlbertConfig, "from_json_file", lambda _: None)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        program.run(unittest.mock.MagicMock())
    assert end.value.code == preemption.EXIT_CODE
    assert signal.getsignal(signal.SIGTERM) is before
