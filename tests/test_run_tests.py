"""The command behind `make test`, on small files of tests."""

import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT, load_tool

GOOD = """
import pytest

def test_one():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_two(number):
    pass
"""
BAD = """
def test_wrong():
    print("what it says")
    assert 1 == 2
"""
SKIPPED = """
import pytest

@pytest.mark.skip(reason="needs more")
def test_later():
    pass
"""
BROKEN = """
import pytest

@pytest.fixture
def broken():
    raise ValueError("in a fixture")

def test_it(broken):
    pass
"""
LARGE = """
import subprocess, sys

def test_in_a_process():
    subprocess.run([sys.executable, "-c", "b'x' * 200_000_000"], check=True)
"""
# In another process: a new process counts the memory of its parent, and this
# one has TensorFlow.
LIMITED = """
import sys
sys.path.insert(0, sys.argv[1])
import run_tests
run_tests.MOST_MIB = 150
sys.exit(run_tests.main([]))
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Writes files and runs their tests; returns the status and the lines."""
    tool = load_tool("run_tests")
    monkeypatch.chdir(tmp_path)

    def run(files, *arguments):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        status = tool.main(list(arguments))
        return status, capsys.readouterr().out.splitlines()

    run.tool = tool
    return run


def test_counts_of_all_processes_are_added(run, monkeypatch):
    monkeypatch.setattr(run.tool, "LONG", ("test_b.py",))
    status, lines = run({"test_a.py": GOOD, "test_b.py": SKIPPED})
    assert status == 0
    assert {line.partition(" in ")[0] for line in lines[:2]} == {
        *("3 passed", "1 skipped")
    }
    assert lines[2] == "skipped 1: needs more"
    assert lines[3].startswith("== 3 passed, 0 failed, 1 skipped in ")


@pytest.mark.parametrize(
    ("content", "said"), [(BAD, "what it says"), (BROKEN, "in a fixture")]
)
def test_a_failure_is_shown_and_fails_all(run, content, said):
    status, lines = run({"test_a.py": GOOD, "test_b.py": content})
    assert status == 1
    assert any(said in line for line in lines)
    assert lines[-2] == "FAILED test_a.py test_b.py"
    assert lines[-1].startswith("== 3 passed, 1 failed, 0 skipped in ")


def test_a_process_that_dies_fails_all(run):
    content = "import os\n\ndef test_end():\n    os._exit(0)\n"
    status, lines = run({"test_a.py": content})
    assert status == 1 and lines[0].startswith("no result in ")


def test_long_files_come_first_and_alone(run):
    files = [*"abcdef", f"tests/{run.tool.LONG[0]}"]
    assert run.tool.group(files) == [
        (files[-1],),
        ("a", "b", "c", "d"),
        ("e", "f"),
    ]


def test_long_files_exist():
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(load_tool("run_tests").LONG) <= files


@pytest.mark.parametrize(
    ("content", "status"), [(GOOD, 0), (LARGE, 1)], ids=["small", "large"]
)
def test_large_processes_are_refused_and_named(tmp_path, content, status):
    (tmp_path / "test_a.py").write_text(content)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(ROOT / "tools")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    assert ("more than 150" in done.stdout) == bool(status)
    assert ("FAILED test_a.py" in done.stdout) == bool(status)


@pytest.mark.parametrize(
    ("arguments", "counts"),
    [
        (["-k", "two"], "2 passed"),
        (["test_a.py::test_one"], "1 passed"),
        (["test_a.py"], "3 passed"),
        (["test_a.py::test_one", "test_b.py"], "1 passed, 1 failed"),
    ],
)
def test_tests_are_chosen_as_with_pytest(run, arguments, counts):
    _, lines = run({"test_a.py": GOOD, "test_b.py": BAD}, *arguments)
    assert lines[0].partition(" in ")[0] == counts


def test_nothing_chosen_fails(run):
    with pytest.raises(SystemExit) as end:
        run({"test_a.py": GOOD}, "-k", "nothing")
    assert end.value.code == 5


def test_what_cannot_be_collected_fails(run):
    with pytest.raises(SystemExit) as end:
        run({"test_a.py": GOOD, "test_b.py": "import nothing_of_the_kind\n"})
    assert end.value.code not in (0, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(tmp_path, number):
    # A test tells the command, its parent's, to end, and would go on for ever.
    content = f"""
import fcntl, os, threading

def test_for_ever():
    with open("lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(os.getppid(), {number:d})
        threading.Event().wait()
"""
    (tmp_path / "test_a.py").write_text(content)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/run_tests.py")],
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 128 + number
    # The lock is free when the process has ended.
    subprocess.run(
        ["flock", tmp_path / "lock", "true"], check=True, timeout=300
    )


def test_processes_fit_into_cores_and_memory(run, monkeypatch):
    sizes = {"SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(run.tool.os, "sysconf", sizes.get)
    monkeypatch.setattr(
        run.tool.os, "sched_getaffinity", lambda _: set(range(8))
    )
    for gib, expected in ((2, 1), (8, 2), (12, 4), (64, 4)):
        sizes["SC_PHYS_PAGES"] = gib * 2**30 // 4096
        assert run.tool.processes() == expected
