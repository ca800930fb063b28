"""Ensembles of several runs."""

import dataclasses
import pathlib
import shutil
import types

import numpy as np
import pytest

from albert_tf import ensemble
from albert_tf.common import outputs, scores
from albert_tf.finetuning import base, saved_outputs
from albert_tf.tasks.glue import specs
from tests.albert_tf.finetuning import small_runs
from tests.conftest import refused


def save_again(folder, split, **changes):
    saved = saved_outputs.load(str(folder), split)
    other = dataclasses.replace(saved, **changes)
    saved_outputs.save(str(folder), split, other)


@pytest.fixture
def copied(two_runs, tmp_path):
    """A copy of two runs, which may be changed."""
    return pathlib.Path(shutil.copytree(two_runs, tmp_path / "rte"))


def test_tests_of_any_run_are_combined_and_what_all_have_scored(tmp_path):
    task = types.SimpleNamespace(eval_splits=["dev", "b"], test_splits=["test"])
    folders = [str(tmp_path / name) for name in "ab"]
    for name in ("a/dev", "a/b", "b/b", "b/test"):
        small_runs.write(tmp_path / f"{name}_outputs.npz", "")
    assert ensemble._find_splits(None, folders, task) == ["b", "test"]


@pytest.mark.parametrize("source", ["gs://bucket/dev.tsv", "/dev/null", "no"])
@pytest.mark.slow
def test_an_ensemble_reads_files_of_this_machine_only(copied, tmp_path, source):
    for folder in copied.glob("run_*"):
        save_again(folder, "dev", source=source)
    with refused(f"predicted {source}, which"):
        small_runs.average([copied / "run_*"], tmp_path / "both")


@pytest.mark.slow
def test_ensemble_of_runs_whose_data_have_moved(
    world, two_runs, copied, tmp_path
):
    runs = [copied / "run_*"]
    for folder in copied.glob("run_*"):
        for split in ("dev", "test"):
            save_again(folder, split, source="moved away")
    changed_data = tmp_path / "changed"
    shutil.copytree(world.glue, changed_data)
    (changed_data / "RTE/dev.tsv").write_text("another")
    for values, message in (
        ({}, "predicted moved away, which .* Say with --data_dir where"),
        ({"data_dir": str(tmp_path)}, "--data_dir leads to .*, which is no"),
        ({"predict_file": "x"}, "--predict_file=x does not go with the task"),
        ({"data_dir": str(changed_data)}, "dev.tsv is not what the runs"),
    ):
        with refused(message):
            small_runs.average(runs, tmp_path / "both", **values)
    small_runs.average(runs, tmp_path / "both", data_dir=world.glue)
    assert (tmp_path / "both/eval_results.txt").exists()
    small_runs.average([two_runs / "run_*"], tmp_path / "before")
    for name in ("RTE.tsv", "test_results.tsv"):
        now = small_runs.open_text(tmp_path / "both", name)
        assert now == small_runs.open_text(tmp_path / "before", name)
    # What comes out is read where the data are now.
    saved = saved_outputs.load(str(tmp_path / "both"), "dev")
    assert saved.source.startswith(world.glue)


@pytest.mark.slow
def test_only_what_all_runs_have_scored_is_combined(copied, tmp_path, caplog):
    (copied / "run_2/dev_outputs.npz").unlink()
    small_runs.average([copied / "run_*"], tmp_path / "tests")
    assert not (tmp_path / "tests/dev_outputs.npz").exists()
    assert "dev is left out: " in caplog.text
    for number, message in (
        (1, "run_1/test_outputs.npz is not there"),
        (2, "run_1: dev; .*run_2: none"),
    ):
        (copied / f"run_{number}/test_outputs.npz").unlink()
        with refused(message):
            small_runs.average([copied / "run_*"], tmp_path / "none")


@pytest.mark.slow
def test_other_outputs_do_not_replace_an_ensemble(copied, tmp_path):
    for _ in range(2):  # Again, as after an interruption.
        small_runs.average([copied / "run_*"], tmp_path / "both")
    saved = saved_outputs.load(str(copied / "run_1"), "dev")
    negated = {name: -value for name, value in saved.outputs.items()}
    save_again(copied / "run_1", "dev", outputs=negated)
    with refused("output_dir"):
        small_runs.average([copied / "run_*"], tmp_path / "both")


