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
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import process
from typing import Any, TypeVar

from albert_tf import errors

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# Items on their way for each process: enough to keep it busy.
_IN_FLIGHT = 3

_PR_SET_PDEATHSIG = 1  # Of prctl(2).

_context: Any = None
_told: int | None = None  # The signal that said to leave.
_may_leave = True  # Not while forking: Python drops exceptions there.


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
        errors.UserError: A worker was killed.
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
                # A thread that still writes to them would be waited for, for
                # ever, before Python 3.11.5 (its issue 94777).
                pool._call_queue._reader.close()  # type: ignore[attr-defined]
                raise
    except concurrent.futures.process.BrokenProcessPool:
        raise errors.UserError(
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
            "then fewer --num_workers help"
        )
    if code is not None and code < 0:
        return f"was ended by a signal ({signal.Signals(-code).name})"
    return f"ended unexpectedly, with status {code}"


@contextlib.contextmanager
def leave_when_told() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, with status 143."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals belong to the main thread.
        return
    global _told
    before = {
        number: signal.signal(number, _note)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        _told = None
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _note(number: int, _: types.FrameType | None) -> None:
    global _told
    _told = number
    if _may_leave:
        _leave_if_told()


def _leave_if_told() -> None:
    if _told == signal.SIGINT:
        raise KeyboardInterrupt
    if _told is not None:
        print("terminated", file=sys.stderr, flush=True)
        raise SystemExit(128 + _told)


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
    global _may_leave
    _may_leave = False
    script = sys.modules["__main__"]
    if function.__module__ != "__main__":
        sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        return pool.submit(function, item)
    finally:
        sys.modules["__main__"] = script
        _may_leave = True
        _leave_if_told()
