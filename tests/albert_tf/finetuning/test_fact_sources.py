"""Where a run finds its labels and its other facts."""

import json
import types

import pytest

from albert_tf.common import scores
from albert_tf.finetuning import fact_sources
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.tasks.glue import task as glue
from albert_tf.tasks.table import labels
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed, refused, tiny_config

SCALE = {"label_mean": 1.5, "label_deviation": 2.0}


def start(folder, facts=None, *, is_trained=True, task_name="table", **options):
    """Write what a run leaves in its folder, without weights."""
    folder.mkdir(parents=True)
    content = {
        "program": "run_classifier",
        "options": {"task_name": task_name, **options},
        **({"facts": facts} if facts else {}),
    }
    (folder / "run_options.json").write_text(json.dumps(content))
    (folder / "albert_config.json").write_text(tiny_config().to_json())
    if is_trained:
        (folder / "checkpoint").touch()
    return str(folder)


@pytest.fixture
def settings(world, tmp_path):
    return small_runs.shared(world, tmp_path / "run")


def labels_of(settings, path=None, found=(), given=(), kind=labels.LabelTask):
    files = {"train": path} if path else {}
    source = fact_sources.RunSource(kind, settings, files)
    return source.labels("labels", given, lambda _: found)


def test_labels_are_those_of_the_file_or_of_the_model(settings, tmp_path):
    assert labels_of(settings, "t.csv", "cd") == ("c", "d")
    with refused("labels are not known"):
        labels_of(settings)
    old = start(tmp_path / "old", {"labels": ["b", "a"]})
    settings = changed(settings, init_checkpoint=old)
    assert labels_of(settings) == ("b", "a")
    assert labels_of(settings, "t.csv", "ab") == ("b", "a")
    assert labels_of(settings, given=("c", "d")) == ("c", "d")
    with refused(f"`init_checkpoint={old}` holds .* than t.csv: b, a. "):
        labels_of(settings, "t.csv", "abc")
    new = changed(settings, new_head=True)
    assert labels_of(new, "t.csv", "abc") == ("a", "b", "c")
    with refused("labels are not known"):
        labels_of(new)
    # A run that goes on has its own; a start that was broken off has none.
    start(tmp_path / "run", {"labels": ["c", "d"]}, is_trained=False)
    assert labels_of(settings) == ("b", "a")
    (tmp_path / "run/checkpoint").touch()
    assert labels_of(settings) == ("c", "d")


def test_a_head_with_the_labels_in_another_order(settings, tmp_path):
    labels_of(settings, given="ba")
    old = start(tmp_path / "old", {"labels": ["a", "b"]})
    settings = changed(settings, init_checkpoint=old)
    for names in ("ab", "ac"):
        labels_of(settings, given=names)
    with refused("labels a, b, .* order b, a. "):
        labels_of(settings, given="ba")
    labels_of(changed(settings, new_head=True), given="ba")
    new = changed(settings, new_weights="output_weights,output_bias")
    labels_of(new, given="ba")
    with refused("order b, a. "):
        labels_of(changed(settings, new_weights="output_bi"), given="ba")
    start(tmp_path / "run", {"labels": ["b", "a"]})  # Its own weights count.
    labels_of(settings, given="ba")


def test_a_start_without_checkpoints_is_no_run_that_goes_on(tmp_path):
    assert fact_sources.find_run(str(tmp_path)) is None
    start(tmp_path / "run_1", is_trained=False)
    assert fact_sources.find_run(str(tmp_path)) is None
    (tmp_path / "run_1/checkpoint").touch()
    assert fact_sources.find_run(str(tmp_path)) == str(tmp_path / "run_1")


def facts_of_head(settings, model, kind=labels.LabelTask):
    settings = changed(settings, init_checkpoint=str(model))
    return fact_sources.RunSource(kind, settings, {}).head_facts()


@pytest.mark.parametrize("is_of_earlier_version", [False, True])
def test_facts_of_the_best_of_several_runs(
    settings, tmp_path, is_of_earlier_version
):
    """Earlier versions wrote facts as options."""
    facts = {"labels": ["b,c", "a"], **SCALE}
    given = {"text_columns": "t"}
    if is_of_earlier_version:
        start(tmp_path / "run_2", labels="b,c\ta", **given)
        start(tmp_path / "number", regression=True, **given, **SCALE)
        number = facts_of_head(settings, tmp_path / "number")
        assert number == {**number, **SCALE, "labels": []}
        facts = {"labels": ["b,c", "a"], "label_mean": None}
    else:
        start(tmp_path / "run_2", facts, regression=True, **given)
    best = scores.RunScores(str(tmp_path / "run_2"), 1, 2, {"accuracy": 0.5})
    scores.write(str(tmp_path), scores.Summary("table", "accuracy", (best,)))
    found = facts_of_head(settings, tmp_path)
    assert found == {**found, **facts}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"dev_share": "x"}, "`dev_share='x'` is not a number"),
        ({"label_mean": 1.5, "label_deviation": "x"}, "`label_deviation='x'`"),
        ({"labels": [1]}, "not a list of texts: its folder is damaged"),
    ],
)
def test_damaged_facts_of_another_run(settings, tmp_path, facts, message):
    folder = start(tmp_path / "a", facts, text_columns="t", regression=True)
    with refused(message):
        facts_of_head(settings, folder)


@pytest.mark.parametrize("name", ["mnli", "MNLI", "others", "tagging"])
def test_labels_of_runs_of_other_tasks(settings, tmp_path, name):
    """Tags belong to another head."""
    tags = "A\tB" if name == "tagging" else None
    start(tmp_path / "old", task_name=name, labels=None, tags=tags)
    labels = ["contradiction", "entailment", "neutral"]
    expected = labels if name.lower() == "mnli" else []
    found = facts_of_head(settings, tmp_path / "old", glue.GlueTask)
    assert found.get("labels", []) == expected


def test_a_name_of_the_package_is_not_the_folder_where_one_is(
    settings, tmp_path, monkeypatch
):
    start(tmp_path / "old", {"labels": ["b", "a"]})
    monkeypatch.chdir(tmp_path / "old")
    assert facts_of_head(settings, "albert_small_en") == {}


@pytest.mark.parametrize("head", ["output_bias", "other"])
@pytest.mark.parametrize("is_regression", [True, False])
def test_facts_of_a_hugging_face_folder(
    settings, monkeypatch, head, is_regression
):
    details = types.SimpleNamespace(
        is_regression=is_regression, labels=("y", "x")
    )
    model = types.SimpleNamespace(shapes={head: ()})
    monkeypatch.setattr(huggingface, "is_folder", lambda folder: True)
    monkeypatch.setattr(huggingface, "read_details", lambda folder: details)
    monkeypatch.setattr(checkpoint_reader, "read", lambda folder: model)
    expected = {"labels": ("y", "x")}
    if is_regression:
        expected |= {"label_mean": 0.0, "label_deviation": 1.0}
    found = facts_of_head(settings, "hf")
    assert found == (expected if head == "output_bias" else {})
