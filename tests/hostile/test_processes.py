"""Commands in processes of their own: limits, rights, signals, closed pipes.

These could end the process of the tests, fill its memory, or need a process
whose exit status and output can be seen.
"""

import ctypes
import gzip
import os
import resource
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.hostile import commands
from tests.hostile.commands import SHORT

SECONDS = 120
# Much more than a command needs that loads no TensorFlow, and much less than
# what the bombs unpack to.
MEMORY = 3 << 29
_DROP, _OVERRIDE, _READ_SEARCH = 24, 1, 2


def as_anybody() -> None:
    """Give up root's right to read and write what its modes forbid."""
    libc = ctypes.CDLL(None)
    for capability in (_OVERRIDE, _READ_SEARCH):
        libc.prctl(_DROP, capability, 0, 0, 0)  # EPERM: it has none.


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def full_disk() -> None:
    """No file may grow beyond 100 bytes; Python ignores the signal."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.fixture
def workspace(tmp_path, texts):
    workspace = commands.Workspace(tmp_path, texts)
    workspace.make()
    return workspace


def start(workspace, short, changes, limit=None, **how):
    module = SHORT[short].split(":")[0]
    variables = {
        **os.environ,
        **workspace.environment(),
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "MPLCONFIGDIR": str(workspace.out),
        "KERAS_HOME": str(workspace.out),  # It gets a keras.json at import.
    }
    return subprocess.Popen(
        [sys.executable, "-m", module, *workspace.flags(SHORT[short], changes)],
        cwd=workspace.here,
        env=variables,
        preexec_fn=limit,
        **{
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.PIPE,
            **how,
        },
    )


def finish(process, given=None):
    try:
        said = process.communicate(given, timeout=SECONDS)[1]
    finally:
        process.kill()
    return commands.Done(process.returncode, said.decode())


def run(workspace, short, changes, limit=None, says=(), leaves=(), **how):
    before = workspace.surroundings()
    done = finish(start(workspace, short, changes, limit, **how))
    commands.check(done, workspace, before, says, leaves)
    return done


READERS = ("create_pretraining_data", "split_sentences", "train_sentencepiece")
WRITERS = (*READERS, "extract_passages", "make_demo_data")


@pytest.mark.parametrize("short", WRITERS)
def test_full_disk(workspace, short):
    done = run(workspace, short, {}, full_disk)
    assert done.status == 1
    assert str(workspace.out) in done.said and "File too large" in done.said


@pytest.mark.parametrize(
    ("short", "most"),
    [
        ("create_finetuning_data", 50),  # The records.
        ("create_finetuning_data", 700),  # What is said about them.
        ("make_word_embeddings", 1000),
    ],
)
def test_the_same_command_succeeds_when_there_is_room(workspace, short, most):
    """As the message promises; no half of the result is in its way."""
    changes, path = {}, workspace.inputs / "glue/RTE/train.tsv"
    if short == "create_finetuning_data":
        rows = path.read_text().splitlines(keepends=True)
        changes["input_file"] = workspace.here / "train.tsv"
        changes["input_file"].write_text("".join(rows[:3]))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    done = run(workspace, short, changes, limit)
    assert done.status == 1
    assert str(workspace.out) in done.said and "File too large" in done.said
    leaves = ("*",)
    assert run(workspace, short, changes, leaves=leaves).status == 0


@pytest.mark.parametrize("short", READERS)
def test_folder_that_may_not_be_written_to(workspace, short):
    workspace.out.chmod(0o500)
    done = run(workspace, short, {}, as_anybody)
    assert done.status in (1, 2)
    assert str(workspace.out) in done.said and "Permission denied" in done.said


@pytest.mark.parametrize("short", READERS)
def test_file_that_may_not_be_read(workspace, short):
    path = workspace.here / "a file"
    path.chmod(0)
    done = run(workspace, short, {"input_file": path}, as_anybody)
    assert done.status == 2
    assert f"--input_file={path} may not be read" in done.said


@pytest.mark.parametrize("short", READERS)
def test_bomb(workspace, short):
    """A hundred megabytes of zeros, packed: one line that never ends."""
    path = workspace.here / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(100_000_000), 1))
    done = run(workspace, short, {"input_file": path}, little_memory)
    assert done.status == 2 and "bomb.gz" in done.said


def test_standard_input_that_never_ends(workspace):
    with open("/dev/zero", "rb") as zeros:
        run(
            workspace,
            "create_pretraining_data",
            {"input_file": "-"},
            little_memory,
            stdin=zeros,
            says=("line 1",),
        )


def closed(*numbers):
    """Close standard streams, as `2>&-` does in a shell."""

    def close():
        for number in numbers:
            os.close(number)

    return close


@pytest.mark.parametrize(
    "how",
    [
        {"limit": closed(0)},
        {"limit": closed(1)},
        {"limit": closed(2)},
        {"limit": closed(0, 1, 2)},
        {"stderr": "/dev/full"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX"},
    ],
    ids=lambda how: " ".join(how),
)
def test_streams_that_are_closed_full_or_odd(workspace, monkeypatch, how):
    """Work is done, mistakes have their status, and files are as always."""
    path = workspace.here / "ü 漢.txt"
    path.write_text("Ivo slept. Mara woke.\n")
    for name in ("PYTHONIOENCODING", "LC_ALL", "PYTHONUTF8"):
        if name in how:
            monkeypatch.setenv(name, how[name])
    output = workspace.out / "ö 漢.txt"
    changes = {"input_file": path, "output_file": output}
    statuses, said = [], b""
    with open(how.get("stderr", os.devnull), "wb") as full:
        streams = {"stderr": full} if "stderr" in how else {}
        for _ in range(2):
            process = start(
                workspace,
                "split_sentences",
                changes,
                how.get("limit"),
                **streams,
            )
            said = process.communicate(timeout=SECONDS)[1] or b""
            statuses.append(process.returncode)
            assert output.read_text() == "Ivo slept.\nMara woke.\n\n"
    assert statuses == [0, 2]
    assert not said or said.startswith(b"error: --output_file=")
    assert said or "stderr" in how or "limit" in how


@pytest.mark.parametrize("short", ["create_pretraining_data", "predict"])
def test_standard_input_that_is_closed(workspace, short):
    changes = {"input_file": "-"}
    if short == "predict":
        changes |= {"run_dir": None, "saved_model": "{here}/folder"}
    says = ("--input_file=- is standard input, which is closed",)
    leaves = ("keras.json",)
    run(workspace, short, changes, closed(0), says=says, leaves=leaves)


@pytest.mark.parametrize("short", ["inspect_records", "predict"])
def test_answers_need_a_standard_output(workspace, short):
    changes = {}
    if short == "predict":
        changes = {"output_file": "-", "run_dir": "{here}/folder"}
    leaves = ("keras.json",)
    says = ("Standard output is closed",)
    run(workspace, short, changes, closed(1), says=says, leaves=leaves)


def test_standard_output_that_is_full(workspace):
    with open("/dev/full", "wb") as full:
        leaves = ("keras.json",)
        done = run(workspace, "inspect_records", {}, leaves=leaves, stdout=full)
    assert done.status == 1 and "No space left" in done.said


def test_interruption(workspace):
    before = workspace.surroundings()
    changes = {"input_file": "-"}
    process = start(
        workspace, "create_pretraining_data", changes, stdin=subprocess.PIPE
    )
    for line in process.stderr:
        if b"worker(s)" in line:  # It waits for the text.
            break
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.status == 130
    commands.check(done, workspace, before, leaves=("job.json", "lock"))
