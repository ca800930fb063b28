"""The times of commands, read from processes."""

import subprocess

import pytest

from lab.benchmarks import start
from tests.conftest import ROOT


def test_both_ways_are_timed_for_each_command(monkeypatch):
    seconds = {"--help": 0.5, "--no_such_option=1": 0.25}
    monkeypatch.setattr(start, "time_process", lambda words: seconds[words[2]])
    rows = start.time_refusals(["a", "b"], 2)
    assert rows == [["a", "0.50", "0.25"], ["b", "0.50", "0.25"]]


def test_every_command_is_timed():
    commands = {
        f"{package}.{path.stem}"
        for package in ("albert_tf", "data_prep")
        for path in (ROOT / package).glob("*.py")
        if "options.run_script" in path.read_text()
    }
    assert set(start.MODULES) == commands


def test_imports_are_summed_without_what_they_import():
    text = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       300 |        300 |   posix\n"
        "import time:      1500 |       1800 | os\n"
        "a warning\n"
    )
    assert start.import_seconds(text) == pytest.approx(0.0018)


def test_work_is_timed_in_order_in_one_folder(monkeypatch):
    calls = []

    def run(command, folder, ready):
        assert ready == {"b": "ready"}.get(command[3])
        assert (folder / "sentence.tsv").is_file()
        calls.append((command[3], folder))
        text = "import time:   250000 |   250000 | os\n"
        return 0.5, subprocess.CompletedProcess(command, 0, "", text)

    monkeypatch.setattr(start, "run_process", run)
    monkeypatch.setattr(start, "WORK", {"one": "a --x=1", "two": "b"})
    monkeypatch.setattr(start, "READY", {"two": "ready"})
    assert start.time_work(2) == [["one", "0.5", "0.2"], ["two", "0.5", "0.2"]]
    assert [module for module, _ in calls] == ["a", "b", "a", "b"]
    assert len({folder for _, folder in calls}) == 2


def test_a_command_that_fails_ends_the_measurement(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "why it failed")
    monkeypatch.setattr(start, "run_process", lambda *_: (0.5, failed))
    monkeypatch.setattr(start, "WORK", {"one": "a --x=1"})
    with pytest.raises(SystemExit, match="a --x=1\nwhy it failed"):
        start.time_work(1)


def test_every_command_works():
    modules = {line.split()[0] for line in start.WORK.values()}
    assert modules == set(start.MODULES)


def test_what_does_not_end_is_interrupted_when_it_is_ready():
    program = (
        "import sys, time; print('starts', file=sys.stderr);"
        "print('is ready', file=sys.stderr, flush=True); time.sleep(99)"
    )
    seconds, done = start.run_process(["-c", program], ROOT, "ready")
    assert seconds < 60
    assert done.returncode != 0
    assert done.stderr.startswith("starts\nis ready\n")
    seconds, done = start.run_process(["-c", "exit('why')"])
    assert (done.returncode, done.stderr) == (1, "why\n")
