"""The same function on many things, in several processes, results in order."""

import collections
import concurrent.futures
import concurrent.futures.process
import contextlib
import ctypes
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

# Items on their way for each process: enough to keep it busy.
_IN_FLIGHT = 3

_PR_SET_PDEATHSIG = 1  # Of prctl(2).
# What asks the program to end. Both wait while a process is forked, when Python
# drops exceptions that their handlers raise.
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})

_context: Any = None


class WorkerEndedError(errors.UserError):
    """A worker process was killed, for example because memory ran out."""


def context() -> Any:
    """Return what `workers` was given; for use inside the functions."""
    return _context


def _set_context(value: Any) -> None:
    global _context
    _context = value


def _begin(value: Any, parent: int) -> None:
    """Prepare a worker: it ends with its parent, which alone hears signals."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # The parent has ended in between.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    _set_context(value)


def count(num_workers: int) -> int:
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
    order of the items. Only a few items are on their way at a time, so neither
    items nor results pile up in memory. The processes end with this one,
    whatever ends it; after an error they are stopped at once.

    Args:
        num_workers: Processes.
        shared: What every call may ask for with `context`.

    Raises:
        WorkerEndedError: A worker was killed.
    """
    _set_context(shared)
    others = set(multiprocessing.active_children())
    seen: set[process.BaseProcess] = set()  # Ended ones, too.

    def see() -> set[process.BaseProcess]:
        seen.update(set(multiprocessing.active_children()) - others)
        return seen

    try:
        if num_workers == 1:
            yield map
            return
        with concurrent.futures.ProcessPoolExecutor(
            num_workers, _start_method(), _begin, (shared, os.getpid())
        ) as pool:
            try:
                yield lambda function, items: _in_order(
                    pool, num_workers * _IN_FLIGHT, function, items, see
                )
            except BaseException:
                for worker in see():
                    worker.terminate()
                if sys.version_info < (3, 11, 5):
                    # Or a thread that still writes to them is waited for, for
                    # ever (Python's issue 94777). Later versions close it
                    # themselves, and two closes at once are an error.
                    pool._call_queue._reader.close()  # type: ignore[attr-defined]
                raise
    except concurrent.futures.process.BrokenProcessPool:
        raise WorkerEndedError(
            f"A worker process {_how_ended(seen)}. Finished work is kept: "
            "start the same command again."
        ) from None
    finally:
        _set_context(None)


def _how_ended(workers: Iterable[process.BaseProcess]) -> str:
    """Say how the worker ended whose end stopped the others."""
    codes = [worker.exitcode for worker in workers]
    # The others were told to end.
    codes = sorted(codes, key=lambda code: code in (None, 0, -signal.SIGTERM))
    code = codes[0] if codes else None
    if code == -signal.SIGKILL:
        return (
            "was killed (SIGKILL), as the system does when memory runs out; "
            "then a smaller `num_workers` helps"
        )
    if code is not None and code < 0:
        return f"was ended by a signal ({signal.Signals(-code).name})"
    return f"ended unexpectedly, with status {code}"


def _start_method() -> Any:
    """Fork, which costs nothing, unless TensorFlow's threads forbid it.

    A spawned process imports what the function needs, see `_submit`.
    """
    method = "spawn" if "tensorflow" in sys.modules else "fork"
    return multiprocessing.get_context(method)


def _in_order(
    pool: concurrent.futures.Executor,
    limit: int,
    function: Callable[[ItemT], ResultT],
    items: Iterable[ItemT],
    on_submit: Callable[[], object],
) -> Iterator[ResultT]:
    waiting: collections.deque[concurrent.futures.Future[ResultT]] = (
        collections.deque()
    )
    for item in items:
        waiting.append(_submit(pool, function, item))
        on_submit()
        if len(waiting) >= limit:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _submit(
    pool: concurrent.futures.Executor,
    function: Callable[[ItemT], ResultT],
    item: ItemT,
) -> concurrent.futures.Future[ResultT]:
    """Hand an item over, which may start processes.

    What is spawned imports the main script first: for a script that trains that
    is TensorFlow, and for one without `if __name__ == "__main__"` the work
    itself. So the script is hidden where its own functions are not asked for.
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
