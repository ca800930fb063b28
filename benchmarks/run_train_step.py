"""Run an exported pretraining step with jax, on a CPU, GPU or TPU.

    python benchmarks/run_train_step.py --program=step

It imports numpy and jax only: the program is what albert_tf.export_train_step
has written, and the device is the first one that jax finds. Without --batches
every step gets the same random batch, which is what a measurement needs; with
them the program trains, and --output keeps what it has learned.

Every line that is printed is a JSON object: the numbers of a step, and last
what was measured. Model FLOPs are those of the forward matrix products, times
three; they are compared with the rate of a product of two square bfloat16
matrices on the same device, in the same process. The first steps are not timed.
"""

import argparse
import glob
import itertools
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.extend import backend

WARM_UP_STEPS = 2
DEFAULT_STEPS = 20  # Of a measurement.
PEAK_PRODUCTS = 10  # In a row.
PEAK_ROUNDS = 5
# Large enough to keep the device busy.
PEAK_SIZES = {"cpu": 2048}
PEAK_SIZE = 8192

Arrays = dict[str, np.ndarray]


class Step:
    """A compiled program with the variables that it keeps on the device."""

    def __init__(
        self,
        folder: pathlib.Path,
        description: Mapping[str, Any],
        device: jax.Device,
        variables: Arrays,
    ):
        """Compile the program and put the variables on the device.

        Args:
            folder: Where the program is.
            description: What the JSON file says about it.
            device: What it runs on.
            variables: By name; may hold some that no update reads.
        """
        self.device = device
        self._arguments = [e["name"] for e in description["arguments"]]
        self._results = [e["name"] for e in description["results"]]
        self._rows = description["results"][0]["rows"]
        began = time.perf_counter()
        self._compiled = backend.get_backend().compile_and_load(
            (folder / pathlib.Path(description["program"]).name).read_text(),
            [device],
            backend.get_compile_options(num_replicas=1, num_partitions=1),
        )
        self.compile_seconds = time.perf_counter() - began
        self._variables = place(variables, device)

    def __call__(self, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Start an update; the numbers can be waited for.

        The program gives the memory of old variables to new ones.
        """
        known = {**self._variables, **batch}
        executed = self._compiled.execute_sharded(
            [known[name] for name in self._arguments]
        )
        values = [
            shards[0]
            for shards in executed.disassemble_into_single_device_arrays()
        ]
        results = dict(zip(self._results, values, strict=True))
        numbers = results.pop("numbers")
        self._variables.update(results)
        return numbers

    def read(self) -> Arrays:
        """Copy the variables from the device."""
        return {n: np.asarray(value) for n, value in self._variables.items()}

    def name_numbers(self, numbers: jax.Array) -> dict[str, float]:
        """Return the quotients of an update, float32 [names, 2], by name.

        Of a skipped update only `skipped` has one.
        """
        return {
            name: float(numerator) / float(denominator)
            for name, (numerator, denominator) in zip(
                self._rows, np.asarray(numbers), strict=True
            )
            if denominator
        }

    @property
    def memory_mib(self) -> float:
        """What the program needs on the device: variables, batch, the rest."""
        memory = self._compiled.get_compiled_memory_stats()
        return (
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes
            + memory.temp_size_in_bytes
        ) / 2**20


def place(arrays: Arrays, device: jax.Device) -> dict[str, jax.Array]:
    """Put arrays on a device."""
    return {n: jax.device_put(value, device) for n, value in arrays.items()}


def check(
    description: Mapping[str, Any], role: str, arrays: Arrays, path: str
) -> None:
    """Refuse arrays that the program does not take.

    Args:
        description: What the JSON file says about the program.
        role: `batch` or `variable`.
        arrays: By name.
        path: Where they come from.

    Raises:
        SystemExit: One is missing, or has another shape, type or range.
    """
    entries = [e for e in description["arguments"] if e["role"] == role]
    missing = {entry["name"] for entry in entries} - arrays.keys()
    if missing:
        raise SystemExit(
            f"{path} does not belong to the program, which takes "
            f"{min(missing)} too."
        )
    for entry in entries:
        array, name = arrays[entry["name"]], entry["name"]
        if list(array.shape) != entry["shape"] or array.dtype != entry["dtype"]:
            raise SystemExit(
                f"{path}: {name} is {array.dtype} {list(array.shape)}; the "
                f"program takes {entry['dtype']} {entry['shape']}."
            )
        low, high = entry.get("low"), entry.get("high")
        if low is not None and not ((array >= low) & (array <= high)).all():
            raise SystemExit(
                f"{path}: {name} holds numbers outside {low} to {high}."
            )


def load_npz(path: str) -> Arrays:
    """Read an npz file."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def make_batch(description: Mapping[str, Any]) -> Arrays:
    """Return a random batch without padding."""
    random = np.random.default_rng(0)
    batch = {}
    for entry in description["arguments"]:
        if entry["role"] != "batch":
            continue
        # Masks and weights are 0 or 1, and so are the labels of sentences.
        is_mask = entry["high"] == 1 and "labels" not in entry["name"]
        low = 1 if is_mask else entry["low"]
        values = random.integers(low, entry["high"] + 1, entry["shape"])
        batch[entry["name"]] = values.astype(entry["dtype"])
    return batch


def find_batches(patterns: str) -> list[str]:
    """Return the npz files of a folder, or of patterns with commas.

    Raises:
        SystemExit: There are none.
    """
    found: list[str] = []
    for pattern in patterns.split(","):
        inside = os.path.join(glob.escape(pattern), "*.npz")
        wanted = inside if os.path.isdir(pattern) else pattern
        matches = sorted(glob.glob(wanted))
        if not matches:
            raise SystemExit(f"--batches={pattern}: there is no npz file.")
        found += matches
    return found


def feed(
    description: Mapping[str, Any], device: jax.Device, batches: str | None
) -> Iterator[dict[str, jax.Array]]:
    """Yield batches without end: those of files again and again, or one.

    Raises:
        SystemExit: A file holds something that the program does not take.
    """
    if batches is None:
        batch = place(make_batch(description), device)
        while True:
            yield batch
    names = {
        e["name"] for e in description["arguments"] if e["role"] == "batch"
    }
    paths = find_batches(batches)
    while True:
        for path in paths:
            arrays = load_npz(path)
            check(description, "batch", arrays, path)
            yield place({name: arrays[name] for name in names}, device)


def measure_matrix_rate(device: jax.Device, size: int) -> float:
    """Return FLOP/s of bfloat16 products of two square matrices."""
    random = np.random.default_rng(0)
    # Of this deviation values keep their size from product to product.
    values = random.normal(size=(size, size), scale=size**-0.5)
    matrix = jax.device_put(values.astype(jax.numpy.bfloat16), device)

    def chain(x: jax.Array) -> jax.Array:
        product = x
        for _ in range(PEAK_PRODUCTS):
            product = product @ x
        return product

    compiled = jax.jit(chain)
    seconds = [
        time_call(lambda: compiled(matrix)) for _ in range(1 + PEAK_ROUNDS)
    ]
    # The first one compiles.
    return PEAK_PRODUCTS * 2 * size**3 / statistics.median(seconds[1:])


def time_call(call: Callable[[], jax.Array]) -> float:
    """Return the seconds until the result of a call is there."""
    began = time.perf_counter()
    call().block_until_ready()
    return time.perf_counter() - began


def train(
    step: Step,
    batches: Iterator[dict[str, jax.Array]],
    steps: int,
    log_steps: int,
) -> float:
    """Do updates and print the numbers of some; return seconds of an update.

    Args:
        step: The program with its variables.
        batches: At least as many as steps.
        steps: Updates to do.
        log_steps: Updates between two that are waited for and printed.
    """
    began, timed = time.perf_counter(), 0
    for number in range(1, steps + 1):
        numbers = step(next(batches))
        if number % log_steps == 0 or number == steps:
            values = {"step": number, **step.name_numbers(numbers)}
            print(json.dumps(values), flush=True)
        if number == min(WARM_UP_STEPS, steps - 1):
            numbers.block_until_ready()
            began, timed = time.perf_counter(), number
    numbers.block_until_ready()
    return (time.perf_counter() - began) / (steps - timed)


def report(
    step: Step, description: Mapping[str, Any], seconds: float, peak_size: int
) -> dict[str, Any]:
    """Return what was measured."""
    flops = description["model_flops"] / seconds
    settings = description["options"]
    measured = {
        "device": step.device.device_kind,
        "platform": step.device.platform,
        "jax": jax.__version__,
        "precision": settings["precision"],
        "recompute": settings["recompute"],
        "batch": description["sequences"],
        "length": settings["max_seq_length"],
        "compile_seconds": step.compile_seconds,
        "memory_mib": step.memory_mib,
        "seconds_per_step": seconds,
        "steps_per_second": 1 / seconds,
        "sequences_per_second": description["sequences"] / seconds,
        "tokens_per_second": description["tokens"] / seconds,
        "model_gigaflops_per_second": flops / 1e9,
    }
    if not peak_size:
        return measured
    rate = measure_matrix_rate(step.device, peak_size)
    return {
        **measured,
        "matrix_size": peak_size,
        "matrix_gigaflops_per_second": rate / 1e9,
        "share_of_matrix_rate": flops / rate,
    }


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--program",
        required=True,
        help="Folder that albert_tf.export_train_step has written.",
    )
    add(
        "--batches",
        help="Folder of npz files, or patterns with commas: a batch each, in "
        "the order of their names, again and again. Default: a random batch.",
    )
    add(
        "--variables",
        help="npz file to start from. Default: that of the program; or the "
        "--output of an earlier run.",
    )
    add("--output", help="npz file to write all variables to at the end.")
    add(
        "--steps",
        type=int,
        help="Updates. Default: as many as there are --batches, else "
        f"{DEFAULT_STEPS}.",
    )
    add(
        "--log_steps",
        type=int,
        default=10,
        help="Updates from one printed line to the next. Default: %(default)s",
    )
    add(
        "--matrix_size",
        type=int,
        help="Rows of the matrices whose product is the device's rate; 0 does "
        f"not measure it. Default: {PEAK_SIZES['cpu']} on a CPU, else "
        f"{PEAK_SIZE}.",
    )
    return parser


