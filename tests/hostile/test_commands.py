"""Commands with unusable files and options, in this process."""

import itertools
import os
import shutil

import pytest

from tests.hostile import commands, limits
from tests.hostile.cases import CASES, RUNS
from tests.hostile.commands import SHORT

# Options that name files or folders to read, and to write.
INPUTS = {
    "run_pretraining": (
        *("albert_config_file", "input_file", "eval_input_file"),
        *("spm_model_file", "vocab_file", "init_checkpoint"),
    ),
    "run_classifier": (
        *("albert_config_file", "data_dir", "spm_model_file", "vocab_file"),
        *("init_checkpoint", "train_feature_file"),
    ),
    "run_squad": ("train_file", "train_feature_file"),
    "run_race": ("data_dir",),
    "run_glue": ("recipe_dir",),
    "predict": ("run_dir", "input_file", "checkpoint"),
    "ensemble": ("run_dirs", "data_dir"),
    "write_run_card": ("output_dir",),
    "create_finetuning_data": ("input_file", "spm_model_file", "vocab_file"),
    "extract_passages": ("squad_file", "race_dir"),
    "export": ("run_dir", "checkpoint", "eval_file"),
    "demo": ("saved_model",),
    "convert_checkpoint": ("from", "albert_config_file"),
    "train_sentencepiece": ("input_file", "compare_with"),
    "train_wordpiece": ("input_file", "compare_with"),
    "split_sentences": ("input_file",),
    "inspect_records": ("input_file", "spm_model_file", "vocab_file"),
    "make_word_embeddings": ("input_file", "albert_config_file"),
    "create_pretraining_data": ("input_file", "spm_model_file", "vocab_file"),
}
OUTPUT_FILES = {
    "predict": ("output_file",),
    "create_finetuning_data": ("output_file",),
    "extract_passages": ("output_file",),
    "split_sentences": ("output_file",),
    "make_word_embeddings": ("output_file",),
    "create_pretraining_data": ("output_file",),
}
OUTPUT_FOLDERS = {
    "run_pretraining": ("output_dir",),
    "run_classifier": ("output_dir",),
    "run_squad": ("output_dir",),
    "run_race": ("output_dir",),
    "ensemble": ("output_dir",),
    "export": ("export_dir",),
    "convert_checkpoint": ("to",),
    "make_demo_data": ("output_dir",),
}
OUTPUT_PREFIXES = {
    "train_sentencepiece": ("output_prefix",),
    "train_wordpiece": ("output_prefix",),
}
# Not usable as any kind of input.
NO_INPUTS = (*("{here}/nothing", "{here}/a file/x", "\0", "a" * 300, "\udcff"),)
# Nothing can be written to these.
NO_PREFIXES = ("", "{here}/a file/x", "a" * 300, "\0", "\udcff", "/proc/x")
NO_FILES = (*NO_PREFIXES, "{here}/folder", "{here}/full")
NO_FOLDERS = (*NO_PREFIXES, "{here}/a file", "{here}/loop")


def rows(options, values):
    return [
        pytest.param(short, name, value, id=f"{short}-{name}-{value[:20]!r}")
        for short, names in options.items()
        for name, value in itertools.product(names, values)
    ]


@pytest.fixture
def workspace(tmp_path, inputs, monkeypatch):
    workspace = commands.Workspace(tmp_path, inputs)
    workspace.make()
    workspace.enter(monkeypatch)
    return workspace


def run(workspace, capfd, short, changes, says=(), leaves=()):
    """Run a command, and hold it to the invariant."""
    name = SHORT[short]
    flags = workspace.flags(name, changes)
    before = workspace.surroundings()
    with limits.time_limit():
        done = commands.run_inside(name, flags, capfd)
    commands.check(done, workspace, before, says, leaves)
    return done


# Commands that train: the fixture `inputs` runs them. The others need more than
# it has.
NOT_ALONE = (
    *("run_pretraining", "run_classifier", "run_squad", "run_race", "run_glue"),
    *("export", "demo", "write_run_card"),
)


