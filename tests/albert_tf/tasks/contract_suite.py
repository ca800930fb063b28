"""What every finetuning task must do; a new one is a case in contract.py.

A case is trained once for a file, so each test_contract*.py beside this one has
the cases of its own.
"""

import glob
import json
import shutil

import numpy as np
import pytest

from albert_tf.common import scores
from albert_tf.data import inputs
from albert_tf.finetuning import registry
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.text import tokenization
from albert_tf.training import run_checkpoints, run_folder
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks import contract
from tests.conftest import python, refused

KEPT = ("run_options.json", "albert_config.json", "spm.model", "run_card.md")


@contract.each()
def test_it_learns(run):
    contract.assert_learnt(run, run.folder)
    (line,) = small_runs.metrics(run.folder, "train")
    assert np.isfinite(line["loss"])
    assert {*KEPT} <= {path.name for path in run.folder.iterdir()}


@contract.each()
def test_records_are_those_of_the_examples(run):
    """What is read and encoded again is what the run has in its files."""
    start = run_folder.read(str(run.folder))
    vocabulary = tokenization.Tokenizer(run.world.vocabulary)
    task = registry.make(start.options, vocabulary, start.facts)
    examples = task.read(str(run.labelled), run.split)
    blocks = list(task.featurize(examples, run.split))
    (path,) = glob.glob(f"{run.folder}/*-{run.split}-*.tfrecord")
    count = sum(len(block["input_ids"]) for block in blocks)
    layout = task.layout(run.split)
    (batch,) = inputs.evaluation_dataset([path], layout, count)
    for name, values in batch.items():
        expected = np.ones(count)  # Of is_real_example, where it is left out.
        if name in blocks[0]:
            expected = np.concatenate([block[name] for block in blocks])
        np.testing.assert_array_equal(values, expected, name)


def written(run, folder):
    """What a run wrote about each of its texts, in their order."""
    if run.case.command == "squad":
        said = json.loads((folder / "predictions.json").read_text())
        return [{"prediction": text} for text in said.values()]
    if run.case.rows or run.case.command == "race":
        return row_files.read(folder / "test_predictions.jsonl")
    lines = (folder / "submit_results.tsv").read_text().splitlines()[1:]
    said = [line.split("\t")[1] for line in lines]
    is_number = run.name == "sts-b"
    return [{"prediction": float(x) if is_number else x} for x in said]


@contract.each()
def test_predictions_are_those_of_the_run(run, answers):
    expected = written(run, run.folder)
    if "embedding" in answers[0]:
        if run.name == "triplets":  # Its predictions are of three texts.
            return
        vectors = {
            row["text"]: np.array(answer["embedding"])
            for row, answer in zip(run.asked, answers, strict=True)
        }
        pairs = [(row["text"], row["text_pair"]) for row in run.asked]
        answers = [{"prediction": vectors[a] @ vectors[b]} for a, b in pairs]
    for answer, row in zip(answers, expected, strict=False):
        answer.pop("n_best", None)
        answer.pop("probabilities", None), row.pop("probabilities", None)
    contract.assert_alike(answers, expected[: len(answers)])


@contract.each(contract.FIRST, fast=("tags",))
def test_a_run_is_scored_again(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    (folder / "scores.json").unlink()
    best = scores.read(str(run.folder)).best.scores
    assert run.score_again(folder) == pytest.approx(best, rel=1e-6)


@contract.each(contract.FIRST, fast=("rte",))
def test_a_stopped_run_goes_on_to_the_same_weights(run, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    half = dict.fromkeys(
        ("save_checkpoints_steps", "iterations_per_loop"), run.case.steps // 2
    )
    changes = {**half, "do_eval": False, "do_predict": False}
    save = run_checkpoints.RunCheckpoints.save

    def save_and_stop(self):
        save(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_checkpoints.RunCheckpoints, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            run.learn(folder, **changes)
    run.learn(folder, **changes)
    name = f"model.ckpt-{run.case.steps}"
    one, other = (
        checkpoint_reader.read(str(place / name))
        for place in (run.folder, folder)
    )
    for names in (one.shapes, one.state):
        np.testing.assert_equal(other.load(names), one.load(names))


@contract.each(contract.FIRST, fast=("tags", "squad 2.0", "label"))
def test_two_runs_that_agree_are_an_ensemble_that_does(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "again")
    folders = [run.folder, tmp_path / "again"]
    small_runs.average(folders, tmp_path / "both", **run.own_module)
    one, other = (written(run, f) for f in (run.folder, tmp_path / "both"))
    contract.assert_alike(other, one)


def answers_beside(folder, texts):
    """Those of the program in an export of ids."""
    done = python(folder / "answer.py", texts, cwd=folder)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "form"),
    [
        (n, form)
        for n, case in contract.CASES.items()
        for form in case.forms.split()
    ],
    indirect=["run"],
)
def test_exports_answer_alike(run, form, answers, tmp_path):
    served = tmp_path / "served"
    given = {"run_dir": run.folder, "format": form, **run.own_module}
    if run.case.not_hub == contract.NO_EXPORT:
        with refused(contract.NO_EXPORT):
            export_options.exported(served, **given)
        return
    report = export_options.exported(served, eval_file=run.labelled, **given)
    scored = report["scores_in_float32"]
    assert report["scores"] == pytest.approx(
        scored, rel=1e-4, abs=contract.FLOAT_ATOL
    )
    if form == "saved_model":
        found = tmp_path / "found.jsonl"
        found = export_options.ask(run.texts, found, saved_model=served)
    else:
        found = answers_beside(served, run.texts)
    contract.assert_alike(found, answers)


@contract.each(
    [name for name, case in contract.CASES.items() if not case.is_variant],
    fast=(),
)
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
    found = answers_beside(served, run.texts)
    if run.name == "labels, one":  # Thresholds have no place in the folder.
        for answer in answers:
            odds = answer["probabilities"].items()
            answer["prediction"] = [name for name, p in odds if p > 0.5]
    contract.assert_alike(found, answers)


@contract.each(
    [*contract.FIRST, *(n for n, c in contract.CASES.items() if c.not_taught)],
    fast=(),
)
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
