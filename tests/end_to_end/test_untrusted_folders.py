"""The content of a folder decides neither which code runs nor other paths."""

import ast
import json
import shutil
import sys

import pytest

from albert_tf import ensemble, export, predict
from albert_tf.common import errors
from albert_tf.serving import source_options
from albert_tf.training import run_folder
from tests.conftest import ROOT, tiny_config


@pytest.fixture
def hostile(tmp_path, tiny_vocab, monkeypatch):
    """The folder of a run that used a module, which is beside it."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    values = {
        "task_name": "rte",
        "task_module": "payload",
        "max_seq_length": 16,
        "spm_model_file": "spm.model",
        "do_lower_case": True,
    }
    (folder / run_folder.OPTIONS_NAME).write_text(
        json.dumps({"program": "run_classifier", "options": values})
    )
    (folder / run_folder.CONFIG_NAME).write_text(tiny_config().to_json())
    shutil.copy(tiny_vocab, folder / "spm.model")
    (tmp_path / "payload.py").write_text("open('it_ran', 'w').close()\n")
    (tmp_path / "new.tsv").write_text("text\ttext_pair\na\tb\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop("payload", None)


def run_predict(folder, **values):
    predict.run(
        predict.PredictOptions(
            run_dir=str(folder), input_file="new.tsv", **values
        )
    )


def run_export(folder, **values):
    options = source_options.SourceOptions(run_dir=str(folder), **values)
    export.run(export.ExportOptions(source=options, export_dir="exported"))


def run_ensemble(folder, **values):
    other = shutil.copytree(folder, f"{folder}_too")
    ensemble.run(
        ensemble.EnsembleOptions(
            run_dirs=f"{folder},{other}", output_dir="both", **values
        )
    )


@pytest.mark.parametrize("command", [run_predict, run_export, run_ensemble])
def test_a_module_that_a_folder_names_is_not_imported(
    command, hostile, tmp_path
):
    with pytest.raises(errors.UserError) as error:
        command(hostile)
    assert f"The run in {hostile} used `task_module=payload" in str(error.value)
    assert "if you trust its code, add `task_module=payload" in str(error.value)
    assert "payload" not in sys.modules
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("command", [run_predict, run_export, run_ensemble])
def test_a_module_that_the_user_names_is_imported(command, hostile, tmp_path):
    with pytest.raises(errors.UserError):  # There are no weights.
        command(hostile, task_module="payload")
    assert (tmp_path / "it_ran").exists()


def test_an_encoder_is_exported_without_the_module(hostile, tmp_path):
    with pytest.raises(errors.UserError, match="does not say which checkpoint"):
        run_export(hostile, task="encoder")
    assert not (tmp_path / "it_ran").exists()


def test_nothing_that_is_read_can_be_code():
    """No file of the project unpickles or evaluates what it reads."""
    found = []
    for folder in ("albert_tf", "data_prep", "tools", "benchmarks", "lab"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                found += [f"{path}: {what}" for what in _runs_code(node)]
    assert not found


def _runs_code(node):
    """Name what could run code that was read, in a node of a syntax tree."""
    if isinstance(node, ast.Import):
        names = {alias.name.split(".")[0] for alias in node.names}
        yield from names & {
            "pickle",
            "dill",
            "cloudpickle",
            "marshal",
            "shelve",
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from {node.func.id} & {"eval", "exec", "compile", "__import__"}
    if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
        if not (isinstance(node.value, ast.Constant) and not node.value.value):
            yield "allow_pickle"
    if isinstance(node, ast.Attribute):
        yield from {node.attr} & {
            "model_from_json",
            "load_model",
            "from_config",
        }
