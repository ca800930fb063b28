"""Finetuning in two worker processes."""

import pathlib

import numpy as np
import pytest

from albert_tf import run_classifier
from albert_tf.common import scores
from albert_tf.common.options import from_dict
from albert_tf.training import distribution, run_log
from tests import own_tasks
from tests.conftest import LOSS_RTOL, make_replicas, tiny_config
from tests.end_to_end import processes

SPLITS = {"train": 24, "dev": 13, "test": 5}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    config = tiny_config()
    (folder / "config.json").write_text(config.to_json())
    own_tasks.write_rte(folder / "RTE", **SPLITS)
    return folder


def options(inputs, vocabulary, name):
    return {
        "task_name": "rte",
        "data_dir": inputs,
        "albert_config_file": inputs / "config.json",
        "spm_model_file": vocabulary,
        "output_dir": inputs / name,
        "max_seq_length": 48,
        "train_batch_size": 8,
        "train_step": 6,
        "warmup_step": 1,
        "learning_rate": 0.01,
        "save_checkpoints_steps": 2,
        "iterations_per_loop": 1,
        "num_runs": 2,
        "early_stopping_evaluations": 2,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
    }


@pytest.mark.slow
def test_two_workers_equal_two_replicas(inputs, tiny_vocab, monkeypatch):
    two = options(inputs, tiny_vocab, "two")
    workers = processes.start_workers("albert_tf.run_classifier", **two)
    # Not one device: the draws of dropout depend on the replica.
    replicas = make_replicas()
    monkeypatch.setattr(distribution, "make_strategy", lambda _: replicas)
    one = {
        k: str(v) if isinstance(v, pathlib.Path) else v
        for k, v in options(inputs, tiny_vocab, "one").items()
    }
    run_classifier.run(from_dict(run_classifier.ClassifierOptions, one))
    for worker in workers:
        processes.finish(worker)
    expected, actual = (scores.read(str(inputs / n)) for n in ("one", "two"))
    for alone, shared in zip(expected.runs, actual.runs, strict=True):
        assert shared.step == alone.step
        assert shared.scores == pytest.approx(alone.scores, rel=LOSS_RTOL)
    for run in ("run_1", "run_2"):
        folders = [inputs / name / run for name in ("one", "two")]
        losses = [
            [line["loss"] for line in run_log.read(str(f)) if "loss" in line]
            for f in folders
        ]
        np.testing.assert_allclose(*losses, rtol=LOSS_RTOL)
        names = [{p.name for p in f.iterdir()} for f in folders]
        assert names[1] - names[0] == {"worker_1"}
        assert names[0] <= names[1]
    tables = [(inputs / n / "RTE.tsv").read_text() for n in ("one", "two")]
    assert tables[0] == tables[1]
