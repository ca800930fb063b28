"""A map over several processes, with results in order."""

import collections
import concurrent.futures
import concurrent.futures.process
import contextlib
import contextvars
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import process
from typing import Any, TypeVar

from albert_tf.common import errors

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
Submit = Callable[[Callable[[Any], Any], Any], Any]  # Returns a future.
# Opens a map that shares a value.
OpenMap = Callable[[Any], contextlib.AbstractContextManager[Map]]

# Submitted items for each process: enough to keep it busy.
_IN_FLIGHT = 3

_PR_SET_PDEATHSIG = 1  # Of prctl(2).
# Signals that ask the program to end. Both are blocked during a fork, when
# Python drops exceptions that their handlers raise.
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})

# Each thread has its own value.
_context: contextvars.ContextVar[Any] = contextvars.ContextVar("_context")


class WorkerEndedError(errors.UserError):
    """A worker process was killed, for example because memory ran out."""


def shared_value() -> Any:
    """Return the value that `workers` shares, inside a mapped function."""
    return _context.get()


def call_with_shared(
    function: Callable[[ItemT], ResultT], item: ItemT, shared: Any
) -> ResultT:
    """Call a mapped function, in a process that `workers` has not started."""
    _context.set(shared)
    return function(item)


def _prepare_worker(value: Any, parent: int) -> None:
    """Make a worker process end with its parent, and ignore Ctrl-C itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # The parent has ended in between.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    _context.set(value)


def resolve(num_workers: int) -> int:
    """Return how many processes `--num_workers` means; 0 is one per core."""
    if num_workers:
        return num_workers
    if hasattr(os, "sched_getaffinity"):  # Linux: those we may use.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def workers(num_workers: int, shared: Any) -> Iterator[Map]:
    """Open a map over processes; with one worker, this process does the work.

    The map takes a module's function and items, and yields results in the
    order of the items. Only a few items are submitted at a time, so neither
    items nor results accumulate in memory. The processes end with this one,
    also if it is killed; after an error they are stopped at once.

    Args:
        shared: A value that every call can read with `shared_value`.
    """
    _context.set(shared)
    try:
        if num_workers == 1:
            yield map
        else:
            with _pool(num_workers, shared) as submit:
                yield functools.partial(map_in_order, submit, num_workers)
    finally:
        _context.set(None)


@contextlib.contextmanager
def _pool(num_workers: int, shared: Any) -> Iterator[Submit]:
    """Start processes; after an error they are stopped at once."""
    others = set(multiprocessing.active_children())
    workers: set[process.BaseProcess] = set()  # Ended ones, too.
    # fork is fast; TensorFlow has threads, which it would not survive.
    method = "spawn" if "tensorflow" in sys.modules else "fork"
    start = multiprocessing.get_context(method)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers, start, _prepare_worker, (shared, os.getpid())
    )

    def submit(function: Any, item: Any) -> Any:
        future = _submit(pool, function, item)
        workers.update({*multiprocessing.active_children()} - others)
        return future

    try:
        with pool:
            try:
                yield submit
            except BaseException:
                for worker in workers:
                    worker.terminate()
                if sys.version_info < (3, 11, 5):
                    # Otherwise this waits forever for a thread that still
                    # writes to them (Python's issue 94777). Later versions
                    # close it themselves; closing it twice at once fails.
                    pool._call_queue._reader.close()  # type: ignore[attr-defined]
                raise
    except concurrent.futures.process.BrokenProcessPool:
        raise WorkerEndedError(
            f"A worker process {_describe_end(workers)}. Run the same command "
            "again."
        ) from None


def _describe_end(workers: Iterable[process.BaseProcess]) -> str:
    """Describe the end of the worker that ended first."""
    codes = [worker.exitcode for worker in workers]
    # The others were told to end.
    codes = sorted(codes, key=lambda code: code in (None, 0, -signal.SIGTERM))
    code = codes[0] if codes else None
    if code == -signal.SIGKILL:
        return (
            "was killed (SIGKILL). The system does this when memory runs out; "
            "if it did, use a smaller `num_workers`"
        )
    if code is not None and code < 0:
        return f"was ended by a signal ({signal.Signals(-code).name})"
    return f"ended unexpectedly, with status {code}"


def map_in_order(
    submit: Submit,
    num_workers: int,
    function: Callable[[ItemT], ResultT],
    items: Iterable[ItemT],
) -> Iterator[ResultT]:
    """Yield the results of a function in the order of the items.

    Args:
        submit: Takes the function and an item, and returns a future at once.
        num_workers: Processes; they get a few items each at a time.
    """
    waiting: collections.deque[Any] = collections.deque()
    for item in items:
        waiting.append(submit(function, item))
        if len(waiting) >= num_workers * _IN_FLIGHT:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _submit(
    pool: concurrent.futures.Executor,
    function: Callable[[ItemT], ResultT],
    item: ItemT,
) -> concurrent.futures.Future[ResultT]:
    """Submit an item, which may start processes.

    A spawned process first imports the main script. This would load TensorFlow,
    or, in a script without `if __name__ == "__main__"`, start its work again.
    So the script is hidden, unless the function is defined in it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    script = sys.modules["__main__"]
    if function.__module__ != "__main__":
        sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        return pool.submit(function, item)
    finally:
        sys.modules["__main__"] = script
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
