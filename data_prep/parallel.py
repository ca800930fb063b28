"""The same function on many things, in several processes, results in order."""

import collections
import concurrent.futures
import concurrent.futures.process
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from albert_tf import errors

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# Items on their way for each process: enough to keep it busy.
_IN_FLIGHT = 3

_context: Any = None


def context() -> Any:
    """Return what `workers` was given; for use inside the functions."""
    return _context


def _set_context(value: Any) -> None:
    global _context
    _context = value


def count(num_workers: int) -> int:
    """Return how many processes `--num_workers` means; 0 is one per core."""
    return num_workers or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def workers(num_workers: int, shared: Any) -> Iterator[Map]:
    """Open a map over processes; with one worker, this process does the work.

    The map takes a module's function and items, and yields results in the
    order of the items. Only a few items are on their way at a time, so neither
    items nor results pile up in memory.

    Args:
        num_workers: Processes.
        shared: What every call may ask for with `context`.

    Raises:
        errors.UserError: A worker was killed.
    """
    _set_context(shared)
    try:
        if num_workers == 1:
            yield map
            return
        pool = concurrent.futures.ProcessPoolExecutor(
            num_workers, _start_method(), _set_context, (shared,)
        )
        with pool:
            yield lambda function, items: _in_order(
                pool, num_workers * _IN_FLIGHT, function, items
            )
    except concurrent.futures.process.BrokenProcessPool:
        raise errors.UserError(
            "A worker process was killed, most likely because memory ran out. "
            "Finished work is kept: start the same command again, with fewer "
            "--num_workers."
        ) from None
    finally:
        _set_context(None)


def _start_method() -> Any:
    """Fork, which costs nothing, unless TensorFlow's threads forbid it."""
    method = "spawn" if "tensorflow" in sys.modules else "fork"
    return multiprocessing.get_context(method)


def _in_order(
    pool: concurrent.futures.Executor,
    limit: int,
    function: Callable[[ItemT], ResultT],
    items: Iterable[ItemT],
) -> Iterator[ResultT]:
    waiting: collections.deque[concurrent.futures.Future[ResultT]] = (
        collections.deque()
    )
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= limit:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
