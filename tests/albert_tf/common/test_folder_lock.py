"""One process at a time writes to a folder."""

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest

from albert_tf.common import folder_lock
from tests.conftest import ROOT, refused

# Holds a folder until its standard input ends.
HOLDER = """
import sys
from albert_tf.common import folder_lock
with folder_lock.hold(sys.argv[1], "output_dir"):
    print("held", flush=True)
    sys.stdin.read()
"""
# The same, but it is a child that holds on when the process is gone.
PARENT = """
import os, sys
from albert_tf.common import folder_lock
with folder_lock.hold(sys.argv[1], "output_dir"):
    if not os.fork():
        print("held", flush=True)
        sys.stdin.read()
    os._exit(0)
"""


@pytest.fixture
def start():
    """Starts processes that hold a folder; ends those that are left."""
    processes = []

    def start(folder, code=HOLDER):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        process.stdin.close()
        process.stdout.close()
        process.wait()


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)


def hold(folder, **values):
    return folder_lock.hold(str(folder), "output_dir", **values)


def test_second_process_is_told_who_holds_the_folder(start, tmp_path):
    first = start(tmp_path / "run")
    before = (tmp_path / "run" / ".lock").read_bytes()
    with refused() as error, hold(tmp_path / "run"):
        pass
    message = str(error.value)
    assert f"`output_dir={tmp_path / 'run'}` is in use by" in message
    assert f", process {first.pid} or its children on " in message
    assert f"on {socket.gethostname()}, since 20" in message
    assert message.endswith("choose another place.")
    with refused("damage its work. Go home."):
        hold(tmp_path / "run", remedy="Go home.").__enter__()
    assert (tmp_path / "run" / ".lock").read_bytes() == before


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_ended_process_keeps_nobody_out(start, tmp_path, is_killed):
    first = start(tmp_path / "run")
    if is_killed:
        first.send_signal(signal.SIGKILL)
    first.stdin.close()
    first.wait()
    assert (tmp_path / "run").exists() == is_killed
    with hold(tmp_path / "run"):
        holder = (tmp_path / "run" / ".lock").read_text()
        assert f", process {os.getpid()} or" in holder
        (tmp_path / "run" / "result").write_text("")
    assert os.listdir(tmp_path / "run") == ["result"]


def test_children_of_a_killed_process_hold_it_on(start, tmp_path):
    parent = start(tmp_path, PARENT)
    parent.wait()
    with refused("is in use by"):
        hold(tmp_path).__enter__()
    parent.stdin.close()
    with hold(tmp_path, patience=60.0):
        pass


def test_a_patient_process_gets_the_folder_when_it_is_free(
    tmp_path, monkeypatch
):
    first = contextlib.ExitStack()
    first.enter_context(hold(tmp_path))
    monkeypatch.setattr(folder_lock.time, "sleep", lambda _: first.close())
    with hold(tmp_path, patience=60.0):
        assert (tmp_path / ".lock").exists()


def test_a_lock_that_its_holder_has_just_removed_is_none(tmp_path, monkeypatch):
    make, removed = folder_lock._open_lock_file, []

    def too_late(path):
        descriptor = make(path)
        if not removed:
            removed.append(os.remove(path))
        return descriptor

    monkeypatch.setattr(folder_lock, "_open_lock_file", too_late)
    with hold(tmp_path, patience=60.0):
        assert (tmp_path / ".lock").exists()


def test_the_lock_of_another_process_stays(tmp_path):
    with hold(tmp_path):
        os.remove(tmp_path / ".lock")
        (tmp_path / ".lock").write_text("of another")
    assert (tmp_path / ".lock").read_text() == "of another"


def test_a_refused_process_has_no_open_file(tmp_path, monkeypatch):
    with hold(tmp_path):
        before = os.listdir("/proc/self/fd")
        monkeypatch.setattr(folder_lock, "PATIENCE", 60.0)
        monkeypatch.setattr(folder_lock.time, "sleep", pytest.fail)
        with refused():
            hold(tmp_path, patience=0.0).__enter__()
        assert os.listdir("/proc/self/fd") == before


def test_a_folder_that_gets_nothing_is_not_left(tmp_path):
    with pytest.raises(RuntimeError), hold(tmp_path / "a" / "b"):
        raise RuntimeError
    with hold("export", lock=str(tmp_path / "c" / "lock")):
        assert (tmp_path / "c" / "lock").exists()
    assert not os.listdir(tmp_path)
    with hold(tmp_path / "a" / "b"):
        (tmp_path / "a" / "result").write_text("")
    assert os.listdir(tmp_path / "a") == ["result"]


def test_a_link_in_the_place_of_the_lock_leads_nowhere(tmp_path):
    (tmp_path / "own").write_text("the user's")
    (tmp_path / ".lock").symlink_to("own")
    with hold(tmp_path):
        pass
    assert (tmp_path / "own").read_text() == "the user's"


def test_a_lock_that_says_nothing_is_one(tmp_path):
    with hold(tmp_path):
        for content in ("", "{", "[]", "{}"):
            (tmp_path / ".lock").write_text(content)
            with refused("by another process"):
                hold(tmp_path).__enter__()


@pytest.mark.parametrize(
    ("content", "is_lock"),
    [
        (b"Held by " + b"x" * 900, True),
        (b"\0" * 299, True),  # After a power failure.
        *((text, False) for text in (b"my notes", b"[1]", b"3", b"\0" * 300)),
    ],
)
def test_a_file_that_is_no_lock_is_kept(tmp_path, content, is_lock):
    path = tmp_path / "export.lock"
    path.write_bytes(content)
    if is_lock:
        with folder_lock.hold("export", "export_dir", lock=str(path)):
            holder = path.read_text()
            assert len(holder) < 300 and f"process {os.getpid()} " in holder
        return
    with refused("Rename that file"):
        folder_lock.hold("export", "export_dir", lock=str(path)).__enter__()
    assert path.read_bytes() == content


def test_a_file_system_without_locks_warns(tmp_path, monkeypatch, caplog):
    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with hold(tmp_path):
        pass
    assert "has no locks (No locks available)" in caplog.text


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_folder_that_may_not_be_written_to_is_named(
    tmp_path, monkeypatch, number
):
    def fail(path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(folder_lock, "_open_lock_file", fail)
    reason = os.strerror(number)
    message = f"`output_dir={tmp_path}` cannot be written: {reason}. "
    for values, advice in (({}, "Choose"), ({"advice": "Do so."}, "Do so.")):
        with refused(message + advice):
            hold(tmp_path, **values).__enter__()


def test_a_full_disk_is_named_with_the_lock_and_leaves_none(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match=r"No space.*are free.*\.lock'"):
            hold(tmp_path).__enter__()
    assert not list(tmp_path.iterdir())
    with hold(tmp_path):  # It is not held by this process either.
        pass


def test_remote_folders_have_no_lock():
    with hold("gs://bucket/run"), hold("gs://bucket/run"):
        pass
