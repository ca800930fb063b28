"""What comparisons refuse, how processes work in turn, and the table."""

import sys
import types

import pytest

from lab.benchmarks import side_by_side
from tests.conftest import ROOT

# Works twice as much in each turn; the second implementation does not start.
WORKER = """
import itertools
from lab.benchmarks import side_by_side
amounts = itertools.count(1)
side_by_side.serve(lambda: (lambda: 2.0 ** next(amounts), "a line about it"))
"""


def test_processes_work_in_turn_and_the_first_turn_does_not_count(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "failing.py").write_text("raise ValueError('not today')")
    monkeypatch.setitem(
        side_by_side.ENVIRONMENT, "PYTHONPATH", f"{tmp_path}:{ROOT}"
    )
    monkeypatch.setattr(sys, "argv", ["script"])

    def table(workers, base, unit):
        amounts = [[r["amount"] for r in w.results] for w in workers]
        return [f"{base}, {unit}: {amounts}"]

    monkeypatch.setattr(side_by_side, "table", table)
    settings = types.SimpleNamespace(
        implementations=["worker"], base="worker", rounds=2
    )
    side_by_side.compare("worker", settings, "things")
    said = capsys.readouterr().out
    assert "worker, things: [[4.0, 8.0]]" in said.splitlines()
    with pytest.raises(SystemExit, match="nothing to compare without worker"):
        side_by_side.compare("failing", settings, "things")
    assert "status 1: ValueError: not today" in capsys.readouterr().out


def test_a_process_that_ends_between_turns_is_named():
    program = "import sys; print(1, flush=True); sys.exit('no memory')"
    worker = side_by_side.Worker("one", [sys.executable, "-c", program])
    worker._process.wait()
    assert worker.read() == 1
    with pytest.raises(SystemExit, match="one ended: status 1: no memory"):
        worker.take_turn()
    worker.stop()


@pytest.mark.parametrize("serve", ["", "--serve=b"])
def test_the_process_of_an_implementation_does_its_work(monkeypatch, serve):
    parser = side_by_side.make_parser("", ["a", "b"], "a", 1)
    monkeypatch.setattr(sys, "argv", ["script", *filter(None, [serve])])
    built = []
    monkeypatch.setattr(side_by_side, "serve", lambda build: build())
    if not serve:
        side_by_side.parse(parser, ["a", "b"], built.append)
        assert not built
        return
    with pytest.raises(SystemExit):
        side_by_side.parse(parser, ["a", "b"], built.append)
    assert [settings.serve for settings in built] == ["b"]


def test_rates_and_speeds_of_the_table():
    slow, fast = (side_by_side.Worker(name, ["true"]) for name in "ab")
    cost = {"processor_seconds": 1.0, "mib": 5.0}
    slow.results = [{"amount": 6.0, "seconds": s, **cost} for s in (3, 2, 6)]
    fast.results = [{"amount": 8.0, "seconds": 2.0, **cost}]
    slow.stop()
    fast.stop()
    *_, first, second = side_by_side.table([slow, fast], "a", "x")
    assert first == ("| a | 3.000 | 2.00 | 3.00 | 6.00 | 5 | 1.00x | 1.00x |")
    assert second == ("| b | 2.000 | 4.00 | 4.00 | 8.00 | 5 | 2.00x | 1.33x |")
