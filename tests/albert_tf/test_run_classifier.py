"""GLUE tasks with more than one development or test set."""

import dataclasses
import shutil

import numpy as np
import pytest

from albert_tf import run_classifier
from albert_tf.common import scores
from albert_tf.finetuning import (
    base,
    fact_sources,
    registry,
    saved_outputs,
)
from albert_tf.tasks.glue import specs
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.table import data
from tests import row_files
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed, refused


def test_both_dev_sets_of_mnli_are_scored(mnli):
    """Row N of either file has the label N."""
    scored = scores.read(str(mnli)).best.scores
    for split, ending, rows in (
        ("dev_matched", "", 3),
        ("dev_mismatched", "_mismatched", 2),
    ):
        logits = saved_outputs.load(str(mnli), split).outputs["logits"]
        assert logits.shape == (rows, 3)
        labels = np.arange(rows)
        right = (logits.argmax(-1) == labels).mean()
        assert scored[f"accuracy{ending}"] == pytest.approx(right)
        odds = np.exp(logits.astype(np.float64))
        losses = -np.log((odds / odds.sum(-1, keepdims=True))[labels, labels])
        assert scored[f"loss{ending}"] == pytest.approx(losses.mean(), rel=1e-6)


def test_all_test_sets_of_mnli_are_predicted(mnli):
    labels = specs.TASKS["mnli"].labels
    for name, split, rows in (
        ("MNLI-m", "test_matched", 3),
        ("MNLI-mm", "test_mismatched", 2),
        ("AX", "ax", 1),
    ):
        best = saved_outputs.load(str(mnli), split).outputs["logits"].argmax(-1)
        assert len(best) == rows
        assert (mnli / f"{name}.tsv").read_text().splitlines() == [
            "index\tprediction",
            *(f"{row}\t{labels[label]}" for row, label in enumerate(best)),
        ]


def test_ax_is_predicted_by_a_finetuned_mnli_model(world, mnli, tmp_path):
    run_classifier.run(
        small_runs.classifier(
            world,
            tmp_path / "ax",
            "ax",
            do_train=False,
            do_eval=False,
            init_checkpoint=str(mnli),
        )
    )
    written = (tmp_path / "ax/AX.tsv").read_text()
    assert written == (mnli / "AX.tsv").read_text()


def test_a_head_with_the_labels_of_glue_turned_round_is_refused(
    world, tmp_path, monkeypatch
):
    turned = specs.TASKS["rte"].labels[::-1]
    facts = {"labels": turned}
    monkeypatch.setattr(
        fact_sources.RunSource, "head_facts", lambda self: facts
    )
    settings = small_runs.classifier(
        world, tmp_path / "run", do_train=False, init_checkpoint="hub"
    )
    with refused("add `new_head`"):
        run_classifier.run(settings)


def test_an_own_task_says_where_its_files_are(world, tmp_path, monkeypatch):
    class Own(glue.GlueTask):
        sources = base.Task.sources

    monkeypatch.setitem(registry.TASKS, "own", Own)
    monkeypatch.setitem(specs.TASKS, "own", specs.TASKS["rte"])
    settings = small_runs.classifier(world, tmp_path / "run", "own")
    with refused("Own has no method sources"):
        run_classifier.run(settings)


def own_table(world, folder, **values):
    """A run with a table; the body says which mood it is."""
    moods = "glad", "cross, very"
    bodies = "We, we, we", "The lamp. " * 2
    rows = [
        f'{n},"Letter {n}","{bodies[n % 2]}","{moods[n % 2]}"'
        for n in range(60)
    ]
    for name in ("train", "test"):
        path = folder.parent / f"{name}.csv"
        path.write_text("\n".join(["nr,title,body,mood", *rows]) + "\n")
    settings = run_classifier.ClassifierOptions(
        finetuning=small_runs.shared(world, folder, max_seq_length=24),
        train_file=str(folder.parent / "train.csv"),
        test_file=str(folder.parent / "test.csv"),
        table=data.TableOptions(
            text_columns="title,body",
            label_column="mood",
            id_column="nr",
            class_weights="balanced",
            best_score="macro_f1",
        ),
    )
    return changed(
        settings,
        **{
            "train_step": 100,
            "learning_rate": 3e-3,
            "save_checkpoints_steps": 100,
            "iterations_per_loop": 100,
            **values,
        },
    )


@pytest.fixture(scope="module")
def table_run(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table") / "run"
    run_classifier.run(own_table(world, folder))
    return folder


def test_a_table_is_learnt(table_run):
    found = scores.read(str(table_run)).best.scores
    assert found["macro_f1"] > 0.8, found
    card = (table_run / "run_card.md").read_text()
    assert "| label | examples | precision" in card
    assert (table_run / "confusion_held_out.png").is_file()
    answers = row_files.read(table_run / "test_predictions.jsonl")
    assert answers[0]["id"] == "0"
    assert answers[0]["prediction"] in ("cross, very", "glad")
    assert len(answers) == 60


def test_runs_that_hold_out_other_rows_are_no_ensemble(table_run, tmp_path):
    for name in "ab":
        shutil.copytree(table_run, tmp_path / name)
    saved = saved_outputs.load(str(table_run), base.HELD_OUT)
    options = {**saved.key["options"], "dev_share": [0.1, 1]}
    other = {**saved.key, "options": options}
    saved_outputs.save(
        str(tmp_path / "b"),
        base.HELD_OUT,
        dataclasses.replace(saved, key=other),
    )
    with refused("dev_share was .* now .0.1, 1."):
        small_runs.average([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


def test_a_table_s_run_is_scored_without_its_training_file(world, table_run):
    before = scores.read(str(table_run)).best.scores
    settings = changed(own_table(world, table_run), do_train=False)
    run_classifier.run(settings)
    assert scores.read(str(table_run)).best.scores == before
    path = settings.test_file
    run_classifier.run(
        changed(
            settings,
            train_file=None,
            dev_file=path,
            id_column=None,
            labels="cross, very\tglad",
        )
    )
    assert [f.name for f in table_run.glob("confusion_held_out.*")] == []
    assert scores.read(str(table_run)).best.scores["accuracy"] > 0.8


def test_a_start_that_was_broken_off_decides_no_share(
    world, table_run, tmp_path, monkeypatch
):
    folder, found = tmp_path / "run", []
    folder.mkdir()
    for name in ("run_options.json", "albert_config.json"):
        shutil.copy(table_run / name, folder)

    class EndedError(Exception):
        """After the task is made."""

    def make(*args, **more):
        found.append(original(*args, **more))
        raise EndedError

    original = registry.make
    monkeypatch.setattr(registry, "make", make)
    settings = own_table(world, folder)
    content = (folder / "run_options.json").read_text()
    changed_content = content.replace('"dev_share": 0.1', '"dev_share": 0.5')
    assert changed_content != content
    (folder / "run_options.json").write_text(changed_content)
    for _ in range(2):
        with pytest.raises(EndedError):
            run_classifier.run(settings)
        (folder / "checkpoint").touch()
    shares = [task.facts.dev_share for task in found]
    assert shares == [data.DEV_SHARE, 0.5]


def test_another_training_file_holds_out_no_learnt_rows(world, table_run):
    settings = changed(own_table(world, table_run), do_train=False)
    path = table_run.parent / "more.csv"
    before = (table_run.parent / "train.csv").read_text()
    path.write_text(f'{before}x,"T","B",glad\n')
    with refused("more.csv` has changed since"):
        run_classifier.run(changed(settings, train_file=str(path)))
