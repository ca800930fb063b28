"""The times of commands, read from processes."""

import importlib.util
import sys

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def start():
    """The script as a module; it finds its neighbour as when it is run."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        path = ROOT / "benchmarks" / "start.py"
        spec = importlib.util.spec_from_file_location("start", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["start"] = module  # Dataclasses look their module up.
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)
        sys.modules.pop("start", None)
        sys.modules.pop("side_by_side", None)


def test_both_ways_are_timed_for_each_command(start, monkeypatch):
    seconds = {"--help": 0.5, "--no_such_option=1": 0.25}
    monkeypatch.setattr(start, "time_process", lambda words: seconds[words[2]])
    rows = start.time_refusals(["a", "b"], 2)
    assert rows == [["a", "0.50", "0.25"], ["b", "0.50", "0.25"]]


def test_every_command_is_timed(start):
    commands = {
        f"{package}.{path.stem}"
        for package in ("albert_tf", "data_prep")
        for path in (ROOT / package).glob("*.py")
        if "options.run_script" in path.read_text()
    }
    # Beam has an environment of its own.
    assert set(start.MODULES) == commands - {"data_prep.beam_pretraining_data"}
