"""Every command and all that it writes: nothing of the user's is replaced."""

import os
import pathlib

import pytest

from albert_tf.common import options
from albert_tf.training import run_folder
from tests.hostile import commands
from tests.hostile.commands import SHORT
from tests.hostile.writes import WRITES

# They know their earlier results, so they need no --overwrite for them.
CONTINUES = {"create_pretraining_data", "distill", "ensemble", "make_demo_data"}
# Neither writes files that a user may have.
NO_FILES = {"inspect_records", "serve"}
# Others than of `WRITES`: a folder as a whole, and a card in the run's own.
FOLDERS = {"export", "write_run_card"}


def path_of(workspace, writes, ending):
    given = {**commands.COMMANDS[SHORT[writes.command]], **writes.changes}
    value = given.get(writes.option, "{out}/x")
    return value, os.path.abspath(workspace.fill(value) + ending)


def name(writes):
    return f"{writes.command}, {writes.option}, {writes.changes}"


def has_overwrite(short):
    return "overwrite" in options.names(commands.load(SHORT[short])[1])


def test_every_command_is_here():
    assert {w.command for w in WRITES} | NO_FILES | FOLDERS == SHORT.keys()


@pytest.fixture
def prepared(try_it):
    workspace = try_it.workspace
    workspace.place([], {"rte.flags": b""})
    return workspace


@pytest.mark.parametrize("writes", WRITES, ids=name)
def test_a_file_of_the_user_stays(try_it, prepared, writes):
    for ending in writes.endings:
        value, path = path_of(prepared, writes, ending)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write("mine")
        changes = {**writes.changes, writes.option: value}
        done = try_it(writes.command, changes, leaves=(os.path.basename(path),))
        assert done.status == 2, ending
        assert path in done.said, done.said
        with open(path) as stream:
            assert stream.read() == "mine"
        os.remove(path)


@pytest.mark.parametrize(
    "writes", [writes for writes in WRITES if writes.reads], ids=name
)
def test_an_input_is_never_an_output(try_it, prepared, writes):
    """By its name, by another spelling, and through a link."""
    whole = prepared.flags(SHORT[writes.command], {})
    found = [f for f in whole if f.startswith(f"--{writes.reads}=")]
    source = found[0].split("=", 1)[1] if found else prepared.here / "a file"
    if not found and writes.reads == "albert_config_file":
        source = prepared.inputs / "config.json"
    with open(source, "rb") as stream:
        content = stream.read()
    for number, ending in enumerate(writes.endings):
        value, path = path_of(prepared, writes, ending)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
        link = prepared.here / f"link{number}"
        link.symlink_to(path)
        folder, base = os.path.split(path)
        for given in (path, f"{folder}/.//{base}", str(link)):
            changes = {
                **writes.changes,
                writes.option: value,
                writes.reads: given,
                "overwrite": has_overwrite(writes.command) or None,
            }
            done = try_it(writes.command, changes, leaves=(base,))
            assert done.status == 2, given
            assert path in done.said, done.said
            with open(path, "rb") as stream:
                assert stream.read() == content
        os.remove(path)


@pytest.mark.parametrize(
    "writes",
    [w for w in WRITES if not w.command.startswith("run_")],
    ids=name,
)
def test_earlier_results(try_it, prepared, writes):
    """They need --overwrite, where a command cannot know that they are its."""
    short = writes.command
    _, main = path_of(prepared, writes, writes.endings[0])
    assert try_it(short, writes.changes).status == 0
    before = commands.snapshot(prepared.out)
    if short in CONTINUES:
        assert try_it(short, writes.changes).status == 0
    else:
        leaves = ("*",)
        assert try_it(short, writes.changes, leaves=leaves).status == 2
        assert commands.snapshot(prepared.out) == before
        # As if killed before the last one appeared.
        os.rename(main, f"{main}.albert_tf.partial")
        if "format" in writes.changes:  # There it is a folder.
            os.remove(f"{main}.albert_tf.partial")
            os.mkdir(f"{main}.albert_tf.partial")
        assert try_it(short, writes.changes).status == 0
    if has_overwrite(short):
        changes = {**writes.changes, "overwrite": True}
        assert try_it(short, changes).status == 0


def test_an_export_holds_no_input(try_it, prepared):
    prepared.place(["rte", "served"], {})
    for where in ("{here}/served/rte", "{here}/served/./rte", "{here}/link"):
        if not (prepared.here / "served/rte").exists():
            os.rename(prepared.here / "rte", prepared.here / "served/rte")
            (prepared.here / "link").symlink_to("served/rte")
        changes = {"run_dir": where, "export_dir": "{here}/served"}
        says = ("--export_dir=", "holds the input")
        done = try_it("export", {**changes, "overwrite": True}, says)
        assert done.status == 2


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("saved_model", "served/saved_model.pb"),
        ("saved_model", "served/variables/variables.index"),
        ("run_dir", "rte/model.ckpt-best.index"),
        ("run_dir", "rte/run_options.json"),
        ("run_dir", "rte/test_results.tsv"),
    ],
)
def test_predictions_replace_no_part_of_a_model(try_it, prepared, model, path):
    folder = path.split("/")[0]
    prepared.place([folder], {f"{folder}/test_results.tsv": b"mine"})
    changes = {
        "run_dir": None,
        model: "{here}/" + folder,
        "output_file": "{here}/" + path,
        "overwrite": True,
    }
    says = (f"--output_file={prepared.here}/{path}", "a folder that is read")
    assert try_it("predict", changes, says).status == 2


def test_every_file_of_a_run_is_known_before(inputs):
    others = [
        *("run_options.json", "albert_config.json", "spm.*"),
        *("checkpoint", "model.ckpt-*", "rte-*.tfrecord*"),
    ]
    for name in ("rte", "pretrained"):
        for path in filter(pathlib.Path.is_file, (inputs / name).iterdir()):
            patterns = (*run_folder._RESULTS, *others)
            assert any(map(path.match, patterns)), path
