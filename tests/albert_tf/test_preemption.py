"""What SIGTERM does."""

import os
import signal

import pytest

from albert_tf import preemption


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
