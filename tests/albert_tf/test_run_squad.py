"""Ensembles of SQuAD; what a run does: tasks/contract_suite.py."""

import dataclasses
import shutil

import pytest

from albert_tf import run_squad
from albert_tf.finetuning import saved_outputs
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed, refused


@pytest.mark.slow
def test_an_ensemble_needs_the_file_of_the_questions_and_their_windows(
    world, tmp_path
):
    """With other windows shapes are the same, but not what numbers mean."""
    one, other = folders = [tmp_path / name for name in ("one", "other")]
    file = shutil.copy(world.squad / "dev.json", tmp_path)
    settings = small_runs.answerer(world, one, predict_file=file, train_step=1)
    run_squad.run(changed(settings, do_predict=False))
    shutil.copytree(one, other)
    shutil.move(file, tmp_path / "moved.json")
    with refused("Say with --predict_file"):
        small_runs.average(folders, tmp_path / "both")
    moved = {"predict_file": str(tmp_path / "moved.json")}
    small_runs.average(folders, tmp_path / "both", **moved)
    results = small_runs.open_text(tmp_path / "both", "eval_results.txt")
    assert "f1 = " in results
    saved = saved_outputs.load(str(other), "dev")
    key = saved.key | {
        "options": {**saved.key["options"], "max_query_length": 15}
    }
    keyed = dataclasses.replace(saved, key=key)
    saved_outputs.save(str(other), "dev", keyed)
    with refused("(?s)other windows.*max_query_length was 1"):
        small_runs.average(folders, tmp_path / "again", **moved)
