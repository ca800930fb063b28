"""Starts scripts in forked processes, without importing TensorFlow again.

The soak test starts this file with `plain` or `tensorflow` and sends requests
as JSON lines: `{"start": {...}}` returns the process id, `{"wait": PID}` the
exit status, negative for a signal. Each child leads its own process group and
can be killed at any moment.
"""

import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import runpy
import signal
import sys
import traceback
from typing import Any

_PR_SET_PDEATHSIG = 1  # Of prctl(2).

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Imported before the first fork. This includes encodings, because a user
# without permissions may not be able to read Python's files. The writer must
# not find TensorFlow loaded, or its processes are spawned instead of forked.
_ENCODINGS = ["encodings.utf_8_sig", "encodings.ascii", "encodings.latin_1"]
_MODULES = {
    "plain": [
        *_ENCODINGS,
        "data_prep.create_pretraining_data",
        "PIL.ImageDraw",
    ],
    "tensorflow": [
        *_ENCODINGS,
        "albert_tf.run_pretraining",
        "albert_tf.run_classifier",
        "albert_tf.export",
        "albert_tf.predict",
        "albert_tf.finetuning.predictions",
        "albert_tf.serving.client.ask",
        "tensorflow_text",
        "matplotlib.backends.backend_agg",
        "matplotlib.figure",
        "tensorboard.plugins.scalar.summary_v2",
    ],
}


def serve(kind: str) -> None:
    """Answer requests until standard input ends; then end all children."""
    _end_with_parent()
    for module in _MODULES[kind]:
        importlib.import_module(module)
    running: set[int] = set()
    _reply(sorted(_MODULES))
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            running.add(_reply(_start(**request["start"])))
        else:
            _, status = os.waitpid(request["wait"], 0)
            running.discard(request["wait"])
            _reply(os.waitstatus_to_exitcode(status))
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _end_with_parent() -> None:
    """Have the system kill this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _reply(value: Any) -> Any:
    print(json.dumps(value), flush=True)
    return value


def _start(**request: Any) -> int:
    """Fork a child that runs a script; return its process id."""
    pid = os.fork()
    if pid:
        # The child does so as well; either may be first.
        with contextlib.suppress(PermissionError):
            os.setpgid(pid, pid)
        return pid
    status = 1
    try:
        _end_with_parent()
        os.setpgid(0, 0)
        status = _run(**request)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(status)


def _run(
    module: str,
    arguments: list[str],
    folder: str,
    log: str,
    user: int | None = None,
) -> int:
    """Run a module as a script; return its exit status.

    Args:
        user: Id of a user without permissions, instead of root.
    """
    _redirect(log)
    os.chdir(folder)
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    sys.modules.pop(module, None)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def _redirect(log: str) -> None:
    """Redirect output and errors to a file, and empty standard input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for source, target in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, target)


if __name__ == "__main__":
    serve(sys.argv[1])
