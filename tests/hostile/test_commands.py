"""Commands with unusable files and options, in this process."""

import itertools
import os
import resource
import sys

import pytest

from albert_tf.common import folder_lock, options
from tests.hostile import (
    cases,
    commands,
    finetuning_cases,
    record_cases,
    refusals,
    sampling,
)
from tests.hostile.cases import RUN_READERS
from tests.hostile.commands import SHORT

CASES = {
    **cases.CASES,
    **finetuning_cases.CASES,
    **record_cases.CASES,
    **refusals.CASES,
}
# Options that name something to read.
INPUTS = """
    albert_config_file calibration_file checkpoint data_dir eval_file
    eval_input_file from init_checkpoint input_file race_dir recipe_dir run_dir
    run_dirs saved_model spm_model_file squad_file train_feature_file train_file
    vocab_file
""".split()
# Options that would replace the one that is tried.
ALONE = {
    "vocab_file": {"spm_model_file": None},
    "squad_file": {"race_dir": None},
    "race_dir": {"squad_file": None},
}
# Not usable as any kind of input.
NO_INPUTS = ("{here}/nothing", "{here}/a file/x", "\0", "a" * 300, "\udcff")
# Nothing can be written to these.
NO_PREFIXES = ("", "{here}/a file/x", "a" * 300, "\0", "\udcff", "/proc/x")
NO_FOLDERS = (*NO_PREFIXES, "{here}/a file", "{here}/loop")
OUTPUTS = {
    "output_prefix": NO_PREFIXES,
    "output_file": (*NO_PREFIXES, "{here}/folder", "{here}/full"),
    "output_dir": NO_FOLDERS,
    "export_dir": NO_FOLDERS,
    "to": NO_FOLDERS,
}
# Commands that train: the fixture `inputs` runs most of them. The others need
# more than it has.
NOT_ALONE = """
    distill export run_classifier run_embeddings run_glue run_pretraining
    run_race run_squad run_tagger serve write_run_card
""".split()


@pytest.mark.parametrize("short", [s for s in SHORT if s not in NOT_ALONE])
def test_options_that_work(try_it, short):
    assert try_it(short, {}).status == 0


@pytest.mark.parametrize("case", CASES)
def test_bad_inputs(try_it, case):
    command, changes, says, files, copies = CASES[case]
    workspace = try_it.workspace
    workspace.place(copies, files)
    write_payload(workspace.here, workspace.root / "beside/ran")
    done = try_it(command, changes, tuple(map(workspace.fill, says)))
    assert done.status == (2 if says else 0), done.said


def paths_of(short):
    _, options_class = commands.load(SHORT[short])
    for name in options.names(options_class):
        values = OUTPUTS.get(name, NO_INPUTS if name in INPUTS else ())
        yield from itertools.product([name], values)


@pytest.mark.parametrize(
    "short",
    [short for short in SHORT if short != "run_glue"],
)
def test_paths_that_are_of_no_use(try_it, short):
    for name, value in sampling.some(list(paths_of(short)), 6, short):
        done = try_it(short, {**ALONE.get(name, {}), name: value})
        assert done.status in (1, 2), (name, value)
        given = try_it.workspace.fill(value)[:100]
        words = [f"--{name}", given, os.path.dirname(given)]
        assert any(word and word in done.said for word in words), done.said


FOLDERS = """
    convert_checkpoint.to export.export_dir extract_passages.race_dir
    make_demo_data.output_dir predict.run_dir run_classifier.cached_dir
    run_classifier.data_dir run_glue.recipe_dir run_pretraining.output_dir
    run_race.data_dir serve.saved_model write_run_card.output_dir
"""


@pytest.mark.parametrize("option", FOLDERS.split())
def test_files_are_no_folders(try_it, option):
    short, name = option.split(".")
    changes = {**ALONE.get(name, {}), name: "{here}/a file"}
    path = try_it.workspace.fill("{here}/a file")
    says = (f"--{name}", path, "is a file")
    assert try_it(short, changes, says).status == 2


@pytest.mark.parametrize("command", RUN_READERS)
def test_a_module_that_the_user_names_is_imported(try_it, command):
    workspace = try_it.workspace
    case = CASES[f"module of the folder, {command}"]
    workspace.place(case.copies, case.files)
    write_payload(workspace.here, workspace.root / "ran")
    sys.path.insert(0, str(workspace.here))
    try:
        options.run_inside(
            *commands.load(SHORT[command]),
            workspace.flags(
                SHORT[command], {**case.changes, "task_module": "payload"}
            ),
        )
    finally:
        sys.path.pop(0)
        sys.modules.pop("payload")
    assert (workspace.root / "ran").exists()


@pytest.mark.parametrize(
    ("short", "lock", "changes"),
    [
        ("run_pretraining", "run/.lock", {}),
        ("run_pretraining", "run/.lock", {"do_train": False, "do_eval": True}),
        ("run_pretraining", "run/.evaluation.lock", {"do_eval": True}),
        (
            "run_pretraining",
            "run/.evaluation.lock",
            {"do_train": False, "do_eval": True, "follow_checkpoints": True},
        ),
        ("run_race", "run/.lock", {}),
        ("run_glue", "glue/.lock", {}),
        ("ensemble", "both/.lock", {}),
        ("export", "served.lock", {}),
        ("convert_checkpoint", "converted/.lock", {}),
        ("convert_checkpoint", ".lock", {"format": "tf2"}),
    ],
)
def test_a_place_that_another_process_writes_to(
    try_it, monkeypatch, capfd, short, lock, changes
):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    workspace = try_it.workspace
    workspace.place([], {"rte.flags": b""})
    path = workspace.out / lock
    with folder_lock.hold(str(workspace.out), "output_dir", lock=str(path)):
        flags = workspace.flags(SHORT[short], changes)
        done = commands.run_inside(SHORT[short], flags, capfd)
        left = [p for p in workspace.out.rglob("*") if p.is_file()]
    assert done.status == 2 and " is in use by " in done.said, done.said
    assert left == [path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("short", "changes"),
    [
        ("convert_checkpoint", {}),
        ("convert_checkpoint", {"format": "tf2"}),
        *(("export", {"format": x}) for x in ("saved_model", "litert")),
    ],
)
def test_a_model_appears_when_there_is_room(try_it, short, changes):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        says = (str(try_it.workspace.out), "File too large", "bytes are free")
        leaves = ("albert_config.json",)
        assert try_it(short, changes, says, leaves).status == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert try_it(short, changes).status == 0


def write_payload(folder, target):
    """Lay a module beside the data; the surroundings show whether it ran."""
    (folder / "payload.py").write_text(f"open({str(target)!r}, 'w').close()\n")
