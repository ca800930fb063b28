"""Options in files."""

import pytest

from albert_tf.common import errors, flag_files
from tests.conftest import ROOT

RACE = ROOT / "configs" / "race" / "race.flags"


def expand(*words):
    return list(flag_files.expand(words))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("--flagfile=a.flags",),
        ("-flagfile=a.flags",),
        ("--flagfile", "a.flags"),
        ("--flagfile=~/a.flags",),
        ("--flagfile=outer.flags",),
    ],
)
def test_options_take_the_place_of_the_file(words, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    content = "\ufeff# comment\r\n\r\n // comment\n --b=1 \n--c=x # y\n"
    (folder / "a.flags").write_bytes(content.encode())
    (folder / "outer.flags").write_text("--flagfile=a.flags\n")
    found = expand("--a=0", *words, "word")
    assert found == ["--a=0", "--b=1", "--c=x # y", "word"]


def test_recipes_are_found_from_any_folder(folder):
    (folder / "mine.flags").write_text("--flagfile=configs/race/race.flags\n")
    lines = [x for x in RACE.read_text().splitlines() if x[:2] == "--"]
    assert expand("--flagfile=configs/race/race.flags") == lines
    assert expand("--flagfile=mine.flags") == lines


def test_values_of_other_options_are_not_files():
    word = "--input_file=configs/race/race.flags"
    assert expand(word) == [word]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flagfile"], "--flagfile is empty. Name a file"),
        (["--flagfile="], "--flagfile is empty"),
        (["--flagfile=none"], "--flagfile=none cannot be read: No such file"),
        (["--flagfile=."], r"--flagfile=\. cannot be read: Is a directory"),
        (["--flagfile=a\0b"], "cannot be read: embedded null byte"),
        (["--flagfile=outer"], "--flagfile=inner cannot be read: No such"),
        (["--flagfile=bytes"], "bytes is not UTF-8: byte 10 of the file is 0x"),
        (["--flagfile=itself"], "--flagfile=itself includes itself"),
        (["--flagfile=one"], "--flagfile=one includes itself"),
    ],
)
def test_wrong_flag_files(words, message):
    contents = {
        "outer": b"--flagfile=inner",
        "bytes": b"--name=x\n\xff\n",
        "itself": b"--flagfile=itself",
        "one": b"--flagfile=other",
        "other": b"--flagfile=one",
    }
    for name, content in contents.items():
        with open(name, "wb") as stream:
            stream.write(content)
    with pytest.raises(errors.UserError, match=message):
        expand(*words)


def test_a_file_may_be_named_twice(folder):
    (folder / "a").write_text("--b=1\n")
    assert expand("--flagfile=a", "--flagfile=a") == ["--b=1", "--b=1"]
