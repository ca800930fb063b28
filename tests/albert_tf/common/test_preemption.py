"""What SIGTERM does."""

import functools
import os
import signal
import unittest.mock

import pytest

from albert_tf.common import preemption
from albert_tf.finetuning import finetune
from albert_tf.model.config import AlbertConfig
from albert_tf.training import (
    distribution,
    pretrain,
    pretraining_recipe,
    processors,
)


def test_sigterm_is_recorded_and_ends_nothing():
    before = signal.getsignal(signal.SIGTERM)
    with preemption.PreemptionHandler() as handler:
        assert not handler.is_requested
        with handler.exiting_at_once():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert handler.is_requested
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_ends_the_process_where_nothing_is_lost():
    with (
        preemption.PreemptionHandler() as handler,
        pytest.raises(SystemExit) as end,
    ):
        with handler.exiting_at_once():
            os.kill(os.getpid(), signal.SIGTERM)
    assert end.value.code == preemption.EXIT_CODE == 42


def test_an_earlier_sigterm_ends_the_process_too():
    with preemption.PreemptionHandler() as handler, pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
        with handler.exiting_at_once():
            pytest.fail("not reached")


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        (pretrain.run, 1),
        (functools.partial(finetune.run, task=unittest.mock.MagicMock()), 3),
    ],
)
def test_a_run_that_does_not_train_yet_ends_at_once(
    run, arguments, monkeypatch
):
    def ask(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("not reached")

    # The first that takes long.
    monkeypatch.setattr(distribution, "make_strategy", ask)
    monkeypatch.setattr(processors, "settle_precision", lambda given, _: given)
    monkeypatch.setattr(AlbertConfig, "from_json_file", lambda _: None)
    monkeypatch.setattr(pretraining_recipe, "best_metric", lambda *_: "")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        run(*[unittest.mock.MagicMock()] * arguments)
    assert end.value.code == preemption.EXIT_CODE
    assert signal.getsignal(signal.SIGTERM) is before
