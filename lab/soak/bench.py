"""Starts, kills and compares the processes of jobs."""

import contextlib
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from lab.soak import compare, jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is killed: process groups; or only the processes, so that their children
# must notice by themselves; or one of several workers.
KINDS_OF_KILL = ("group", "process", "one worker")
# A longer run counts as hanging.
_LONGEST_SECONDS = 600.0
# A worker without the other one ends within this time, or is killed.
_GRACE_SECONDS = 20.0


def make_inputs(
    inputs: pathlib.Path, num_stories: int, *, models: bool
) -> None:
    """Create the inputs of the jobs, unless they exist."""
    if not (inputs / "texts").exists():
        shutil.rmtree(inputs, ignore_errors=True)
        inputs.mkdir(parents=True)
        (inputs / "config.json").write_text(json.dumps(jobs.CONFIG))
        stories = f"{jobs.STORIES} --num_stories={num_stories}"
        _make([stories, *jobs.TEXTS], inputs.parent)
        _add_inputs(inputs)
        (inputs / "texts").touch()
    if models and not (inputs / "models").exists():
        _make(jobs.MODELS, inputs.parent)
        (inputs / "models").touch()


def _make(commands: Sequence[str], folder: pathlib.Path) -> None:
    for command in commands:
        (status,) = start(command, folder).wait()
        if status:
            raise RuntimeError(f"{command}: {status}, see {folder}/log")


def _add_inputs(inputs: pathlib.Path) -> None:
    """Write the inputs that no command of the project makes."""
    text = (inputs / "data/corpus/train.txt").read_bytes()
    packed = gzip.compress(text, mtime=0)
    (inputs / "data/corpus/train.txt.gz").write_bytes(packed)
    rows = (inputs / "data/glue/CoLA/train.tsv").read_text().splitlines()
    lines = []
    for number in range(400):
        text = rows[number % len(rows)].split("\t")[-1]
        lines.append(json.dumps({"id": str(number), "text": text}) + "\n")
    (inputs / "sentences.jsonl").write_text("".join(lines))


def make_folder(folder: pathlib.Path) -> None:
    """Make a new folder for one run of a job, replacing an earlier one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "inputs").symlink_to(folder.parents[1] / "inputs")


class Run:
    """The processes of a running command."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]):
        """Each process leads a group."""
        self._processes = processes

    def wait(
        self,
        seconds: float = _LONGEST_SECONDS,
        is_time: Callable[[], bool] = lambda: False,
    ) -> list[int | None]:
        """Return the exit statuses; a run that hangs is killed, status -9.

        Args:
            is_time: Ends the waiting early; statuses may be None then.
        """
        end = time.monotonic() + seconds
        while any(p.poll() is None for p in self._processes):
            if is_time():
                break
            if time.monotonic() > end:
                return self.kill("group")
            time.sleep(0.01)
        return [process.poll() for process in self._processes]

    def kill(self, how: str) -> list[int | None]:
        """Kill it now; return the exit statuses, -9 for killed processes."""
        if how == "one worker" and len(self._processes) > 1:
            self._processes[-1].kill()
            return self.wait(_GRACE_SECONDS)
        for process in self._processes:
            if how == "group":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        return [process.wait() for process in self._processes]


def start(command: str, folder: pathlib.Path, workers: int = 1) -> Run:
    """Start a command in a folder, in one or several processes.

    The hash seed is another one with every start, so that sets have another
    order after a restart.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "random",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    hosts = ",".join(f"127.0.0.1:{port}" for port in _free_ports(workers))
    processes = []
    for index in range(workers):
        words = command.split()
        if workers > 1:
            words += [
                "--distribution_strategy=multi_worker_mirrored",
                f"--worker_hosts={hosts}",
                f"--task_index={index}",
            ]
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        processes.append(process)
    return Run(processes)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def content(job: jobs.Job, folder: pathlib.Path) -> dict[str, str]:
    """Return the content of a finished run's folder; see compare.py."""
    if job.question:
        (status,) = start(job.question, folder).wait()
        if status:
            return {"question": f"status {status}"}
    return compare.describe(folder)
