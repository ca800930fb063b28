"""Requests that arrive together, without HTTP."""

import asyncio
import threading

import numpy as np
import pytest

from albert_tf.serving.server import batching


class Counting:
    """Doubles numbers; remembers its batches, and waits if it is told to."""

    def __init__(self):
        self.batches = []
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, inputs):
        assert self.may_go.wait(60)
        self.batches.append(inputs["x"].tolist())
        if (inputs["x"] < 0).any():
            raise ValueError("below 0")
        return {"y": inputs["x"] * 2}


@pytest.fixture
def counting():
    return Counting()


def batcher(compute, batch_size=4, max_waiting=8, seconds=0.05):
    limits = batching.Limits(batch_size, max_waiting, seconds)
    return batching.Batcher(compute, limits)


def of(*numbers):
    return {"x": np.array(numbers)}


def gather(one, *requests):
    """Submit requests at the same time; return answers or errors."""

    async def submit():
        async with asyncio.timeout(60):
            return await asyncio.gather(
                *map(one.submit, requests), return_exceptions=True
            )

    found = asyncio.run(submit())
    return [x if isinstance(x, Exception) else x["y"].tolist() for x in found]


def test_each_gets_its_own_rows_of_a_batch(counting):
    one = batcher(counting)
    assert gather(one, of(1), of(2, 3), of(4)) == [[2], [4, 6], [8]]
    assert counting.batches == [[1, 2, 3, 4]]


def test_a_full_batch_waits_for_nobody(counting):
    one = batcher(counting, seconds=1000.0)
    requests = [of(n, n + 1) for n in (1, 3, 5, 7)]
    found = gather(one, *requests)
    assert found == [[2, 4], [6, 8], [10, 12], [14, 16]]
    assert list(map(len, counting.batches)) == [4, 4]


def test_more_than_a_batch_becomes_several(counting):
    one = batcher(counting, batch_size=2)
    sizes = []
    one.observe = sizes.append
    requests = [of(1), of(2, 3), of(4), of(5)]
    assert gather(one, *requests) == [[2], [4, 6], [8], [10]]
    # A small request passes one that does not fit.
    assert counting.batches == [[1, 4], [2, 3], [5]]
    assert sizes == [2, 2, 1]


def test_rows_of_unlike_shapes_are_not_joined(counting):
    wide = {"x": np.array([[1, 2]])}
    assert gather(batcher(counting), of(1), wide, of(2)) == [[2], [[2, 4]], [4]]
    assert counting.batches == [[1, 2], [[1, 2]]]


def test_an_error_is_of_one_request_only(counting):
    first, error, last = gather(batcher(counting), of(1), of(-1), of(2))
    assert (first, last) == ([2], [4])
    assert isinstance(error, ValueError)
    assert counting.batches == [[1, -1, 2], [1], [-1], [2]]


def test_outputs_that_are_no_rows_are_computed_one_by_one():
    def total(inputs):
        return {"y": inputs["x"].sum()}

    assert gather(batcher(total), of(1, 2), of(3)) == [3, 3]


def test_too_many_rows_are_refused_and_the_others_answered(counting):
    counting.may_go.clear()
    one = batcher(counting, batch_size=2, max_waiting=3, seconds=0.0)

    async def submit():
        first = asyncio.create_task(one.submit(of(1, 2)))
        while one.waiting != 0 or not first:  # Until it is computed.
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(one.submit(of(n))) for n in (3, 4, 5)]
        await asyncio.sleep(0)
        assert one.waiting == 3
        with pytest.raises(batching.QueueFullError):
            await one.submit(of(6))
        counting.may_go.set()
        return [found["y"].tolist() for found in await asyncio.gather(*waiting)]

    assert asyncio.run(submit()) == [[6], [8], [10]]


def test_a_request_that_is_given_up_harms_no_other(counting):
    counting.may_go.clear()
    one = batcher(counting)

    async def submit():
        left, stays = (asyncio.create_task(one.submit(of(n))) for n in (1, 2))
        await asyncio.sleep(0.1)
        left.cancel()
        counting.may_go.set()
        return (await stays)["y"].tolist()

    assert asyncio.run(submit()) == [4]


def test_many_requests_of_all_sizes(counting):
    generator = np.random.default_rng(5)
    requests = [
        of(*generator.integers(0, 100, generator.integers(1, 5)))
        for _ in range(200)
    ]
    one = batcher(counting, max_waiting=1000, seconds=0.001)
    expected = [(2 * request["x"]).tolist() for request in requests]
    assert gather(one, *requests) == expected
    assert max(map(len, counting.batches)) == 4
