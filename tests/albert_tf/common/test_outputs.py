"""What may be written, for any command; tests/hostile/test_outputs.py walks
over all of them."""

import dataclasses
import os
import re

import pytest

from albert_tf.common import files, options, outputs
from tests.conftest import refused


@dataclasses.dataclass(frozen=True)
class Settings:
    output_file: str
    input_file: str = ""
    spm_model_file: str | None = None
    init_checkpoint: str | None = None
    run_dir: str | None = None
    task_name: str = "rte"
    task_module: str | None = None
    compare_with: str | None = None
    from_: str | None = None
    overwrite: bool = False


@dataclasses.dataclass(frozen=True)
class NeverReplaces:
    output_file: str


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("run", "rte", "other"):
        (tmp_path / name).mkdir()
    names = "a b,c [a] v.model v.normalization.json run/x rte/x own.py m.index"
    for name in (*names.split(), "m.data-00000-of-00001"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "linked").symlink_to("run")
    (tmp_path / "dangling").symlink_to("new")
    os.link("a", "hard")
    os.mkfifo("pipe")
    return tmp_path


INPUT = "is one of the input files"


@pytest.mark.parametrize(
    "inputs, path",
    [
        *(({"input_file": i}, "a") for i in ("a", "x, a", "?", "link")),
        *(({"input_file": "a"}, p) for p in ("./run/../a", "link", "hard")),
        ({"input_file": "*,x"}, "link"),
        *(({"input_file": name}, name) for name in ("[a]", "b,c")),
        *(
            ({"spm_model_file": "v.model"}, path)
            for path in ("v.model", "v.normalization.json")
        ),
        ({"task_module": "own"}, "own.py"),
        *(({name: "a"}, "a") for name in ("compare_with", "from_")),
        *(
            ({"init_checkpoint": "m"}, f"m.{ending}")
            for ending in ("index", "data-00000-of-00001")
        ),
    ],
)
def test_an_input_is_never_replaced(inputs, path):
    for output, paths in ((path, [path]), ("stem", ["stem", path])):
        settings = Settings(output, **inputs, overwrite=True)
        for is_own in (False, True):
            with refused(INPUT) as caught:
                outputs.check(settings, "output_file", paths, is_own=is_own)
            assert f"output_file={output}" in str(caught.value)
            assert path in str(caught.value)


@pytest.mark.parametrize("run_dir", ["run", "linked", "./run/", "other,run"])
def test_nothing_in_a_folder_that_is_read_is_replaced(run_dir):
    settings = Settings("linked/x", run_dir=run_dir, overwrite=True)
    with refused("in a folder that is read"):
        outputs.check(settings, "output_file", ["linked/x"])
    os.symlink("run/x", "into")
    with refused("in a folder that is read"):
        outputs.check(settings, "output_file", ["into"])
    outputs.check(settings, "output_file", ["linked/x"], is_own=True)
    outputs.check(settings, "output_file", ["run/new"])


def test_a_folder_that_is_replaced_holds_no_input(monkeypatch):
    words = "run (holds the input (run|linked)/x|is one of the input files)\\."
    for path in ("run/x", "linked/x", "run", "run/*"):
        with refused(words):
            outputs.refuse_inputs(Settings("run", path), "output_file", ["run"])
    outputs.refuse_inputs(Settings("run", "a"), "output_file", ["run"])
    monkeypatch.setattr(options, "flag_files", ["run/x"])
    with refused(words):
        outputs.refuse_inputs(Settings("run", "a"), "output_file", ["run"])
    outputs.refuse_inputs(Settings("run/z", "run"), "output_file", ["run/z"])


@pytest.mark.parametrize("path", ["a", "link", "rte/x"])
def test_what_exists_needs_overwrite(path):
    with refused(f"`output_file={path}` exists.* replace it with `overwrite`"):
        outputs.check(Settings(path), "output_file", [path])
    with refused(f"`output_file=s`: {path} exi"):
        outputs.check(Settings("s"), "output_file", ["s", path])
    with refused("exists.* move it away"):
        outputs.check(NeverReplaces(path), "output_file", [path])
    outputs.check(Settings(path), "output_file", [path], is_own=True)
    # The name of a task is no input, even where a folder is called so.
    outputs.check(Settings(path, overwrite=True), "output_file", [path])


def test_a_killed_command_begins_again(folder):
    written = ["new", "a"]  # The second one is there.
    partial = folder / f"new.0123abcd{files.PARTIAL}"
    partial.touch()
    outputs.check(Settings("new"), "output_file", written)
    outputs.check(Settings("new"), "output_file", reversed(written))
    (folder / "new").write_text("another's, since then")
    with refused("new` exists"):
        outputs.check(Settings("new"), "output_file", written)
    (folder / "new").unlink()
    partial.unlink()
    with (
        files.replace_atomically("new"),  # Of a process that lives.
        refused("a exists"),
    ):
        outputs.check(Settings("new"), "output_file", written)
    (folder / "new").unlink()
    (folder / "new.partial").write_text("what a browser left")
    with refused("a exists"):
        outputs.check(Settings("new"), "output_file", written)
    with refused("link is written twice"):
        outputs.check(
            Settings("new", overwrite=True), "output_file", ["a", "link"]
        )


@pytest.mark.parametrize(
    "path, message",
    [
        ("", "`output_file` is empty"),
        ("run", "`output_file=run` is a folder"),
        ("new/", "`output_file=new/` is a folder"),
        ("pipe", "pipe` is a pipe or a device"),
        ("a" * 250, "is too long for a name"),
    ],
)
def test_what_is_no_name_of_a_file(path, message):
    for overwrite in (False, True):
        settings = Settings(path, overwrite=overwrite)
        with refused(message):
            outputs.check(settings, "output_file", [path])


def test_new_names_are_free(folder):
    before = sorted(folder.rglob("*"))
    for path in ("new", "dangling", "run/new", "nowhere/x", "a" * 220):
        settings = Settings(path, "a,run/*", "v.model", "m")
        outputs.check(settings, "output_file", [path, path + ".json"])
    assert sorted(folder.rglob("*")) == before


def test_files_that_are_written_together(folder):
    def stop(*_):
        raise KeyboardInterrupt

    contents = {"n1": b"1", "n2": b"2", "n3": b"3"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", stop)
        with pytest.raises(KeyboardInterrupt):
            files.write_together(contents)
    assert not list(folder.glob("n*"))
    seen = []

    def note(old, new):
        sizes = {p.name: p.stat().st_size for p in folder.glob("n*")}
        seen.append((new, sizes))
        real(old, new)

    real = os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", note)
        files.write_together(contents)
    # Before the first one appears, all are complete; "n1" appears last.
    assert [re.sub(".*/", "", new) for new, _ in seen] == ["n3", "n2", "n1"]
    partials = sorted(seen[0][1].items())
    for number, (name, size) in enumerate(partials, 1):
        assert size == 1 and name.startswith(f"n{number}.")
        assert name.endswith(files.PARTIAL)
    assert len(partials) == 3
    assert {n: (folder / n).read_bytes() for n in contents} == contents
