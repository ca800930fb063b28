"""Answers that are kept while they come: what goes on, what is refused."""

import json
import os
import subprocess
import sys

import pytest

from albert_tf.common import errors, folder_lock, unfinished
from tests.conftest import ROOT

FACTS = {"--batch_size": 2, "the input": ["in", 3, 4]}


def keep(path, facts=FACTS, **values):
    return unfinished.keep(str(path), facts, 2, **values)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def make(count):
    return [{"line": n} for n in range(count)]


def test_file_appears_when_all_answers_are_there(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with keep(path) as answers:
        answers.write(make(2))
        kept = (tmp_path / "out.unfinished").read_text()
        assert kept == '{"line": 0}\n{"line": 1}\n'
        assert path.read_text() == "old"
    assert path.read_text() == kept
    assert names(tmp_path) == ["out"]


# Writes three answers in groups of two, then is killed.
KILLED = """
import os, signal
from albert_tf.common import unfinished
with unfinished.keep({path!r}, {facts!r}, 2) as answers:
    answers.write([{{"line": 0}}, {{"line": 1}}])
    answers.write([{{"line": 2}}])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_command_goes_on_behind_its_last_whole_group(tmp_path):
    path = tmp_path / "out"
    code = KILLED.format(path=str(path), facts=FACTS)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60)
    assert done.returncode == -9
    left = ["out.unfinished", "out.unfinished.json", "out.unfinished.lock"]
    assert names(tmp_path) == left
    with keep(path) as answers:
        assert answers.count == 2
        answers.write(make(5)[2:])
    assert read(path) == make(5)
    assert names(tmp_path) == ["out"]


def stop(path, count, facts=FACTS):
    with pytest.raises(KeyboardInterrupt), keep(path, facts) as answers:
        answers.write(make(count))
        raise KeyboardInterrupt


@pytest.mark.parametrize("damage", [b"\0" * 40, b'{"line": 9', b"[1]\n", b"9"])
def test_what_a_power_cut_left_is_done_again(tmp_path, damage):
    path = tmp_path / "out"
    stop(path, 2)
    with open(f"{path}.unfinished", "ab") as stream:
        stream.write(damage)
    with keep(path) as answers:
        assert answers.count == 2
        answers.write(make(3)[2:])
    assert read(path) == make(3)


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (FACTS, {**FACTS, "--batch_size": 3}, r"\(--batch_size\)"),
        (FACTS, None, r"\(unknown\)"),
        (None, None, r"\(unknown\)"),
    ],
)
def test_answers_of_another_command_stay(tmp_path, before, now, message):
    path = tmp_path / "out"
    stop(path, 2, before)
    with (
        pytest.raises(errors.UserError, match=message),
        keep(path, now) as answers,
    ):
        answers.write(make(1))
    assert read(tmp_path / "out.unfinished") == make(2)


def test_answers_whose_facts_are_damaged_stay(tmp_path):
    path = tmp_path / "out"
    stop(path, 2)
    (tmp_path / "out.unfinished.json").write_bytes(b"\xff")
    with pytest.raises(errors.UserError, match="unknown"), keep(path):
        pass
    assert names(tmp_path) == ["out.unfinished", "out.unfinished.json"]


def test_second_command_is_told_who_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    path = tmp_path / "out"
    with keep(path) as answers:
        answers.write(make(2))
        with (
            pytest.raises(errors.UserError) as error,
            keep(path),
        ):
            pass
    assert f"`output_file={path}` is in use by " in str(error.value)
    assert f"process {os.getpid()} or its children" in str(error.value)
    assert read(path) == make(2)


def test_command_that_answered_nothing_leaves_nothing(tmp_path):
    stop(tmp_path / "out", 0)
    assert names(tmp_path) == []


def test_errors_alone_are_no_result(tmp_path):
    with (
        pytest.raises(errors.UserError, match="No line.*first error: bad"),
        keep(tmp_path / "out") as answers,
    ):
        answers.write([{"line": 1, "error": "bad"}])
    assert names(tmp_path) == []


def test_table_is_made_of_all_answers(tmp_path):
    path = tmp_path / "out.tsv"
    stop(path, 2)
    with keep(path, to_table=lambda rows: f"{len(rows)} rows") as answers:
        answers.write(make(1))
    assert path.read_text() == "3 rows"
    assert names(tmp_path) == ["out.tsv"]


def test_link_in_the_place_of_the_answers_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "out.unfinished").symlink_to("precious")
    with keep(tmp_path / "out") as answers:
        answers.write(make(1))
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "out").is_symlink()
