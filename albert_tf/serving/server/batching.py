"""Compute requests that wait at the same time in one call."""

import asyncio
import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from albert_tf.serving.client import ask

# A batch is chosen from so many times its size, for rows of like lengths.
_CHOICE = 2


class QueueFullError(Exception):
    """Too many rows wait already."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Rows that are computed or wait, and how long one waits for others.

    A request is taken whole if fewer than `max_waiting` rows wait before it.
    """

    batch_size: int
    max_waiting: int
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class _Row:
    inputs: ask.Arrays  # [1, ...]
    shape: Any  # Only equal ones can be joined.
    length: int  # Of all texts.
    due: int  # The batch whose turn it is.
    arrival: float
    request: ask.Arrays  # With all of its rows.
    answer: asyncio.Future[ask.Arrays]


class Batcher:
    """Joins the requests to one signature; it belongs to one event loop.

    A thread computes what waits, a batch at a time, and ends when nothing does.
    The row that is due first is always in the next batch. A request's first
    rows are due at once, as many as a quarter of a batch, the next ones a batch
    later: so a request of one row passes one of many. After its turn only rows
    nearer in length to the one due first pass a row, until it is that one.
    """

    def __init__(
        self, compute: Callable[[ask.Arrays], ask.Arrays], limits: Limits
    ) -> None:
        self._compute, self._limits = compute, limits
        # It is given the rows of each batch.
        self.observe: Callable[[float], object] = lambda rows: None
        self._queue: list[_Row] = []
        self._batches = 0
        self._is_busy = False
        self._changed = threading.Condition()
        self._thread = concurrent.futures.ThreadPoolExecutor(1)

    @property
    def waiting(self) -> int:
        """Rows that wait for the next batches."""
        return len(self._queue)

    async def submit(self, inputs: ask.Arrays) -> list[ask.Arrays]:
        """Return the outputs for each row, as if it were alone.

        Raises:
            QueueFullError: `Limits.max_waiting` rows wait already.
        """
        count = len(next(iter(inputs.values())))
        if self.waiting >= self._limits.max_waiting:
            raise QueueFullError
        loop, share = asyncio.get_running_loop(), self._limits.batch_size // 4
        rows = []
        for i in range(count):
            row = {name: array[i : i + 1] for name, array in inputs.items()}
            shape = {name: array.shape for name, array in row.items()}
            due = self._batches + i // max(share, 1)
            answer: asyncio.Future[ask.Arrays] = loop.create_future()
            arrival = time.monotonic()
            rows.append(
                _Row(row, shape, _length(row), due, arrival, inputs, answer)
            )
        with self._changed:
            self._queue += rows
            self._changed.notify()
            if not self._is_busy:
                self._is_busy = True
                self._thread.submit(self._empty_the_queue, loop)
        try:
            return await asyncio.gather(*(row.answer for row in rows))
        finally:  # If one has failed, the others are not computed.
            for each in rows:
                each.answer.cancel()

    def _empty_the_queue(self, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._take():
            self.observe(len(batch))
            loop.call_soon_threadsafe(_answer, batch, self._outputs(batch))

    def _take(self) -> list[_Row]:
        """Remove the next batch; if it is empty the thread ends."""
        size = self._limits.batch_size
        with self._changed:
            if self._queue and self._limits.seconds:
                oldest = min(row.arrival for row in self._queue)
                end = oldest + self._limits.seconds
                self._changed.wait_for(
                    lambda: self.waiting >= size, end - time.monotonic()
                )
            rows = [row for row in self._queue if not row.answer.done()]
            rows.sort(key=lambda row: row.due)
            alike = [row for row in rows if row.shape == rows[0].shape]
            batch = sorted(
                alike[: _CHOICE * size],
                key=lambda row: abs(row.length - rows[0].length),
            )[:size]
            taken = set(batch)
            self._queue = [row for row in rows if row not in taken]
            self._batches += 1
            self._is_busy = bool(batch)
        return batch

    def _outputs(self, batch: Sequence[_Row]) -> list[ask.Arrays | Exception]:
        """Compute a batch; if that fails, each half, down to one request."""
        try:
            inputs = {
                name: np.concatenate([row.inputs[name] for row in batch])
                for name in batch[0].inputs
            }
            return [*ask.split(self._compute(inputs), [1] * len(batch))]
        except Exception as error:
            if all(row.request is batch[0].request for row in batch):
                return [error] * len(batch)
            half = len(batch) // 2
            parts = batch[:half], batch[half:]
            return [one for part in parts for one in self._outputs(part)]


def _length(row: ask.Arrays) -> int:
    texts = [array for array in row.values() if array.dtype == object]
    return sum(len(text) for array in texts for text in array.flat)


def _answer(
    batch: Sequence[_Row], answers: Sequence[ask.Arrays | Exception]
) -> None:
    for row, answer in zip(batch, answers, strict=True):
        if row.answer.done():
            continue
        if isinstance(answer, Exception):
            row.answer.set_exception(answer)
        else:
            row.answer.set_result(answer)
