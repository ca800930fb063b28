"""GLUE tasks with more than one development or test set."""

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
from tests.albert_tf.finetuning import small_runs
from tests.conftest import refused


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