def main() -> None:
    """Run the program and print what was measured."""
    parser = make_parser()
    settings = parser.parse_args()
    steps = settings.steps
    if steps is None:
        found = find_batches(settings.batches) if settings.batches else []
        steps = len(found) or DEFAULT_STEPS
    if steps < 1 or settings.log_steps < 1:
        parser.error("--steps and --log_steps are whole numbers from 1.")
    # The counter of steps has 64 bits.
    jax.config.update("jax_enable_x64", True)
    folder = pathlib.Path(settings.program)
    description = json.loads((folder / "train_step.json").read_text())
    device = backend.get_backend().local_devices()[0]
    # What a description names lies beside it, and nowhere else.
    name = pathlib.Path(description["variables"]).name
    path = settings.variables or str(folder / name)
    variables = load_npz(path)
    check(description, "variable", variables, path)
    batches = feed(description, device, settings.batches)
    first = next(batches)  # What it refuses, it refuses before compiling.
    step = Step(folder, description, device, variables)
    seconds = train(
        step, itertools.chain([first], batches), steps, settings.log_steps
    )
    if settings.output:
        with open(settings.output, "wb") as stream:
            np.savez(stream, **step.read())
    size = settings.matrix_size
    if size is None:
        size = PEAK_SIZES.get(step.device.platform, PEAK_SIZE)
    print(json.dumps(report(step, description, seconds, size)))


if __name__ == "__main__":
    main()
