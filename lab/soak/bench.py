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
import threading
import time
import types
from collections.abc import Sequence
from typing import Any

from lab.soak import jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is killed: process groups; or only the processes, so that their children
# must notice by themselves; or one of several workers.
KINDS_OF_KILL = ("group", "process", "one worker")
# A longer run counts as hanging.
_LONGEST_SECONDS = 600.0
# A worker without the other one ends within this time, or is killed.
_GRACE_SECONDS = 20.0
_NUM_SERVERS = 2


class Bench:
    """Starts commands by servers that were forked for them.

    Each kind has two servers with different hash seeds, which take turns, so
    that sets have another order after a restart.
    """

    def __init__(self, place: pathlib.Path):
        """Set the folder for all files."""
        self.place = place
        self._servers: dict[str, list[_Server]] = {}
        self._turn = 0

    def __enter__(self) -> "Bench":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        for servers in self._servers.values():
            for server in servers:
                server.close()

    def make_inputs(self, num_stories: int, *, models: bool) -> None:
        """Create the inputs of the jobs, unless they exist."""
        inputs = self.place / "inputs"
        if not (inputs / "texts").exists():
            shutil.rmtree(inputs, ignore_errors=True)
            inputs.mkdir()
            for name, content in jobs.CONFIGS.items():
                (inputs / name).write_text(json.dumps(content))
            first, *others = jobs.TEXTS
            self._make([first], num_stories=num_stories)
            self._make(others)
            _add_inputs(inputs)
            (inputs / "texts").touch()
        if models and not (inputs / "models").exists():
            for name in jobs.MODEL_FOLDERS:
                shutil.rmtree(inputs / name, ignore_errors=True)
            self._make(jobs.MODELS)
            (inputs / "models").touch()

    def _make(self, commands: Sequence[jobs.Command], **options: Any) -> None:
        for command in commands:
            (status,) = self.start(command, self.place, options).wait()
            if status:
                raise RuntimeError(f"{command}: {status}, see {self.place}/log")

    def folder(self, job: jobs.Job, name: str) -> pathlib.Path:
        """Return the folder of one run of a job."""
        return self.place / job.name / name

    def make_folder(self, job: jobs.Job, name: str) -> pathlib.Path:
        """Make a new folder for one run of a job, replacing an earlier one."""
        folder = self.folder(job, name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "inputs").symlink_to(self.place / "inputs")
        return folder

    def start(
        self,
        command: jobs.Command,
        folder: pathlib.Path,
        options: dict[str, Any] | None = None,
        **limits: Any,
    ) -> "Run":
        """Start a command in a folder."""
        self._turn += 1
        servers = self._servers.setdefault(command.kind, [])
        if len(servers) < _NUM_SERVERS:
            servers.append(_Server(command.kind, len(servers)))
        server = servers[self._turn % len(servers)]
        more = dict(options or {})
        hosts = ",".join(f"127.0.0.1:{p}" for p in _free_ports(command.workers))
        pids = []
        for index in range(command.workers):
            if command.workers > 1:
                more |= {
                    "distribution_strategy": "multi_worker_mirrored",
                    "worker_hosts": hosts,
                    "task_index": index,
                }
            request = {
                "module": command.module,
                "arguments": command.arguments(**more),
                "folder": str(folder),
                "log": str(folder / "log"),
                **limits,
            }
            pids.append(server.ask(start=request))
        return Run(server, pids)

    def content(self, job: jobs.Job, folder: pathlib.Path) -> dict[str, str]:
        """Return the content of a finished run's folder; see compare.py."""
        if job.question:
            (status,) = self.start(job.question, folder).wait()
            if status:
                return {"question": f"status {status}"}
        output = folder.parent / f"{folder.name}.json"
        request = {
            "module": "lab.soak.compare",
            "arguments": [str(folder), str(output)],
            "folder": str(folder),
            "log": str(folder / "log"),
        }
        server = self._servers[job.command.kind][0]
        (status,) = Run(server, [server.ask(start=request)]).wait()
        if status:
            raise RuntimeError(f"{folder} cannot be compared, see its log")
        content: dict[str, str] = json.loads(output.read_text())
        output.unlink()
        return content


class Run:
    """The processes of a running command."""

    def __init__(self, server: "_Server", pids: list[int]):
        """Store the server that knows when they end."""
        self._server = server
        self._pids = pids

    def wait(self, seconds: float = _LONGEST_SECONDS) -> list[int]:
        """Return the exit statuses; a run that hangs is killed, status -9."""
        guard = threading.Timer(seconds, self._kill_all)
        guard.start()
        try:
            return [self._server.ask(wait=pid) for pid in self._pids]
        finally:
            guard.cancel()

    def wait_watching(
        self, folder: pathlib.Path, pattern: str
    ) -> tuple[list[int], float]:
        """Wait; also return seconds until a file matched the pattern."""
        ended = threading.Event()
        seen: list[float] = []
        begun = time.monotonic()

        def watch() -> None:
            while not (ended.wait(0.02) or seen):
                if any(folder.glob(pattern)):
                    seen.append(time.monotonic() - begun)

        watcher = threading.Thread(target=watch)
        watcher.start()
        status = self.wait()
        ended.set()
        watcher.join()
        return status, seen[0] if seen else 0.0

    def has_ended(self) -> bool:
        """Tell whether all processes have ended, without waiting for them."""
        return all(_is_zombie(pid) for pid in self._pids)

    def kill(self, how: str) -> list[int]:
        """Kill it now; return the exit statuses, -9 for killed processes."""
        if how == "one worker" and len(self._pids) > 1:
            os.kill(self._pids[-1], signal.SIGKILL)
            return self.wait(_GRACE_SECONDS)
        for pid in self._pids:
            if how == "group":
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)
        return self.wait()

    def _kill_all(self) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


class _Server:
    """A process of server.py."""

    def __init__(self, kind: str, number: int):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(number + 1),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.soak.server", kind],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._read()

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def _is_zombie(pid: int) -> bool:
    """Tell whether a process has ended and was not waited for."""
    found = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return found.rsplit(")", 1)[1].split()[0] == "Z"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


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
