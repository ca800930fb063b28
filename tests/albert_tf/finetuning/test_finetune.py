"""Several runs in one folder, and who may write there."""

import json
import os
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_classifier
from albert_tf.common import folder_lock, scores
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed, refused
from tests.hostile import commands

pytestmark = pytest.mark.slow


def test_every_run_has_a_folder_and_a_seed(two_runs):
    for number, seed in ((1, 7), (2, 8)):
        folder = two_runs / f"run_{number}"
        written = json.loads((folder / "run_options.json").read_text())
        assert written["options"]["seed"] == seed
        assert (folder / "model.ckpt-best.index").exists()
        assert (folder / "run_card.md").exists()
        assert not list(folder.glob("*.tfrecord"))  # All runs share them.
    assert len(list(two_runs.glob("*.tfrecord"))) == 3
    weights = [
        tf.train.load_checkpoint(str(two_runs / f"run_{n}" / "model.ckpt-2"))
        for n in (1, 2)
    ]
    name = "model/output_weights/.ATTRIBUTES/VARIABLE_VALUE"
    assert (weights[0].get_tensor(name) != weights[1].get_tensor(name)).any()


def test_runs_are_summed_up(two_runs):
    summary = scores.read(str(two_runs))
    assert [run.seed for run in summary.runs] == [7, 8]
    for run in summary.runs:
        logged = small_runs.metrics(
            two_runs / os.path.basename(run.folder), "eval"
        )
        assert run.scores["accuracy"] == max(n["accuracy"] for n in logged)
    accuracies = [run.scores["accuracy"] for run in summary.runs]
    assert summary.medians["accuracy"] == np.median(accuracies)


def test_predictions_of_the_best_run_stand_beside_the_runs(two_runs):
    best = os.path.basename(scores.read(str(two_runs)).best.folder)
    for name in ("RTE.tsv", "test_results.tsv", "submit_results.tsv"):
        written = (two_runs / name).read_text()
        assert written == (two_runs / best / name).read_text()
    assert len((two_runs / "RTE.tsv").read_text().splitlines()) == 11


def test_started_again_nothing_is_trained(world, two_runs, tmp_path, caplog):
    """Predicting alone, the scores of earlier say which run is the best."""
    folder = tmp_path / "rte"
    shutil.copytree(two_runs, folder)
    before = small_runs.metrics(folder / "run_1", "train")
    written = (folder / "RTE.tsv").read_bytes()
    (folder / "RTE.tsv").unlink()
    settings = small_runs.classifier(world, folder, num_runs=2, seed=7)
    run_classifier.run(changed(settings, do_train=False, do_eval=False))
    assert small_runs.metrics(folder / "run_1", "train") == before
    assert (folder / "RTE.tsv").read_bytes() == written
    (folder / "RTE.tsv").unlink()
    (folder / "scores.json").unlink()
    run_classifier.run(changed(settings, do_train=True, do_eval=False))
    assert small_runs.metrics(folder / "run_1", "train") == before
    assert "No scores say which run is the best" in caplog.text
    assert not (folder / "RTE.tsv").exists()


@pytest.mark.parametrize(
    "folder, num_runs, message",
    [
        (".", 1, "`num_runs=1` does not fit `output_dir=.*`run_1`, too"),
        (".", 2, "`num_runs=2` does not fit .*, which holds `run_3`, too"),
        ("run_1", 2, "`num_runs=2` does not fit .* holds a single run"),
    ],
)
def test_another_number_of_runs_is_refused_and_changes_nothing(
    world, two_runs, tmp_path, folder, num_runs, message
):
    shutil.copytree(two_runs, tmp_path / "rte")
    shutil.copytree(two_runs / "run_2", tmp_path / "rte/run_3")
    before = sorted(tmp_path.rglob("*"))
    settings = small_runs.classifier(
        world, tmp_path / "rte" / folder, num_runs=num_runs, seed=7
    )
    with refused(message):
        run_classifier.run(settings)
    assert sorted(tmp_path.rglob("*")) == before


def test_missing_weights_are_found_before_features_are_made(world, tmp_path):
    settings = small_runs.classifier(world, tmp_path / "rte")
    settings = changed(settings, do_train=False)
    with refused("has no checkpoint to evaluat"):
        run_classifier.run(settings)
    assert not (tmp_path / "rte").exists()


def test_a_run_is_not_continued_with_other_data(world, tmp_path):
    glue = tmp_path / "glue"
    shutil.copytree(world.glue, glue)
    world = types.SimpleNamespace(**{**vars(world), "glue": str(glue)})
    settings = changed(
        small_runs.classifier(world, tmp_path / "rte", train_step=1),
        do_eval=False,
        do_predict=False,
    )
    run_classifier.run(settings)
    table = glue / "RTE/train.tsv"
    table.write_text(table.read_text().replace("0", "1", 1))
    before = commands.snapshot(tmp_path / "rte")
    with refused("other records.*init_checkp"):
        run_classifier.run(settings)
    assert commands.snapshot(tmp_path / "rte") == before


@pytest.mark.parametrize("num_runs", [1, 2])
def test_a_second_finetuning_in_a_folder_is_refused_and_changes_nothing(
    world, tmp_path, monkeypatch, num_runs
):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    with folder_lock.hold(str(tmp_path / "rte"), "output_dir"):
        with refused("/rte` is in use by"):
            run_classifier.run(
                small_runs.classifier(
                    world, tmp_path / "rte", num_runs=num_runs
                )
            )
        assert os.listdir(tmp_path / "rte") == [folder_lock.NAME]
