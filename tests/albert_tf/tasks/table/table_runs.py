"""What only runs with tables do, for test_contract_of_classifiers.py."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from albert_tf.common import scores
from albert_tf.finetuning import base, registry, saved_outputs, teacher
from albert_tf.tasks.table import data, labels
from albert_tf.text import tokenization
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.tasks import contract
from tests.albert_tf.tasks.glue.small_tasks import Markers
from tests.conftest import refused


def test_a_run_with_a_table_tells_what_it_confuses(runs):
    run = runs("label")
    card = (run.folder / "run_card.md").read_text()
    assert "| label | examples | precision" in card
    assert (run.folder / "confusion_held_out.png").is_file()
    answers = row_files.read(run.folder / "test_predictions.jsonl")
    assert answers[0]["id"] == "n0"
    assert answers[0]["prediction"] in contract.MOODS
    assert len(answers) == 60


def test_runs_that_hold_out_other_rows_are_no_ensemble(runs, tmp_path):
    run = runs("label")
    for name in "ab":
        shutil.copytree(run.folder, tmp_path / name)
    saved = saved_outputs.load(str(run.folder), base.HELD_OUT)
    options = {**saved.key["options"], "dev_share": [0.1, 1]}
    other = {**saved.key, "options": options}
    saved_outputs.save(
        str(tmp_path / "b"),
        base.HELD_OUT,
        dataclasses.replace(saved, key=other),
    )
    with refused("dev_share was .* now .0.1, 1."):
        small_runs.average([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


def test_a_table_s_run_is_scored_without_its_training_file(runs, tmp_path):
    run = runs("label")
    folder = shutil.copytree(run.folder, tmp_path / "run")
    changes = dict.fromkeys(("train_file", "id_column", "dev_share"))
    changes |= {"dev_file": run.labelled, "labels": "cross, very\tglad"}
    assert run.score_again(folder, **changes)["accuracy"] > 0.8
    assert [f.name for f in folder.glob("confusion_held_out.*")] == []


def test_a_start_that_was_broken_off_decides_no_share(
    runs, tmp_path, monkeypatch
):
    run, folder, found = runs("label"), tmp_path / "run", []
    folder.mkdir()
    shutil.copy(run.folder / "albert_config.json", folder)
    begun = json.loads((run.folder / "run_options.json").read_text())
    begun["options"]["dev_share"], begun["facts"]["dev_share"] = None, 0.5
    (folder / "run_options.json").write_text(json.dumps(begun))

    class EndedError(Exception):
        """After the task is made."""

    def make(*args, **more):
        found.append(original(*args, **more))
        raise EndedError

    original = registry.make
    monkeypatch.setattr(registry, "make", make)
    for _ in range(2):
        with pytest.raises(EndedError):
            run.learn(folder, dev_share=None)
        (folder / "checkpoint").touch()
    shares = [task.facts.dev_share for task in found]
    assert shares == [data.DEV_SHARE, 0.5]


def test_another_training_file_holds_out_no_learnt_rows(runs, tmp_path):
    run = runs("label")
    more = {"id": "x", "text": "T", "text_pair": "B", "label": "glad"}
    rows = [*row_files.read(run.labelled), more]
    path = row_files.write(tmp_path / "more.jsonl", rows)
    with refused("more.jsonl` has changed since"):
        run.learn(run.folder, do_train=False, train_file=path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one", "each"])
def test_later_evaluations_keep_the_thresholds(runs, tmp_path, kind):
    """So the score of a test file is one of texts that decided nothing."""
    run = runs(f"labels, {kind}")
    before = scores.read(str(run.folder)).best.scores
    names = [name for name in before if "threshold" in name]
    assert len(names) == {"one": 1, "each": 3}[kind]
    others = row_files.read(run.labelled)[3:12]
    path = row_files.write(tmp_path / "others.jsonl", others)
    folder = shutil.copytree(run.folder, tmp_path / "run")
    after = run.score_again(folder, dev_file=path, train_file=None)
    assert {n: after[n] for n in names} == {n: before[n] for n in names}
    assert after["loss"] != before["loss"]


@pytest.mark.slow
def test_large_numbers_are_learnt_as_small_ones(runs, tmp_path, caplog):
    """Of 1,700,000,000 float32 knows every 128th; the deviation is 11."""
    run, large = runs("number"), tmp_path / "large"
    rows = row_files.read(run.labelled)
    later = [{**row, "label": row["label"] + 1.7e9} for row in rows]
    path = row_files.write(tmp_path / "later.jsonl", later)
    run.learn(large, train_file=path, test_file=path)
    best = scores.read(str(large)).best.scores
    assert best["pearson"] > 0.7, best
    assert 0 < best["mae"] <= best["rmse"] < 10
    served = tmp_path / "served"
    export_options.exported(served, run_dir=large)
    assert "holds every 128th number" in caplog.text
    ours = export_options.ask(run.own, tmp_path / "ours", run_dir=large)
    theirs = export_options.ask(run.own, tmp_path / "its", saved_model=served)
    ours = [answer["prediction"] for answer in ours]
    theirs = [answer["score"] for answer in theirs]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
    assert 10 < np.ptp(ours) < 50


@pytest.mark.slow
def test_numbers_of_a_run_go_on_in_its_units(runs, tmp_path):
    """Another file has another mean; the head of the model has the run's."""
    run = runs("number")
    rows = row_files.read(run.labelled)
    more = [{**row, "label": row["label"] - 500} for row in rows]
    path = row_files.write(tmp_path / "more.jsonl", more)
    run.convert(tmp_path / "hub")
    files = dict.fromkeys(("train_file", "dev_file", "test_file"), path)
    steps = dict.fromkeys(("train_step", "save_checkpoints_steps"), 1)
    for init, mean in ((run.folder, 2005), (tmp_path / "hub", 0)):
        folder = tmp_path / f"of_{init.name}"
        run.learn(folder, init_checkpoint=init, **files, **steps)
        options = json.loads((folder / "run_options.json").read_text())
        assert options["facts"]["label_mean"] == pytest.approx(mean, abs=2)
        assert scores.read(str(folder)).best.scores["mae"] > 400
    given = {"init_checkpoint": init, "dev_file": path, **steps}
    run.score_again(folder, train_file=None, **given)
    with refused("mean of the numbers is not"):
        run.score_again(tmp_path / "new", dev_file=path, train_file=None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a label", "labels", "a number"])
def test_all_of_a_long_text_is_read(runs, tmp_path, kind):
    run = runs(f"windows of {kind}")
    tokenizer = tokenization.Tokenizer(run.world.vocabulary)
    (pieces,) = tokenizer.encode_batch([contract.FILLING])
    assert len(pieces) >= 22  # So the first window has nothing else.
    ends = [contract.WORDS[name] * 8 for name in ("rain", "lamp", "rain")]
    texts = [contract.FILLING + end for end in ends]
    path = row_files.write(
        tmp_path / "texts.jsonl", [{"text": text} for text in [*texts, ""]]
    )
    answers = export_options.ask(path, tmp_path / "out", run_dir=run.folder)
    one, other, again, _ = (
        [*answer.get("probabilities", {0: answer["prediction"]}).values()]
        for answer in answers
    )
    assert np.abs(np.subtract(one, other)).max() > 1e-3
    np.testing.assert_allclose(one, again, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_teacher_has_one_label_and_one_output_for_a_text(runs, tmp_path):
    columns = data.TableOptions(text_columns="text", labels="a,b")
    task = labels.LabelTask(Markers(), 24, columns)
    served = tmp_path / "served"
    export_options.exported(served, run_dir=runs("labels, one").folder)
    for path, message in (
        (served, "several labels, the task one"),
        (runs("windows of a label").folder, "several outputs for a text"),
    ):
        with refused(message):
            teacher.open_teacher(str(path), task)
