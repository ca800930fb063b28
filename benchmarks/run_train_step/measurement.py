"""What a run shows of the speed of a device."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import program

PRODUCTS = 10  # In one chain.
ROUNDS = 5
# Rows of the matrices, by platform and for all others: enough to keep the
# device busy.
MATRIX_SIZES = {"cpu": 2048}
MATRIX_SIZE = 8192


def report(
    update: program.Program,
    description: Mapping[str, Any],
    devices: Sequence[jax.Device],
    seconds: float,
    matrix_size: int | None,
) -> dict[str, Any]:
    """Return what was measured.

    Args:
        update: What was run.
        description: What the JSON file says about it.
        devices: What it was run on.
        seconds: Of an update.
        matrix_size: Rows of the matrices whose product is the rate of the
            device; 0 does not measure it, None chooses.
    """
    flops = description["model_flops"] / seconds
    measured = {
        "platform": devices[0].platform,
        **program.describe(description, devices),
        "compile_seconds": update.compile_seconds,
        "memory_mib": update.memory_mib,
        "seconds_per_step": seconds,
        "steps_per_second": 1 / seconds,
        "sequences_per_second": description["sequences"] / seconds,
        "tokens_per_second": description["tokens"] / seconds,
        "model_gigaflops_per_second": flops / 1e9,
    }
    if matrix_size is None:
        matrix_size = MATRIX_SIZES.get(devices[0].platform, MATRIX_SIZE)
    if not matrix_size:
        return measured
    rate = len(devices) * measure_matrix_rate(devices[0], matrix_size)
    return {
        **measured,
        "matrix_size": matrix_size,
        "matrix_gigaflops_per_second": rate / 1e9,
        "share_of_matrix_rate": flops / rate,
    }


def measure_matrix_rate(device: jax.Device, size: int) -> float:
    """Return FLOP/s of bfloat16 products of `size` x `size` matrices."""
    random = np.random.default_rng(0)
    # With this deviation the scale of the values stays the same.
    values = random.normal(size=(size, size), scale=size**-0.5)
    matrix = jax.device_put(values.astype(jax.numpy.bfloat16), device)

    def chain(x: jax.Array) -> jax.Array:
        product = x
        for _ in range(PRODUCTS):
            product = product @ x
        return product

    compiled = jax.jit(chain)
    seconds = [time_call(lambda: compiled(matrix)) for _ in range(1 + ROUNDS)]
    # The first one compiles.
    return PRODUCTS * 2 * size**3 / statistics.median(seconds[1:])


def time_call(call: Callable[[], jax.Array]) -> float:
    """Return the seconds until the result of a call is ready."""
    began = time.perf_counter()
    call().block_until_ready()
    return time.perf_counter() - began
