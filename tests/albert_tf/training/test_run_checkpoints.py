"""Checkpoints of a run: damaged ones, full disks, leftovers."""

import contextlib
import resource
import shutil
import types

import numpy as np
import pytest

from albert_tf.training import distribution
from tests.albert_tf.training import tiny_training
from tests.conftest import refused


def test_damage_of_any_kind_is_left_for_the_one_before(
    make_trainer, tmp_path, caplog
):
    """The list of checkpoints, which only evaluating leaves, does not count."""
    folder = tmp_path / "run"
    with refused("no checkpoint to evaluate"):
        make_trainer().restore_best()
    tiny_training.train(make_trainer(save_checkpoints_steps=1), 2)
    (folder / "checkpoint").write_text("")
    (folder / "model.ckpt-6.data-00000-of-00001").write_bytes(b"no index")
    index = folder / "model.ckpt-2.index"
    whole = index.read_bytes()
    for kept in (0, 100, -1):
        index.write_bytes(whole[:kept])
        trainer = make_trainer()
        assert trainer.step == 1
        (warning,) = [m for m in caplog.messages if "model.ckpt-2" in m]
        assert "model.ckpt-2 cannot be read" in warning
        assert warning.endswith("Trying the one before.")
        caplog.clear()
    trainer.evaluate(tiny_training.padded(4, tiny_training.BATCH))
    assert (folder / "checkpoint").read_text() == ""
    first = folder / "model.ckpt-1.data-00000-of-00001"
    first.write_bytes(first.read_bytes()[:100])
    with refused("No checkpoint .*ckpt-2 cannot"):
        make_trainer()


@pytest.mark.parametrize("kind", ["model.ckpt-3", "model.ckpt-best"])
def test_a_full_disk_leaves_no_half_and_the_next_start_saves(
    make_trainer, tmp_path, kind
):
    trainer = make_trainer()
    evaluate = (lambda: {"loss": 1.0}) if "best" in kind else None
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk():  # A file that grows above the limit finds no room.
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
        return {"loss": 1.0}

    try:
        with pytest.raises(OSError, match="too large.*are free.*ulimit") as e:
            if evaluate is None:
                fill_the_disk()
            tiny_training.train(trainer, 3, evaluate and fill_the_disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert e.value.filename == str(tmp_path / "run" / kind)
    assert not list((tmp_path / "run").glob(f"{kind}*"))
    tiny_training.train(make_trainer(), 3, evaluate)
    assert (tmp_path / "run" / f"{kind}.index").exists()


def test_the_best_checkpoint_is_replaced_at_once(make_trainer, tmp_path):
    """A reader that has opened its files reads the earlier one to its end."""
    trainer = make_trainer()
    trainer._saved.save_best()
    paths = sorted((tmp_path / "run").glob("model.ckpt-best.*"))
    before = [path.read_bytes() for path in paths]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(path.open("rb")) for path in paths]
        trainer.optimizer.iterations.assign(4)
        trainer._saved.save_best()
        assert [stream.read() for stream in opened] == before
    assert [path.read_bytes() for path in paths] != before
    assert sorted((tmp_path / "run").glob("model.ckpt-best*")) == paths


def test_a_disk_without_room_is_refused_before_the_first_update(
    make_trainer, tmp_path, monkeypatch
):
    whole = make_trainer("whole")
    tiny_training.train(whole, 3)
    data = tmp_path / "whole" / "model.ckpt-3.data-00000-of-00001"
    least = sum(value.nbytes for value in tiny_training.state(whole)) - 1
    free = types.SimpleNamespace(free=least)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    trainer = make_trainer()
    with pytest.raises(OSError, match=f"{least:,} free bytes") as error:
        tiny_training.train(trainer, 3)
    assert f"`output_dir={tmp_path / 'run'}`" in str(error.value)
    assert trainer.step == 0
    free.free = data.stat().st_size
    with pytest.raises(OSError, match="bytes, but .* are needed"):
        tiny_training.train(trainer, 3, lambda: {"loss": 1.0})
    assert trainer.step == 0
    tiny_training.train(trainer, 3)
    free.free = 0  # A finished run writes no checkpoint.
    tiny_training.train(make_trainer(), 3)
    free.free = data.stat().st_size  # The first best one was the last new one.
    (tmp_path / "run" / "model.ckpt-best.index").touch()
    make_trainer()._saved.check_disk_space(best=True)


def test_workers_that_restore_different_steps_stop(make_trainer, monkeypatch):
    first = make_trainer()
    first.optimizer.iterations.assign(4)
    first._saved.save()
    first._saved.save_best()

    def gather(self, *numbers):
        return np.array([numbers, [7.0]])

    monkeypatch.setattr(distribution.Workers, "gather", gather)
    for restore in (make_trainer, first.restore_best):
        with refused("`output_dir=.* 4 to 7. It"):
            restore()
