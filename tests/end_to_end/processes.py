"""Scripts in processes of their own, as a scheduler would start them."""

import socket
import subprocess
import sys


def start(module, **options):
    """Start a script."""
    return subprocess.Popen(
        [sys.executable, "-m", module]
        + [f"--{key}={value}" for key, value in options.items()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_workers(module, **options):
    """Start it twice, as the two workers of one run."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in _free_ports(2))
    return [
        start(
            module,
            distribution_strategy="multi_worker_mirrored",
            worker_hosts=hosts,
            task_index=index,
            **options,
        )
        for index in range(2)
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
    """Wait for the end, and return what it printed."""
    output = process.communicate(timeout=300)[0]
    assert process.returncode == code, output
    assert "Traceback" not in output, output
    return output
