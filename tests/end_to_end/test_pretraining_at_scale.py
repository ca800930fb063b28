"""Pretraining that is killed, preempted, distributed and continued.

Everything runs in separate processes, as a scheduler would start them.
"""

import signal

import pytest
import tensorflow as tf

from albert_tf.common import preemption
from albert_tf.training import run_log
from tests import record_files
from tests.albert_tf.data import short_records
from tests.conftest import LOSS_RTOL, tiny_config
from tests.end_to_end import processes, test_pipeline

# Each process takes some ten seconds. test_pipeline.py kills a run alone.
pytestmark = pytest.mark.slow
STEPS = 12
SIZES = {"vocab_size": short_records.VOCABULARY, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale")
    config = tiny_config(
        **SIZES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    (path / "config.json").write_text(config.to_json())
    # Fewer than the training uses, so that there are several passes.
    record_files.write(
        [path / "a.tfrecord", path / "b.tfrecord"],
        short_records.encode(short_records.make(30)),
    )
    return path


def make_options(folder, name, **changes):
    return {
        "albert_config_file": folder / "config.json",
        "input_file": folder / "*.tfrecord",
        "output_dir": folder / name,
        "max_seq_length": short_records.LENGTH,
        "max_predictions_per_seq": short_records.PREDICTIONS,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "max_eval_steps": 2,
        "num_train_steps": STEPS,
        "num_warmup_steps": 2,
        "learning_rate": 0.001,
        "iterations_per_loop": 1,
        "save_checkpoints_steps": 4,
        **changes,
    }


def start(folder, name, module="albert_tf.run_pretraining", **changes):
    return processes.start(module, **make_options(folder, name, **changes))


def losses(path, split="train", name="loss"):
    return {
        line["step"]: line[name]
        for line in run_log.read(str(path))
        if line["split"] == split
    }


def assert_same_run(*folders):
    one, other = map(losses, folders)
    assert one == other and len(one) == STEPS
    one, other = (
        test_pipeline.weights(folder / f"model.ckpt-{STEPS}")
        for folder in folders
    )
    assert one == other


@pytest.fixture(scope="module")
def whole(folder):
    processes.finish(start(folder, "whole"))
    return folder / "whole"


def start_workers(folder, name, **changes):
    options = make_options(folder, name, **changes)
    return processes.start_workers("albert_tf.run_pretraining", **options)


@pytest.fixture(scope="module")
def plain(folder):
    """A config without dropout, whose draws depend on the replica."""
    config = folder / "plain.json"
    config.write_text(tiny_config(**SIZES).to_json())
    return config


@pytest.fixture(scope="module")
def two(folder, plain):
    """A run of two workers that was stopped once, and its options."""
    changes = {
        "albert_config_file": plain,
        "do_eval": True,
        "pack_sequences": True,
        "save_checkpoints_steps": 1000,
    }
    # One is enough.
    at = ("SIGTERM", "train", 2)
    for worker in start_workers(folder, "two", signal_at=at, **changes):
        output = processes.finish(worker, preemption.EXIT_CODE)
        assert "Exit status 42" in output
    stopped = tf.train.latest_checkpoint(str(folder / "two"))
    assert stopped.endswith("model.ckpt-3")  # That of the loop's next look.
    # The chief's checkpoints are the run's.
    assert not list((folder / "two" / "worker_1").glob("model.ckpt-*"))
    for worker in start_workers(folder, "two", **changes):
        processes.finish(worker)
    return changes, folder / "two"


def test_two_workers_equal_one_device_and_stop_together(folder, two):
    """And share packed rows."""
    changes, two = two
    changes = {**changes, "save_checkpoints_steps": 4}
    processes.finish(start(folder, "one", **changes))
    for split in ("train", "eval"):
        of_one, of_two = losses(folder / "one", split), losses(two, split)
        assert of_one[STEPS] == pytest.approx(of_two[STEPS], rel=LOSS_RTOL)
    assert losses(folder / "one") == pytest.approx(losses(two), rel=LOSS_RTOL)
    assert (two / "run_card.md").exists()
    facts = run_log.read(str(folder / "one"))[0]
    # 8 rows of 16 tokens.
    assert facts["tokens_per_step"] == 128
    assert 8 * 1.2 < facts["examples_per_step"] < 8 * 2


def test_after_a_kill_of_one_worker_all_go_on(folder, two):
    """The other ends with 42, and later steps are those without the kill."""
    changes, undisturbed = two
    changes = {**changes, "save_checkpoints_steps": 1, "do_eval": False}
    for victim, step in ((0, 2), (1, 6)):
        workers = start_workers(
            folder,
            "killed",
            signal_at=("SIGKILL", "train", step),
            signalled=victim,
            **changes,
        )
        processes.finish(workers.pop(victim), -signal.SIGKILL)
        (other,) = workers
        output = processes.finish(other, preemption.EXIT_CODE)
        assert "Another worker has ended" in output
        assert not losses(folder / "killed").keys() >= {STEPS}
    for worker in start_workers(folder, "killed", **changes):
        processes.finish(worker)
    assert_same_run(undisturbed, folder / "killed")


def test_another_process_may_evaluate(folder, whole):
    follower = start(
        folder,
        "whole",
        do_train=False,
        do_eval=True,
        follow_checkpoints=True,
    )
    output = processes.finish(follower)
    found = losses(whole / "evaluation", "eval")
    assert list(found) == [4, 8, 12]
    assert "global_step" in output
    assert (whole / "model.ckpt-best.index").exists()
    # The log of the training is untouched.
    assert not losses(whole, "eval") and len(losses(whole)) == STEPS
    card = processes.finish(
        processes.start("albert_tf.write_run_card", output_dir=whole)
    )
    assert "run_card.md" in card
    text = (whole / "run_card.md").read_text()
    assert "Last evaluation" in text and "tokens_seen" in text


def test_a_schedule_can_be_continued_elsewhere(folder, whole):
    processes.finish(
        start(
            folder,
            "continued",
            init_checkpoint=whole / "model.ckpt-4",
            init_schedule="continue",
        )
    )
    expected = {k: v for k, v in losses(whole).items() if k > 4}
    assert losses(folder / "continued") == expected