@pytest.mark.slow
def test_ensemble_averages_the_probabilities_of_runs(two_runs, tmp_path):
    small_runs.average([two_runs / "run_*"], tmp_path / "both")
    folders = two_runs / "run_1", two_runs / "run_2", tmp_path / "both"
    odds = [np.loadtxt(folder / "test_results.tsv") for folder in folders]
    np.testing.assert_allclose(odds[2], (odds[0] + odds[1]) / 2, rtol=1e-9)
    lines = small_runs.open_lines(tmp_path / "both/RTE.tsv")
    names = np.array(specs.TASKS["rte"].labels)
    labels = [line.split("\t")[1] for line in lines[1:]]
    assert labels == names[odds[2].argmax(1)].tolist()
    results = small_runs.open_text(tmp_path / "both", "eval_results.txt")
    assert results.startswith("accuracy = ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "folders, message",
    [
        (["{0}/run_1", "{1}"], "have not one task, but mnli, rte"),
        (["{0}/run_1", "{0}/./run_1"], "names 1 folder"),
    ],
)
def test_unlike_runs_are_no_ensemble(
    two_runs, mnli, tmp_path, folders, message
):
    folders = [folder.format(two_runs, mnli) for folder in folders]
    with refused(message):
        small_runs.average(folders, tmp_path / "both")


@pytest.mark.parametrize(
    ("split", "name", "is_refused"),
    [
        ("dev", "label", True),
        ("dev", "columns", False),
        ("dev", "dev_share", False),
        ("dev", "ranking_loss", True),
        ("dev", "pairs", False),
        (base.HELD_OUT, "label", True),
        (base.HELD_OUT, "columns", True),
        (base.HELD_OUT, "dev_share", True),
    ],
)
def test_runs_on_other_columns(split, name, is_refused):
    """Other texts are fine, but the same texts are held out together."""
    first = {"columns": [["title"], "mood"], "dev_share": [0.1, 1]}
    first |= {"pairs": [None, 4]} if name in ("ranking_loss", "pairs") else {}
    second = {
        "label": {"columns": [["title"], "spam"]},
        "columns": {"columns": [["body"], "mood"]},
        "dev_share": {"dev_share": [0.1, 2]},
        "ranking_loss": {"pairs": ["pointwise", None]},
        "pairs": {"pairs": ["pairwise", 9]},
    }[name]
    lines = outputs.changes(
        ensemble._meaning(first, split),
        ensemble._meaning({**first, **second}, split),
    )
    assert any(line.startswith(f"{name} was ") for line in lines) == is_refused


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "kind"])
def test_columns_of_other_labels_are_no_ensemble(copied, tmp_path, name):
    key = saved_outputs.load(str(copied / "run_2"), "dev").key
    options = key["options"]
    others = {**options, name: options.get(name, ["label"])[::-1] * 2}
    save_again(copied / "run_2", "dev", key={**key, "options": others})
    with refused(f"means .* else .*\n  {name} was "):
        small_runs.average([copied / "run_*"], tmp_path / "both")


@pytest.mark.slow
def test_of_a_folder_of_several_runs_the_best_is_taken(two_runs, tmp_path):
    best = scores.best_folder(str(two_runs))
    (other,) = {f"{two_runs}/run_1", f"{two_runs}/run_2"} - {best}
    odds = []
    for name, first in (("one", best), ("several", two_runs)):
        small_runs.average([first, other], tmp_path / name)
        odds.append(small_runs.open_text(tmp_path / name, "test_results.tsv"))
    assert odds[0] == odds[1]


@pytest.mark.slow
def test_outputs_about_other_data_are_no_ensemble(copied, tmp_path):
    saved = saved_outputs.load(str(copied / "run_2"), "dev")
    other = {**saved.key, "content_sha256": "0"}
    fewer = {"logits": saved.outputs["logits"][1:]}
    for key, logits in ((other, saved.outputs), (saved.key, fewer)):
        save_again(copied / "run_2", "dev", key=key, outputs=logits)
        with refused("about other data"):
            small_runs.average([copied / "run_*"], tmp_path / "both")
