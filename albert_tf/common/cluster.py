"""The map of `parallel` over the workers of a Dask cluster.

Dask runs a task again if its worker ends, and may run it twice. So functions
must write files that several processes can write at once, see
`files.replace_atomically`, and their results must depend on the item alone.
"""

import contextlib
import functools
import hashlib
import importlib
import logging
import operator
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.common import errors, packages, parallel

OPTION = "dask_scheduler"
# Seconds; Dask's own default would wait 30.
_CONNECT = 10
_LARGEST_ITEM = "64MB"  # Dask warns above it.


@contextlib.contextmanager
def connect(address: str, folder: str) -> Iterator[Any]:
    """Connect to a scheduler; yields a `distributed.Client` for `workers`.

    Args:
        address: HOST:PORT, as the scheduler prints it.

    Raises:
        errors.UserError: `distributed` is not installed, the scheduler cannot
            be reached or has no workers, a worker does not see the folder, or
            the connection is lost later.
    """
    distributed = packages.require(
        "distributed",
        install="pip install distributed==2026.8.0",
        argument=f"{OPTION}={address}",
    )
    dask = importlib.import_module("dask")
    # A lost connection raises an error below; Dask would also log tracebacks
    # of every attempt to connect again.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        # Results do not pass through the scheduler and its memory.
        client = distributed.Client(
            address, timeout=_CONNECT, direct_to_workers=True
        )
    except (OSError, ValueError) as error:
        raise errors.UserError(
            f"`{OPTION}={address}` cannot be reached: {error}. Give HOST:PORT "
            "of a running scheduler (`dask scheduler`)."
        ) from None
    # An item is sent with its call, so that it outlives a worker.
    large = {"distributed.admin.large-graph-warning-threshold": _LARGEST_ITEM}
    with client, dask.config.set(large), _report_loss(distributed, client):
        reason = _explain_unusable(client, folder)
        if reason:
            raise errors.UserError(f"`{OPTION}={address}` {reason}")
        yield client


@contextlib.contextmanager
def _report_loss(distributed: Any, client: Any) -> Iterator[None]:
    """Turn Dask's errors about a lost cluster into a `WorkerEndedError`."""
    address = client.scheduler.address
    lost = (
        distributed.client.FutureCancelledError,
        distributed.comm.CommClosedError,
    )
    try:
        yield
    except distributed.scheduler.KilledWorker as error:
        raise parallel.WorkerEndedError(
            f"The Dask cluster at {address} has given up: {error} Finished "
            "work is kept: run the same command again."
        ) from None
    except (*lost, OSError) as error:
        # A call's own OSError, such as a full disk.
        if client.status == "running" and not isinstance(error, lost):
            raise
        raise parallel.WorkerEndedError(
            f"The Dask scheduler at {address} has ended or cannot be reached. "
            "Finished work is kept: start a scheduler with workers, and run "
            "the same command again."
        ) from None


def _explain_unusable(client: Any, folder: str) -> str | None:
    """Return why the processes of a cluster cannot be used, or None."""
    answers = client.run(_probe, folder, on_error="return")
    if not answers:
        address = client.scheduler.address
        return f"has no workers. Start some: `dask worker {address}`."
    try:
        client.run_on_scheduler(_probe, folder)
    except (ImportError, AttributeError) as error:
        answers["the scheduler"] = error
    for process, answer in sorted(answers.items()):
        if isinstance(answer, Exception):
            return (
                f"has a process that cannot import this project, {process}: "
                f"{answer}. Scheduler and workers need it, in the same "
                "version: set PYTHONPATH, or install it (docs/clusters.md)."
            )
        if answer[1] != hash_code():
            return (
                "has a worker with another version of Python or other code, "
                f"{process}, whose records could differ. Install the same, and "
                "start it again."
            )
    blind = sorted(p for p, (sees, _) in answers.items() if not sees)
    if blind:
        return (
            f"has workers that do not see the folder {folder}: "
            f"{', '.join(blind)}. All machines need the same folders of the "
            "inputs and outputs."
        )
    return None


def _probe(folder: str) -> tuple[bool, str]:
    """Tell of a worker whether it has a folder, and its `hash_code`."""
    return os.path.isdir(folder), hash_code()


@functools.cache  # What a process has imported stays, if the files change.
def hash_code() -> str:
    """Return the SHA-256 of this project's code and of some versions."""
    root = pathlib.Path(__file__).parents[2]
    digest = hashlib.sha256(f"{sys.version} {np.__version__}".encode())
    for package in "albert_tf", "data_prep":
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def workers(client: Any, shared: Any) -> Iterator[parallel.Map]:
    """Open a map over the workers of a cluster, see `parallel.workers`."""
    # A future: Dask computes it again if the worker that holds it ends. In a
    # list, or Dask would take the elements of a tuple for single values.
    shared_future = client.submit(operator.itemgetter(0), [shared], pure=False)

    def submit(function: Any, item: Any) -> Any:
        return client.submit(
            parallel.call_with_shared, function, item, shared_future, pure=False
        )

    threads = sum(client.nthreads().values())
    yield functools.partial(parallel.map_in_order, submit, threads)
