"""The names of the record files, and which are refused."""

import dataclasses
import os

import pytest

from data_prep.writer import output_files
from tests.conftest import refused
from tests.data_prep import writing


@dataclasses.dataclass
class Settings:
    output_file: str
    input_file: str = ""


@pytest.mark.parametrize(
    "output_file, num_shards, expected",
    [
        ("x", None, ["x"]),
        (" x , y/z,, ", None, ["x", "y/z"]),
        ("x", 1, ["x-00000-of-00001"]),
        ("x,", 2, ["x-00000-of-00002", "x-00001-of-00002"]),
        ("a.gz", 2, ["a-00000-of-00002.gz", "a-00001-of-00002.gz"]),
    ],
)
def test_names_of_the_files(output_file, num_shards, expected):
    assert output_files.split(output_file, num_shards) == expected


@pytest.mark.parametrize(
    "output_file, num_shards, message",
    [
        (" ,", None, "--output_file is empty"),
        ("x,y", 2, "names 2 files, and --num_shards=2 is given too"),
        ("x,gs://a/b", None, "gs://a/b is not on this machine"),
        ("folder/x,link/x", None, "link/x is written twice"),
        *((path, None, "looks like a pattern") for path in ("x*", "x?", "[x")),
        ("folder", None, "folder` is a folder. Name a file in it"),
        ("new/", None, "new/` is a folder. Name a file in it"),
        ("pipe", None, "pipe` is a pipe or a device"),
        ("y", None, "y.card.md is a folder"),
    ],
)
def test_outputs_that_are_refused(
    base, tmp_path, monkeypatch, output_file, num_shards, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "y.card.md"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo("pipe")
    before = sorted(tmp_path.rglob("*"))
    changes = {"output_file": output_file, "num_shards": num_shards}
    with refused(message):
        writing.run(base, **changes, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_unfinished_work_is_beside_the_first_file():
    assert output_files.work_folder_path(" a/x.gz ,y") == "a/x.gz.work"


@pytest.mark.parametrize(
    "path, is_own",
    [
        ("x", True),
        ("x.manifest.json", True),
        ("x.card.md", True),
        ("x.card.png", True),
        ("x.work/unit-000001.rows", True),
        ("x.works", False),
        ("x2", False),
    ],
)
def test_inputs_that_the_writer_would_write(
    tmp_path, monkeypatch, path, is_own
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.work").mkdir()
    (tmp_path / path).write_text("mine")
    (tmp_path / "link").symlink_to(path)
    for name in (path, f"./{path}", "link"):
        settings = Settings("x", f"a,{name}")
        if not is_own:
            output_files.check(settings, ["x"])
            continue
        with refused("the input"):
            output_files.check(settings, ["x"])


@pytest.mark.parametrize(
    "there, is_other",
    [
        ("x-00000-of-00002", False),
        ("x-00000-of-00003", True),
        ("x-00002-of-00003.gz", True),
        ("x-1-of-2", False),
        ("x-00000-of-00003.card.md", False),
        ("y-00000-of-00003", False),
    ],
)
def test_shards_of_two_sets_do_not_mix(tmp_path, there, is_other):
    (tmp_path / there).touch()
    path = f"{tmp_path}/x"
    outputs = output_files.split(path, 2)
    output_files.check(Settings(path), [path])  # No shard.
    if not is_other:
        output_files.check(Settings(path), outputs)
        return
    with refused(f"{there} is a shard of anoth"):
        output_files.check(Settings(path), outputs)
