"""What a newcomer does wrong first, before any option: one message each."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

NO_PACKAGES = [sys.executable, "-S", "-E", "-m"]
OLD = "import sys; sys.argv = ['-m']; sys.version_info = (3, 8); import "
# A command and what it says. python3 is an interpreter of 3.8, python3.11 none.
CASES = {
    "no packages": (
        [*NO_PACKAGES, "albert_tf.export"],
        "make setup ... .venv/bin/activate",
    ),
    "no packages for data": (
        [*NO_PACKAGES, "data_prep.split_sentences"],
        "make setup ... .venv/bin/activate",
    ),
    "old": ([sys.executable, "-c", f"{OLD}albert_tf"], "Python 3.11 to 3.13"),
    "set-up with an old one": (
        ["/bin/sh", "tools/make_venv.sh", "{here}/new"],
        "python3.11: not there ... python3: Python 3.8.18 ... "
        "make setup PYTHON=/path/to/python3.12",
    ),
    "set-up with none": (
        ["/bin/sh", "tools/make_venv.sh", "{here}/new", "/no/python"],
        "/no/python: not there ... make setup PYTHON=/path/to/python3.12",
    ),
    "demo without arguments": (["/bin/sh", "tools/demo.sh"], "make demo"),
    "demo that fails": (
        ["/bin/sh", "tools/demo.sh", "/bin/false", "{here}/out", "1"],
        "stopped at: Generate stories ... make demo OUTPUT=another_folder",
    ),
}


@pytest.fixture
def path(tmp_path):
    """The programs that the scripts use, and an old interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("date", "mkdir", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    old = folder / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.8.18\n')
    old.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("case", CASES)
def test_first_mistakes(case, path, tmp_path):
    words, parts = CASES[case]
    done = subprocess.run(
        [word.format(here=tmp_path) for word in words],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    start = 0
    for part in parts.split(" ... "):
        start = done.stderr.index(part, start)
