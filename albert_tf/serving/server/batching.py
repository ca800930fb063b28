"""Compute requests that arrive together in one call."""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from albert_tf.serving.client import ask


class QueueFullError(Exception):
    """Too many rows wait already."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Rows that are computed or wait, and how long one waits for others."""

    batch_size: int
    max_waiting: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Request:
    inputs: ask.Arrays
    rows: int
    shape: Any  # Of a row; only equal ones can be joined.
    arrival: float
    answer: asyncio.Future[ask.Arrays]


class Batcher:
    """Joins the requests to one signature; it belongs to one event loop.

    A batch waits until it is full, or its first request has waited for
    `Limits.seconds`. One batch is computed at a time.
    """

    def __init__(
        self, compute: Callable[[ask.Arrays], ask.Arrays], limits: Limits
    ) -> None:
        self._compute, self._limits = compute, limits
        # It is given the rows of each batch.
        self.observe: Callable[[float], object] = lambda rows: None
        self._queue: collections.deque[_Request] = collections.deque()
        self._is_full = asyncio.Event()
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Rows that wait for the next batches."""
        return sum(request.rows for request in self._queue)

    async def submit(self, inputs: ask.Arrays) -> ask.Arrays:
        """Return the outputs for some rows, as if they were alone.

        Raises:
            QueueFullError: `Limits.max_waiting` rows wait.
        """
        rows = len(next(iter(inputs.values())))
        if self.waiting + rows > self._limits.max_waiting:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        shape = {name: array.shape[1:] for name, array in inputs.items()}
        answer: asyncio.Future[ask.Arrays] = loop.create_future()
        self._queue.append(_Request(inputs, rows, shape, loop.time(), answer))
        if self.waiting >= self._limits.batch_size:
            self._is_full.set()
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._empty_the_queue())
        return await answer

    async def _empty_the_queue(self) -> None:
        while self._queue:
            end = self._queue[0].arrival + self._limits.seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._is_full.wait()
            batch = self._take()
            if self.waiting < self._limits.batch_size:
                self._is_full.clear()
            self.observe(sum(request.rows for request in batch))
            await self._answer(batch)

    def _take(self) -> list[_Request]:
        """Remove the first requests, as many as can be joined."""
        batch: list[_Request] = []
        others: collections.deque[_Request] = collections.deque()
        free = self._limits.batch_size
        for request in self._queue:
            if request.shape == self._queue[0].shape and request.rows <= free:
                batch.append(request)
                free -= request.rows
            else:
                others.append(request)
        self._queue = others
        return batch

    async def _answer(self, batch: Sequence[_Request]) -> None:
        """Compute a batch; if that fails, each of its requests alone."""
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(
                self._thread, self._outputs, batch
            )
        except Exception as error:
            if len(batch) == 1:
                if not batch[0].answer.done():
                    batch[0].answer.set_exception(error)
                return
            for request in batch:
                await self._answer([request])
            return
        for request, answer in zip(batch, answers, strict=True):
            if not request.answer.done():
                request.answer.set_result(answer)

    def _outputs(self, batch: Sequence[_Request]) -> list[ask.Arrays]:
        inputs = {
            name: np.concatenate([request.inputs[name] for request in batch])
            for name in batch[0].inputs
        }
        outputs = self._compute(inputs)
        if len(batch) == 1:
            return [outputs]
        return ask.split(outputs, [request.rows for request in batch])
