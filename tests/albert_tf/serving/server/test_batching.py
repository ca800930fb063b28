"""Requests that wait while others are computed, without HTTP."""

import asyncio
import threading

import numpy as np
import pytest

from albert_tf.serving.server import batching


class Counting:
    """Doubles numbers and texts; remembers its batches. The first one waits."""

    def __init__(self):
        self.batches = []
        self.begun, self.may_go = threading.Event(), threading.Event()

    def __call__(self, inputs):
        self.begun.set()
        assert self.may_go.wait(60)
        self.batches.append(inputs["x"].tolist())
        if inputs["x"].dtype != object and (inputs["x"] < 0).any():
            raise ValueError("below 0")
        return {"y": inputs["x"] * 2}


@pytest.fixture
def counting():
    return Counting()


def batcher(compute, batch_size=4, max_waiting=8, seconds=0.0):
    limits = batching.Limits(batch_size, max_waiting, seconds)
    return batching.Batcher(compute, limits)


def of(*numbers):
    return {"x": np.array(numbers)}


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def while_one_is_computed(one, counting, *requests):
    """Submit requests while a first one is computed; return their tasks."""
    first = asyncio.create_task(one.submit(of(0)))
    await asyncio.to_thread(counting.begun.wait)
    tasks = [asyncio.create_task(one.submit(request)) for request in requests]
    await asyncio.sleep(0)
    assert not first.done()
    return tasks


def gather(one, counting, *requests):
    """Return rows or errors, and the batches that they were computed in."""

    async def submit():
        tasks = await while_one_is_computed(one, counting, *requests)
        counting.may_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = run(submit())
    assert counting.batches[0] == [0]
    rows = [
        x if isinstance(x, Exception) else [row["y"].tolist()[0] for row in x]
        for x in found
    ]
    return rows, counting.batches[1:]


@pytest.mark.parametrize(
    ("requests", "batches"),
    [
        ([[1], [2, 3], [4]], [[1, 2, 4, 3]]),
        ([[1, 2], [3, 4], [5, 6]], [[1, 3, 5, 2], [4, 6]]),
        # A large one is divided, and small ones pass it.
        ([[1, 2, 3, 4, 5, 6], [7], [8]], [[1, 7, 8, 2], [3, 4, 5, 6]]),
        # Rows of one shape and the nearest lengths, within two batches.
        ([[1], [[2, 3]], [4]], [[1, 4], [[2, 3]]]),
        (
            [["a"], ["b" * 9], ["c"], ["d" * 8], ["e"], ["f" * 9], ["g"]],
            [["a", "c", "e", "g"], ["b" * 9, "f" * 9, "d" * 8]],
        ),
        (
            [["a"], *[["bb"]] * 7, ["c"]],
            [["a", "bb", "bb", "bb"], ["bb"] * 4, ["c"]],
        ),
    ],
)
def test_waiting_rows_are_joined(counting, requests, batches):
    arrays = [
        {"x": np.array(x, "O" if isinstance(x[0], str) else None)}
        for x in requests
    ]
    one = batcher(counting, max_waiting=9)
    found, computed = gather(one, counting, *arrays)
    assert found == [(array["x"] * 2).tolist() for array in arrays]
    assert computed == batches


def test_sizes_of_batches_are_observed(counting):
    one, sizes = batcher(counting, batch_size=2), []
    one.observe = sizes.append
    gather(one, counting, of(1), of(2, 3))
    assert sizes == [1, 2, 1]


def test_an_option_has_a_request_wait_for_a_full_batch(counting):
    counting.may_go.set()
    one = batcher(counting, batch_size=2, seconds=1000.0)

    async def submit():
        first = asyncio.create_task(one.submit(of(1)))
        assert not await asyncio.to_thread(counting.begun.wait, 0.05)
        await asyncio.gather(first, one.submit(of(2, 3, 4)))

    run(submit())
    assert counting.batches == [[1, 2], [3, 4]]


def test_nobody_is_starved():
    """With each batch come as many rows as are computed, for 40 batches."""
    sizes, waited, many, tasks = [], [], [], []

    async def submit():
        loop = asyncio.get_running_loop()

        def arrive(now, arrived):
            rows = [of(now)] * 4 + [of(*[-now] * 12)] * (now == 1)
            tasks.extend(loop.create_task(one.submit(row)) for row in rows)
            loop.call_soon(arrived.set)

        def compute(inputs):
            sizes.append(len(inputs["x"]))
            if len(sizes) <= 40:
                arrived = threading.Event()
                loop.call_soon_threadsafe(arrive, len(sizes), arrived)
                assert arrived.wait(60)
            for number in inputs["x"].tolist():
                batches = len(sizes) - abs(number)
                (many if number < 0 else waited).append(batches)
            return {"y": inputs["x"]}

        one = batcher(compute, max_waiting=1000)
        await one.submit(of(0))
        while not all(task.done() for task in tasks):
            await asyncio.gather(*tasks)

    run(submit())
    assert len(many) == 12 and max(many) <= 15
    assert len(waited) == 161 and max(waited) <= 4
    assert sizes == [1, *[4] * 43]


def test_an_error_is_of_one_request_only(counting):
    (first, error, last), computed = gather(
        batcher(counting), counting, of(1), of(-1), of(2)
    )
    assert (first, last) == ([2], [4])
    assert isinstance(error, ValueError)
    assert computed == [[1, -1, 2], [1], [-1, 2], [-1], [2]]


def test_rows_of_a_request_that_fails_are_not_tried_alone(counting):
    found, computed = gather(batcher(counting), counting, of(*[-1] * 6), of(3))
    assert isinstance(found[0], ValueError) and found[1] == [6]
    assert computed[:5] == [[-1, 3, -1, -1], [-1, 3], [-1], [3], [-1, -1]]
    # The next batch may begin before the error is told.
    assert computed[5:] in ([], [[-1, -1, -1]])


def test_outputs_that_are_no_rows_are_an_error():
    one = batcher(lambda inputs: {"y": inputs["x"].sum()})
    with pytest.raises(ValueError, match="y has no row for each"):
        run(one.submit(of(1)))


@pytest.mark.parametrize(
    "requests",
    [
        [[3], [4], [5]],
        # Taken whole, as long as there is room for a row.
        [[3, 4], [5, 6, 7]],
    ],
)
def test_where_many_rows_wait_more_are_refused(counting, requests):
    one = batcher(counting, batch_size=2, max_waiting=3)

    async def submit():
        tasks = await while_one_is_computed(
            one, counting, *(of(*numbers) for numbers in requests)
        )
        with pytest.raises(batching.QueueFullError):
            await one.submit(of(6))
        counting.may_go.set()
        answers = await asyncio.gather(*tasks)
        return [[row["y"].item() // 2 for row in rows] for rows in answers]

    assert run(submit()) == requests


def test_a_request_that_is_given_up_is_not_computed(counting):
    one = batcher(counting)

    async def submit():
        tasks = await while_one_is_computed(one, counting, of(1, 2), of(3))
        tasks[0].cancel()
        await asyncio.sleep(0)
        counting.may_go.set()
        ((row),) = await tasks[1]
        return row["y"].item()

    assert run(submit()) == 6
    assert counting.batches == [[0], [3]]


def test_many_requests_of_all_sizes(counting):
    generator = np.random.default_rng(5)
    requests = [
        of(*generator.integers(0, 100, generator.integers(1, 9)))
        for _ in range(200)
    ]
    one = batcher(counting, max_waiting=2000)
    found, batches = gather(one, counting, *requests)
    assert found == [(2 * request["x"]).tolist() for request in requests]
    assert max(map(len, batches)) == 4
