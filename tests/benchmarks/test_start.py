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


def test_import_seconds_are_added_by_package(start):
    report = """import time: self [us] | cumulative | imported package
import time:   1000000 |    1000000 |   numpy.linalg
import time:    500000 |    1500000 | numpy
another line
import time:    250000 |     250000 | absl
"""
    wanted = {"numpy": 1.5, "absl": 0.25, "all": 1.75}
    assert start.import_seconds(report) == wanted


def test_first_answer_comes_before_the_end(start):
    program = "import time; print('{1}', flush=True); time.sleep(0.1)"
    cost = start.time_process(["-c", program], "{")
    assert cost.status == 0
    assert cost.output == "{1}\n"
    assert cost.first < cost.end
    assert cost.processor > 0


def test_without_the_line_there_is_no_first_answer(start):
    cost = start.time_process(
        ["-c", "print('error'); raise SystemExit(3)"], "{"
    )
    assert cost.first is None
    assert cost.status == 3


def test_every_command_is_timed(start):
    commands = {
        f"{package}.{path.stem}"
        for package in ("albert_tf", "data_prep")
        for path in (ROOT / package).glob("*.py")
        if "options.run_script" in path.read_text()
    }
    # Beam has an environment of its own.
    assert set(start.MODULES) == commands - {"data_prep.beam_pretraining_data"}
