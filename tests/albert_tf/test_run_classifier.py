"""GLUE tasks with more than one development or test set."""

import numpy as np
import pytest

from albert_tf import run_classifier
from albert_tf.common import errors, scores
from albert_tf.finetuning import registry, saved_outputs
from albert_tf.finetuning.glue import glue, glue_tasks
from tests.albert_tf.finetuning import small_runs


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
    labels = glue_tasks.TASKS["mnli"].labels
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


@pytest.mark.parametrize("what", ["do_train", "do_eval"])
def test_ax_has_nothing_to_train_or_to_score(world, tmp_path, what):
    flags = dict.fromkeys(["do_train", "do_eval", "do_predict"], False)
    settings = small_runs.classifier(
        world, tmp_path / "ax", "ax", **{**flags, what: True}
    )
    with pytest.raises(errors.UserError, match=f"`{what}` is set, but .* ax"):
        run_classifier.run(settings)
    assert not (tmp_path / "ax").exists()


def test_an_own_task_says_where_its_files_are(world, tmp_path, monkeypatch):
    class Own(glue.GlueTask):
        name = "own"
        sources = None

    monkeypatch.setitem(
        registry.MAKERS, "own", lambda _, tokenizer: Own("rte", tokenizer, 48)
    )
    settings = small_runs.classifier(world, tmp_path / "run", "own")
    with pytest.raises(errors.UserError, match="Own has no method sources"):
        run_classifier.run(settings)
