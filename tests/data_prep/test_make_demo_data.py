"""The script: all files, the same bytes for the same seed, clear errors."""

import json
import os
import subprocess
import sys

import pytest

from albert_tf.common import errors
from data_prep import make_demo_data

SMALL = {"num_stories": 40, "num_task_examples": 120}


def read_tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make(folder, **changes):
    demo = make_demo_data.DemoOptions(
        output_dir=str(folder), **(SMALL | changes)
    )
    make_demo_data.run(demo)
    tree = read_tree(folder)
    del tree["demo_options.json"]  # It names the folder.
    return tree


def test_all_files_are_written(tmp_path):
    tree = make(tmp_path)
    expected = {"ABOUT.txt", "corpus/train.txt", "corpus/dev.txt"}
    expected.add("corpus/glossary.txt")
    expected |= {
        f"glue/{task}/{split}.tsv"
        for task in ("CoLA", "RTE")
        for split in ("train", "dev", "test")
    }
    expected |= {f"squad/{s}-v2.0.json" for s in ("train", "dev")}
    expected |= {
        f"race/{split}/{level}/{number}.txt"
        for split, count in (("train", 15), ("dev", 2), ("test", 1))
        for level in ("middle", "high")
        for number in range(count)
    }
    assert set(tree) == expected
    rows = [
        len(tree[f"glue/RTE/{s}.tsv"].splitlines()) - 1
        for s in ("train", "dev", "test")
    ]
    assert rows == [120, 16, 4]
    assert json.loads(tree["race/test/high/0.txt"])["id"] == "high0.txt"
    dev = json.loads(tree["squad/dev-v2.0.json"])
    assert dev["version"] == "v2.0"
    assert b"--random_seed=12345" in tree["ABOUT.txt"]


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    first = make(tmp_path / "a")
    assert first == make(tmp_path / "b")
    other = make(tmp_path / "c", random_seed=1)
    assert set(first) == set(other)
    same = [path for path in first if first[path] == other[path]]
    assert same == ["corpus/glossary.txt"]  # Words, not stories.


def test_one_size_does_not_change_the_other_files(tmp_path):
    first = make(tmp_path / "a")
    second = make(tmp_path / "b", num_stories=41)
    changed = {path for path in first if first[path] != second[path]}
    assert changed == {"ABOUT.txt", "corpus/train.txt"}


def test_a_folder_keeps_its_options(tmp_path):
    first = make(tmp_path)
    assert make(tmp_path) == first
    with pytest.raises(
        errors.UserError, match="--num_stories was 40, is now 5"
    ):
        make(tmp_path, num_stories=5)
    tree = read_tree(tmp_path)
    del tree["demo_options.json"]
    assert tree == first


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("num_stories", 0, "number from 1 to"),
        ("num_stories", -3, "number from 1 to"),
        ("num_task_examples", 59, "number from 60 to"),
    ],
)
def test_sizes_are_checked(option, value, allowed):
    with pytest.raises(
        errors.UserError, match=f"`{option}={value}` .*{allowed}"
    ):
        make_demo_data.DemoOptions(output_dir="x", **{option: value})


def test_the_command_does_not_load_tensorflow(tmp_path):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['x', '--output_dir={tmp_path}', '--num_stories=2',"
        " '--num_task_examples=60']\n"
        "try:\n"
        "    runpy.run_module('data_prep.make_demo_data',"
        " run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "ABOUT.txt").exists()
