"""Which labels a run has."""

import types

import pytest

from albert_tf.common import errors
from albert_tf.finetuning import known_labels, tables
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.training import run_folder
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed

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
    assert NAMES.choose(settings, None, list) == ("c", "d")


@pytest.mark.parametrize("deviation", [2.0, None])
def test_those_of_a_run(monkeypatch, deviation):
    options = {"labels": "b,a", "label_mean": 1.5, "label_deviation": deviation}
    run = types.SimpleNamespace(options=options)
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
