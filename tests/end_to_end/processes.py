"""Scripts in separate processes, as a scheduler would start them."""

import ctypes
import resource
import socket
import subprocess
import sys

from tests.conftest import ROOT


def start(module, signal_at=(), **options):
    """Start a script; signalled.py describes `signal_at`."""
    program = ["tests.end_to_end.signalled", *signal_at] if signal_at else []
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, program), module]
        + [f"--{key}={value}" for key, value in options.items()],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_limited(limit, module, **options):
    """Run a script after one of the functions below; return the process."""
    begin = (
        "import os, sys\n"
        f"from {__name__} import {limit.__name__}\n"
        f"{limit.__name__}()\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    return subprocess.run(
        [sys.executable, "-c", begin, "-m", module]
        + [f"--{key}={value}" for key, value in options.items()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def obey_permissions():
    """Make permissions apply to root as well, in the program started next.

    Another user might not be able to run this Python.
    """
    drop = 24  # PR_CAPBSET_DROP of prctl(2).
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH.
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


def allow_no_byte():
    """Make writing the first byte of any file fail, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def start_workers(module, signal_at=(), signalled=1, number=2, **options):
    """Start the workers of one run; one of them gets the signal."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in _free_ports(number))
    return [
        start(
            module,
            signal_at if index == signalled else (),
            distribution_strategy="multi_worker_mirrored",
            worker_hosts=hosts,
            task_index=index,
            **options,
        )
        for index in range(number)
    ]


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def finish(process, code=0):
    """Wait for the process to end and return its output."""
    output = process.communicate(timeout=300)[0]
    assert process.returncode == code, output
    assert "Traceback" not in output, output
    return output
