"""Every finetuned run as a folder for others, and as a teacher."""

import json

import numpy as np
import pytest

from albert_tf.common import scores
from albert_tf.training import run_folder
from tests import export_options
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks import contract
from tests.conftest import refused


@contract.each(fast=())
def test_a_converted_run_is_the_same_model(run, tmp_path):
    """Also where transformers has no place for it."""
    folder, given = tmp_path / "converted", {}
    if run.case.not_hub:
        with refused(run.case.not_hub):
            run.convert(folder)
        folder = folder / "model.ckpt-best"
        run.convert(folder, "tf1")
        if "regression" in run.case.flags:  # The head gives the numbers.
            given = {"label_mean": 0, "label_deviation": 1}
    else:
        run.convert(folder)
        config = json.loads((folder / "config.json").read_text())
        if name := contract.HUBS[run.case.command][1]:
            assert config["architectures"] == [name]
        labels = run_folder.read(str(run.folder)).facts.get("labels")
        assert not labels or labels == [*config["id2label"].values()]
    best = scores.read(str(run.folder)).best.scores
    found = run.score_again(tmp_path / "run", init_checkpoint=folder, **given)
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    ["tags", "scored", "race", "squad 1.1", "label", "labels, one", "number"],
    indirect=True,
)
def test_a_folder_of_others_is_exported(run, answers, tmp_path):
    hub, served = tmp_path / "hub", tmp_path / "served"
    run.convert(hub)
    run.export_folder(served, hub)
    found = tmp_path / "found.jsonl"
    found = export_options.ask(run.texts, found, saved_model=served)
    if "predicted" in found[0]:  # Thresholds have no place in the folder.
        for answer in answers:
            odds = answer["probabilities"].items()
            answer["prediction"] = [name for name, p in odds if p > 0.5]
    contract.assert_alike(found, answers)


@contract.each(fast=())
def test_a_student_learns_what_its_teacher_says(run, tmp_path):
    """From the teacher alone."""
    if run.case.not_taught:
        with refused(run.case.not_taught):
            run.settings(tmp_path, teacher=run.folder)
        return
    taught = {"teacher": run.folder, "teacher_weight": 1.0}
    if run.case.command == "embeddings":
        taught = {
            "command": "distill",
            "teacher": run.folder,
            "train_examples": "texts",
            "dev_examples": run.name,
            "train_file": run.own,
        }
    folder = run.learn(tmp_path / "student", **taught)
    assert np.isfinite(small_runs.metrics(folder, "train")[0]["loss"])
    contract.assert_learnt(run, folder)
    if length := {"tagger": 16, "squad": 48}.get(run.case.command):
        with refused("single tokens"):
            run.learn(tmp_path / "other", max_seq_length=length, **taught)


@pytest.mark.torch
@pytest.mark.parametrize(
    "run", ["label", "labels, one", "number", "pairwise"], indirect=True
)
def test_transformers_give_the_same_answers(run, answers, tmp_path):
    import transformers

    run.convert(tmp_path / "hub")
    names = "text", "text_pair"
    texts = [{k: row[k] for k in names if k in row} for row in run.asked]
    model = transformers.pipeline(
        "text-classification", str(tmp_path / "hub"), top_k=None
    )
    for answer, theirs in zip(answers, model(texts), strict=True):
        expected = {"LABEL_0": answer["prediction"]}
        expected = answer.get("probabilities") or expected
        found = {one["label"]: one["score"] for one in theirs}
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
