"""GLUE tasks with more than one development or test set."""

import pytest

from albert_tf import run_classifier
from albert_tf.common import errors
from albert_tf.finetuning import registry, saved_outputs
from albert_tf.finetuning.glue import glue
from tests.albert_tf.finetuning import small_runs


def test_both_dev_sets_of_mnli_are_scored(mnli):
    (first, *_) = small_runs.metrics(mnli, "eval")
    assert {"accuracy", "accuracy_mismatched", "loss"} <= first.keys()
    assert (
        len(saved_outputs.load(str(mnli), "dev_matched").outputs["logits"]) == 3
    )
    other = saved_outputs.load(str(mnli), "dev_mismatched").outputs["logits"]
    assert len(other) == 2


def test_all_test_sets_of_mnli_are_predicted(mnli):
    for name, rows in (("MNLI-m", 3), ("MNLI-mm", 2), ("AX", 1)):
        lines = (mnli / f"{name}.tsv").read_text().splitlines()
        assert lines[0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[1:]] == list(
            map(str, range(rows))
        )


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