@pytest.mark.parametrize("short", [s for s in SHORT if s not in NOT_ALONE])
def test_options_that_work(workspace, capfd, short):
    assert run(workspace, capfd, short, {}).status == 0


@pytest.mark.parametrize(("short", "name", "value"), rows(INPUTS, NO_INPUTS))
def test_no_inputs(workspace, capfd, short, name, value):
    refuse(workspace, capfd, short, name, value)


@pytest.mark.parametrize(
    ("short", "name", "value"),
    [
        *rows(OUTPUT_FILES, NO_FILES),
        *rows(OUTPUT_FOLDERS, NO_FOLDERS),
        *rows(OUTPUT_PREFIXES, NO_PREFIXES),
        *rows({"run_classifier": ("cached_dir",)}, NO_FOLDERS[1:]),
    ],
)
def test_no_outputs(workspace, capfd, short, name, value):
    refuse(workspace, capfd, short, name, value)


# Options of folders, of which most are written or must be those of runs.
FOLDERS = {
    **OUTPUT_FOLDERS,
    "run_classifier": ("output_dir", "cached_dir", "data_dir"),
    "run_race": ("output_dir", "data_dir"),
    "run_glue": ("data_dir", "recipe_dir"),
    "predict": ("run_dir",),
    "write_run_card": ("output_dir",),
    "extract_passages": ("race_dir",),
    "export": ("export_dir", "run_dir"),
    "demo": ("saved_model",),
}


@pytest.mark.parametrize(
    ("short", "name"),
    [(short, name) for short, names in FOLDERS.items() for name in names],
)
def test_files_are_no_folders(workspace, capfd, short, name):
    changes = {**ALONE.get(name, {}), name: "{here}/a file"}
    path = workspace.fill("{here}/a file")
    says = (f"--{name}", path, "is a file")
    assert run(workspace, capfd, short, changes, says).status == 2


# Options that would replace the one that is tried.
ALONE = {
    "vocab_file": {"spm_model_file": None},
    "squad_file": {"race_dir": None},
    "race_dir": {"squad_file": None},
}


def refuse(workspace, capfd, short, name, value):
    """Expect a mistake that is named: by the option, or by what was given."""
    changes = {**ALONE.get(name, {}), name: value}
    done = run(workspace, capfd, short, changes)
    assert done.status in (1, 2)
    given = workspace.fill(value)[:100]
    words = [f"--{name}", given, os.path.dirname(given)]
    assert any(word and word in done.said for word in words), done.said


@pytest.mark.parametrize("case", CASES)
def test_bad_inputs(workspace, capfd, case):
    command, changes, says, files = CASES[case]
    for name, content in files.items():
        path = workspace.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    says = tuple(map(workspace.fill, says))
    done = run(workspace, capfd, command, changes, says)
    if not says:
        assert done.status == 0, done.said


@pytest.mark.parametrize(
    ("case", "short"),
    [(case, short) for case, facts in RUNS.items() for short in facts[2]],
)
def test_runs_from_elsewhere(workspace, capfd, case, short):
    file, change, _, says = RUNS[case]
    folder = workspace.here / "run"
    if short == "write_run_card":
        folder = workspace.out / "pretrained"  # It writes into the folder.
    shutil.copytree(workspace.inputs["rte"], folder)
    path = folder / file
    path.write_bytes(change(path.read_bytes()))
    write_payload(workspace.here, workspace.root / "beside")
    write_payload(folder, workspace.root / "beside")
    changes = {"run_dir": folder}
    if short == "ensemble":
        changes = {"run_dirs": f"{folder},{workspace.inputs['rte_again']}"}
    elif short == "write_run_card":
        changes = {}
    leaves = ("pretrained/*", "pretrained/*/*")
    done = run(workspace, capfd, short, changes, says or (), leaves)
    assert done.status == (0 if says is None else 2), done.said


def write_payload(folder, target):
    """Lay a module beside the data; the surroundings show whether it ran."""
    (folder / "payload.py").write_text(
        f"open({str(target / 'payload ran')!r}, 'w').close()\n"
    )
