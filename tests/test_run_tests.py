"""The command behind `make test`, on small files of tests."""

import re
import signal
import subprocess

import pytest

from tests.conftest import ROOT, load_tool, python

FILES = {
    "test_a.py": """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_two(number):
    pass

@pytest.mark.skip(reason="needs more")
def test_later():
    pass
""",
    "test_bad.py": """
import pytest

def test_wrong():
    print("what it says")
    assert 1 == 2

@pytest.fixture
def broken():
    raise ValueError("in a fixture")

def test_it(broken):
    pass
""",
    "test_dies.py": "import os\n\ndef test_end():\n    os._exit(0)\n",
    "test_large.py": """
import subprocess, sys

def test_in_a_process():
    subprocess.run([sys.executable, "-c", "b'x' * 200_000_000"], check=True)
""",
    # It ends the command, its parent's, and would go on for ever.
    "test_endless.py": """
import fcntl, os, signal, threading

def test_for_ever():
    with open("lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(os.getppid(), signal.SIGTERM)
        threading.Event().wait()
""",
}


@pytest.fixture
def run(tmp_path):
    """Runs tests in the files above; 150 MiB are the limit of a process."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    tool = (ROOT / "tools/run_tests.py").read_text()
    (tmp_path / "tool.py").write_text(tool.replace("3 * 1024", "150"))

    def run(*arguments):
        done = python("tool.py", *arguments, status=None, cwd=tmp_path)
        return done.returncode, done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "counts", "said"),
    [
        (["test_a.py"], 0, "2 passed, 0 failed, 1 skipped", "1: needs more"),
        (["test_a.py::test_two"], 0, "2 passed, 0 failed, 0 skipped", ""),
        (["test_bad.py"], 1, "0 passed, 2 failed, 0 skipped", "what it says"),
        (["-k", "two or wrong or it"], 1, "2 passed, 2 failed", "in a fixture"),
        (["test_dies.py"], 1, "0 passed, 1 failed", "FAILED"),
        (["test_large.py"], 1, "1 passed, 1 failed", "more than 150"),
    ],
)
def test_counts_and_status(run, arguments, status, counts, said):
    done, output = run(*arguments)
    assert done == status, output
    assert output.splitlines()[-1].startswith(f"== {counts}")
    assert said in output


@pytest.mark.parametrize("arguments", [["-k", "nothing"], ["nowhere.py"]])
def test_no_tests_fail(run, arguments):
    status, output = run(*arguments)
    assert status not in (0, 1) and "==" not in output.splitlines()[-1]


def test_a_signal_ends_all_processes(run, tmp_path):
    assert run("test_endless.py")[0] == 128 + signal.SIGTERM
    # The lock is free when the process has ended.
    subprocess.run(
        ["flock", tmp_path / "lock", "true"], check=True, timeout=300
    )


def test_the_makefile_names_tests_that_exist():
    names = re.findall(r"\btests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert names and [n for n in names if not (ROOT / n).exists()] == []


def test_long_files_exist_and_come_first_and_alone():
    tool = load_tool("run_tests")
    files = [str(path) for path in (ROOT / "tests").rglob("test_*.py")]
    for long in tool.LONG:
        assert any(path.endswith(f"/{long}") for path in files), long
    most, few = tool.SHARING, tool.SHARING_OF_ALL
    short = [*map(str, range(2 * most - 2))]
    long = f"tests/{tool.LONG[0]}"
    hostile = [f"{tool.TOGETHER}{name}" for name in "ab"]
    files = [*short[:1], long, *short[1:], *hostile]
    plain = files[:-2]
    found = tool.group(files, False)
    assert found == [hostile, plain[::2], plain[1::2]]
    assert max(map(len, found)) <= most
    count = -(-len(short) // few)
    shared = [short[i::count] for i in range(count)]
    assert tool.group(files, True) == [hostile, [long], *shared]
    assert max(map(len, shared)) <= few
