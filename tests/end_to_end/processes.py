"""Scripts in separate processes, as a scheduler would start them."""

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
    output = process.communicate(timeout=300)[0]
    assert process.returncode == code, output
    assert "Traceback" not in output, output
    return output
