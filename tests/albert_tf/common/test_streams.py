"""Streams of a process; tests/hostile/test_processes.py runs commands."""

import os
import sys

import pytest

from albert_tf.common import streams
from tests.conftest import ROOT, python, refused

PRINT = """
import os, sys
from absl import logging
from albert_tf.common import streams
streams.prepare()
with open("file", "w") as stream:
    assert stream.fileno() > 2
    print("to ü 漢 \\udcff", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    logging.warning("logged")
    os.write(2, b"by a library")
    child = "import os; print(*map(os.fstat, range(3)))"
    assert not os.spawnl(os.P_WAIT, sys.executable, "python", "-c", child)
"""


@pytest.mark.parametrize(
    ("closed", "encoding", "printed"),
    [
        ((), "utf-8", "to ü 漢 \\udcff\n"),
        ((), "ascii", "to \\xfc \\u6f22 \\udcff\n"),
        ((2,), "latin-1", "to \xfc \\u6f22 \\udcff\n"),
        ((0, 2), "utf-8", "to ü 漢 \\udcff\n"),
        ((1,), "ascii", ""),
        ((0, 1, 2), "utf-8", ""),
    ],
)
def test_everything_can_be_printed(tmp_path, closed, encoding, printed):
    done = python(
        *("-c", PRINT),
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
        preexec_fn=lambda: [os.close(number) for number in closed],
        text=False,
    )
    assert done.stdout.decode(encoding).startswith(printed)
    assert bool(done.stdout) == (1 not in closed)
    assert (b"logged" in done.stderr) == (2 not in closed)
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "file").read_bytes() == b""


def test_answers_and_questions_need_a_place(monkeypatch):
    streams.require_output()
    streams.require_input()
    monkeypatch.setattr(sys, "stdin", None)
    with refused("`input_file=-` is standard in"):
        streams.require_input()
    monkeypatch.setattr(sys, "__stdout__", None)
    with refused("Standard output is closed"):
        streams.require_output()
