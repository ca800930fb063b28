"""Which labels a run has."""

import json
import types

import pytest

from albert_tf.common import errors, scores
from albert_tf.finetuning import known_labels, tables
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.training import run_folder
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed, tiny_config

NAMES = known_labels.Names(
    "labels", lambda text: tables.TableOptions(labels=text).names, "output_bias"
)


def test_those_of_the_file_or_of_the_model(world, tmp_path, monkeypatch):
    settings = small_runs.shared(world, tmp_path / "run")
    assert NAMES.choose(settings, "t.csv", lambda path: [path]) == ["t.csv"]
    with pytest.raises(errors.UserError, match="labels are not known"):
        NAMES.choose(settings, None, list)

    models = {"old": ("b", "a")}
    monkeypatch.setattr(
        known_labels.Names, "of_model", lambda self, model: models.get(model)
    )
    settings = changed(settings, init_checkpoint="old")
    assert NAMES.choose(settings, None, list) == ("b", "a")
    assert NAMES.choose(settings, "t.csv", lambda path: "ab") == ("b", "a")
    with pytest.raises(errors.UserError, match="`init_checkpoint=old` holds"):
        NAMES.choose(settings, "t.csv", lambda path: "abc")
    settings = changed(settings, new_head=True)
    assert NAMES.choose(settings, "t.csv", lambda path: "abc") == "abc"
    with pytest.raises(errors.UserError, match="labels are not known"):
        NAMES.choose(settings, None, list)
    # A run that is evaluated has its own.
    models[settings.output_dir] = ("c", "d")
    settings = changed(settings, new_head=False)
    start(tmp_path / "run")
    assert NAMES.choose(settings, None, list) == ("b", "a")
    (tmp_path / "run/checkpoint").touch()
    assert NAMES.choose(settings, None, list) == ("c", "d")


def test_a_head_with_the_labels_in_another_order(world, tmp_path, monkeypatch):
    settings = small_runs.shared(world, tmp_path / "run")
    models = {"old": ("a", "b"), "new": ("LABEL_0", "LABEL_1")}
    monkeypatch.setattr(
        known_labels.Names, "of_model", lambda self, model: models[model]
    )
    NAMES.check_order(settings, "ba")
    for init, labels in (("old", "ab"), ("old", "ac"), ("new", "ba")):
        NAMES.check_order(changed(settings, init_checkpoint=init), labels)
    settings = changed(settings, init_checkpoint="old")
    with pytest.raises(errors.UserError, match="labels a, b, .* order b, a. "):
        NAMES.check_order(settings, "ba")
    NAMES.check_order(changed(settings, new_head=True), "ba")
    new = changed(settings, new_weights="output_weights,output_bias")
    NAMES.check_order(new, "ba")
    with pytest.raises(errors.UserError, match="order b, a. "):
        NAMES.check_order(changed(settings, new_weights="output_bi"), "ba")
    start(tmp_path / "run")
    (tmp_path / "run/checkpoint").touch()  # Its own weights count.
    NAMES.check_order(settings, "ba")


def start(folder, **options):
    """Write what a run leaves that is broken off at once."""
    folder.mkdir()
    content = {"program": "run_classifier", "options": options}
    (folder / "run_options.json").write_text(json.dumps(content))
    (folder / "albert_config.json").write_text(tiny_config().to_json())


def test_a_start_without_checkpoints_is_no_run_that_goes_on(tmp_path):
    assert known_labels.started(str(tmp_path)) is None
    start(tmp_path / "run_1")
    assert known_labels.started(str(tmp_path)) is None
    (tmp_path / "run_1/checkpoint").touch()
    assert known_labels.started(str(tmp_path)) == str(tmp_path / "run_1")


def test_those_of_the_best_of_several_runs(tmp_path):
    scale = {"label_mean": 1.5, "label_deviation": 2.0}
    start(tmp_path / "run_2", labels="b,a", **scale)
    best = scores.Run(str(tmp_path / "run_2"), 1, 2, {"accuracy": 0.5})
    scores.write(str(tmp_path), scores.Summary("table", "accuracy", (best,)))
    assert NAMES.of_model(str(tmp_path)) == ("b", "a")
    assert known_labels.scale_of_model(str(tmp_path)) == scale


@pytest.mark.parametrize("task", ["mnli", "MNLI", "others"])
def test_those_of_a_task_of_glue(tmp_path, task):
    start(tmp_path / "run", task_name=task, labels=None)
    known = "contradiction", "entailment", "neutral"
    expected = known if task.lower() == "mnli" else ()
    assert NAMES.of_model(str(tmp_path / "run")) == expected


def test_a_name_of_the_package_is_not_the_folder_where_one_is(
    tmp_path, monkeypatch
):
    start(tmp_path / "run", labels="b,a")
    monkeypatch.chdir(tmp_path / "run")
    assert NAMES.of_model("albert_small_en") == ()


@pytest.mark.parametrize("deviation", [2.0, None])
def test_those_of_a_run(monkeypatch, deviation):
    options = {"labels": "b,a", "label_mean": 1.5, "label_deviation": deviation}
    run = types.SimpleNamespace(options=options, facts={})
    monkeypatch.setattr(run_folder, "is_run", lambda folder: True)
    monkeypatch.setattr(run_folder, "read", lambda folder: run)
    assert NAMES.of_model("run") == ("b", "a")
    scale = {"label_mean": 1.5, "label_deviation": deviation}
    assert known_labels.scale_of_model("run") == scale


@pytest.mark.parametrize("head", ["output_bias", "other"])
@pytest.mark.parametrize("is_regression", [True, False])
def test_those_of_a_hugging_face_folder(monkeypatch, head, is_regression):
    details = types.SimpleNamespace(
        is_regression=is_regression, labels=("y", "x")
    )
    model = types.SimpleNamespace(shapes={head: ()})
    monkeypatch.setattr(huggingface, "is_folder", lambda folder: True)
    monkeypatch.setattr(huggingface, "read_details", lambda folder: details)
    monkeypatch.setattr(checkpoint_reader, "read", lambda folder: model)
    has_head = head == "output_bias"
    assert NAMES.of_model("hf") == (("y", "x") if has_head else ())
    scale = {"label_mean": 0.0, "label_deviation": 1.0}
    expected = scale if has_head and is_regression else {}
    assert known_labels.scale_of_model("hf") == expected
