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

With several --devices each of them computes its part of every batch, and all
have the same variables. --compile_for=v5e:2x2 runs nothing and needs no TPU: it
compiles the program for the chips of that topology, and prints what the
compiler says about memory and work, as a JSON object and a row of a table.
"""

import argparse
import dataclasses
import glob
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import pathlib
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

try:
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.extend import backend
    from jax.interpreters import mlir
    from jaxlib import xla_client
except ModuleNotFoundError as error:
    raise SystemExit(
        f"{error}. Install what requirements-jax.txt names, see "
        "docs/train_step.md."
    ) from None

WARM_UP_STEPS = 2
DEFAULT_STEPS = 20  # Of a measurement.
PEAK_PRODUCTS = 10  # In one chain.
PEAK_ROUNDS = 5
# Large enough to keep the device busy.
PEAK_SIZES = {"cpu": 2048}
PEAK_SIZE = 8192
# Exit status after SIGTERM, as that of run_pretraining.
PREEMPTED = 42
# Published bfloat16 FLOP/s and bytes/s of the memory of a chip.
# Source: cloud.google.com/tpu/docs/v5e, v5p and v6e (2026-11-22).
CHIP_RATES = {
    "TPU v5 lite": (197e12, 819e9),
    "TPU v5": (459e12, 2765e9),
    "TPU v6 lite": (918e12, 1638e9),
}
# Bytes of a number in a compiled program; others have 4.
WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "s16": 2, "u16": 2}
# A line of a compiled program: name, type, operation, the rest.
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
# Instructions of a compiled program that move nothing, or finish what another
# has started.
IDLE = re.compile(
    r"parameter|constant|tuple|get-tuple-element|bitcast|after-all|.*-done"
)

# Attributes of a function, and what the description calls what they are about.
SIDES = {"arg_attrs": "arguments", "res_attrs": "results"}

Arrays = dict[str, np.ndarray]


class Step:
    """A compiled program with the variables that it keeps on the device."""

    def __init__(
        self,
        folder: pathlib.Path,
        description: Mapping[str, Any],
        devices: Sequence[jax.Device],
        variables: Arrays,
    ):
        """Compile the program and put the variables on the devices.

        Args:
            folder: Where the program is.
            description: What the JSON file says about it.
            devices: What it runs on.
            variables: By name; may hold some that no update reads.
        """
        self.devices = devices
        self._arguments = [e["name"] for e in description["arguments"]]
        self._results = description["results"]
        self._rows = description["results"][0]["rows"]
        began = time.perf_counter()
        self._compiled = backend.get_backend().compile_and_load(
            read_program(folder, description, len(devices)),
            xla_client.DeviceList(tuple(devices)),
            compile_options(devices),
        )
        self.compile_seconds = time.perf_counter() - began
        self._variables = place(variables, devices, "variable")

    def __call__(self, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Start an update; its numbers are available later.

        The program gives the memory of old variables to new ones.
        """
        known = {**self._variables, **batch}
        executed = self._compiled.execute_sharded(
            [known[name] for name in self._arguments]
        )
        shards = executed.disassemble_into_single_device_arrays()
        results = {
            entry["name"]: jax.make_array_from_single_device_arrays(
                tuple(entry["shape"]),
                placement(self.devices, "variable"),
                parts,
            )
            for entry, parts in zip(self._results, shards, strict=True)
        }
        numbers = results.pop("numbers")
        self._variables.update(results)
        return numbers

    def read(self) -> Arrays:
        """Copy the variables from the device."""
        return {n: np.asarray(value) for n, value in self._variables.items()}

    def name_numbers(self, numbers: jax.Array) -> dict[str, float]:
        """Return the metrics of an update, float32 [names, 2], by name.

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
        """Memory of the program on the device: variables, batch, the rest."""
        memory = self._compiled.get_compiled_memory_stats()
        return (
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes
            + memory.temp_size_in_bytes
        ) / 2**20


def placement(
    devices: Sequence[jax.Device], role: str
) -> jax.sharding.NamedSharding:
    """Return where an array is: a batch is divided, a variable on each."""
    mesh = jax.sharding.Mesh(np.array(devices), ("batch",))
    spec = ("batch",) if role == "batch" else ()
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def place(
    arrays: Arrays, devices: Sequence[jax.Device], role: str
) -> dict[str, jax.Array]:
    """Put batches or variables on the devices."""
    return jax.device_put(arrays, placement(devices, role))


def read_program(
    folder: pathlib.Path, description: Mapping[str, Any], devices: int
) -> mlir.ir.Module:
    """Read a program, and divide its batch if there are several devices.

    XLA's partitioner finds from the annotations of arguments and results how to
    divide the rest, and where the devices must add up their parts.
    """
    text = (folder / pathlib.Path(description["program"]).name).read_text()
    module = mlir.ir.Module.parse(text, mlir.make_ir_context())
    if devices == 1:
        return module
    with module.context:
        main = next(
            operation
            for operation in module.body.operations
            if operation.attributes["sym_name"].value == "main"
        )
        for attribute, side in SIDES.items():
            main.attributes[attribute] = mlir.ir.ArrayAttr.get(
                [annotation(entry) for entry in description[side]]
            )
        mesh = mlir.ir.Operation.parse(
            f'sdy.mesh @mesh = <["batch"={devices}]>'
        )
        mlir.ir.InsertionPoint.at_block_begin(module.body).insert(mesh)
    return module


def annotation(entry: Mapping[str, Any]) -> mlir.ir.DictAttr:
    """Return how an argument or result is divided, as `placement` does."""
    first = '"batch"' if entry["role"] == "batch" else ""
    axes = [first, *[""] * len(entry["shape"])][: len(entry["shape"])]
    divided = ", ".join("{" + axis + "}" for axis in axes)
    text = f"#sdy.sharding<@mesh, [{divided}]>"
    return mlir.ir.DictAttr.get({"sdy.sharding": mlir.ir.Attribute.parse(text)})


def compile_options(devices: Sequence[jax.Device]) -> xla_client.CompileOptions:
    """Return options for one program that all devices execute together."""
    return backend.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array([[device.id for device in devices]]),
    )


def check(
    description: Mapping[str, Any], role: str, arrays: Arrays, path: str
) -> None:
    """Refuse arrays that do not match the program.

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
    description: Mapping[str, Any],
    devices: Sequence[jax.Device],
    batches: str | None,
    first: int = 0,
) -> Iterator[dict[str, jax.Array]]:
    """Yield batches endlessly: those of the files repeatedly, or one.

    Args:
        description: What the JSON file says about the program.
        devices: Where to put them.
        batches: Folder or patterns; None for a random batch.
        first: Batches to leave out at the start.

    Raises:
        SystemExit: A file holds something that the program does not take.
    """
    if batches is None:
        batch = place(make_batch(description), devices, "batch")
        while True:
            yield batch
    names = {
        e["name"] for e in description["arguments"] if e["role"] == "batch"
    }
    paths = itertools.cycle(find_batches(batches))
    for path in itertools.islice(paths, first, None):
        arrays = load_npz(path)
        check(description, "batch", arrays, path)
        batch = {name: arrays[name] for name in names}
        yield place(batch, devices, "batch")


def measure_matrix_rate(device: jax.Device, size: int) -> float:
    """Return FLOP/s of bfloat16 products of two square matrices."""
    random = np.random.default_rng(0)
    # With this deviation the scale of the values stays the same.
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
    """Return the seconds until the result of a call is ready."""
    began = time.perf_counter()
    call().block_until_ready()
    return time.perf_counter() - began


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which updates to do.

    Attributes:
        first: Updates that an earlier run has done.
        steps: Number of the last update.
        log_steps: Updates between two that are waited for and printed.
        save_steps: Updates between two times that variables are written.
        output: npz file to write variables to, if any.
    """

    first: int
    steps: int
    log_steps: int
    save_steps: int | None
    output: str | None


def train(
    step: Step, batches: Iterator[dict[str, jax.Array]], plan: Plan
) -> float:
    """Run updates, print some of their metrics; return seconds per update.

    At SIGTERM variables are written after the current update, and the process
    ends with 42, if the plan has `save_steps`.
    """
    stopping: list[int] = []
    if plan.save_steps:
        signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    began, timed = time.perf_counter(), plan.first
    for number in range(plan.first + 1, plan.steps + 1):
        numbers = step(next(batches))
        if number % plan.log_steps == 0 or number == plan.steps:
            values = {"step": number, **step.name_numbers(numbers)}
            print(json.dumps(values), flush=True)
        due = plan.save_steps and number % plan.save_steps == 0
        if plan.output and (due or stopping or number == plan.steps):
            save(plan.output, step.read())
        if stopping:
            raise SystemExit(PREEMPTED)
        if number == min(plan.first + WARM_UP_STEPS, plan.steps - 1):
            numbers.block_until_ready()
            began, timed = time.perf_counter(), number
    numbers.block_until_ready()
    return (time.perf_counter() - began) / (plan.steps - timed)


def save(path: str, arrays: Arrays) -> None:
    """Write an npz file; an old one stays until the new one is complete."""
    with open(f"{path}.tmp", "wb") as stream:
        np.savez(stream, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(f"{path}.tmp", path)


def report(
    step: Step, description: Mapping[str, Any], seconds: float, peak_size: int
) -> dict[str, Any]:
    """Return what was measured."""
    flops = description["model_flops"] / seconds
    measured = {
        "platform": step.devices[0].platform,
        **describe(description, step.devices),
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
    rate = len(step.devices) * measure_matrix_rate(step.devices[0], peak_size)
    return {
        **measured,
        "matrix_size": peak_size,
        "matrix_gigaflops_per_second": rate / 1e9,
        "share_of_matrix_rate": flops / rate,
    }


def describe(
    description: Mapping[str, Any], devices: Sequence[jax.Device]
) -> dict[str, Any]:
    """Return what was run or compiled, and for what."""
    settings = description["options"]
    return {
        "device": devices[0].device_kind,
        "devices": len(devices),
        "jax": jax.__version__,
        "layers": description["config"]["num_hidden_layers"],
        "hidden": description["config"]["hidden_size"],
        "precision": settings["precision"],
        "optimizer": settings["optimizer"],
        "recompute": settings["recompute"],
        "batch": description["sequences"],
        "length": settings["max_seq_length"],
    }


def find_topology(name: str) -> list[jax.Device]:
    """Return the devices of a topology, such as v5e:2x2, without having them.

    Raises:
        SystemExit: The compiler for TPUs is missing, or does not know the name.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise SystemExit(
            "--compile_for needs the compiler for TPUs, which is not installed."
            " Install libtpu in the version that requirements-jax.txt names."
        )
    # Nothing is asked of a metadata server, and other processes may compile.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    # A host has 2 x 2 chips, or one.
    single = re.fullmatch(r"\w+:1(x1)*", name)
    bounds = {"chips_per_host_bounds": [1, 1, 1]} if single else {}
    try:
        return topologies.get_topology_desc(
            name, platform="tpu", **bounds
        ).devices
    except jax.errors.JaxRuntimeError as error:
        raise SystemExit(
            f"--compile_for={name} is no topology that the compiler knows: "
            f"{error}. Examples: v5e:1x1, v5e:2x4, v5p:2x2x1, v6e:1x1."
        ) from None


def compile_only(
    folder: pathlib.Path,
    description: Mapping[str, Any],
    devices: Sequence[jax.Device],
) -> dict[str, Any]:
    """Compile a program for devices that need not exist.

    Returns:
        What the compiler says of the program of each device. Its `flops` and
        `bytes accessed` count a loop's body once, and reads of on-chip memory
        too; bytes of the device's memory (`hbm_gigabytes`) and cycles are
        those of the scheduled instructions, times the trips of loops.

    Raises:
        SystemExit: The compiler refuses the program.
    """
    module = read_program(folder, description, len(devices))
    began = time.perf_counter()
    try:
        program = devices[0].client.compile(
            module,
            xla_client.DeviceList(tuple(devices)),
            compile_options(devices),
        )
    except jax.errors.JaxRuntimeError as error:
        raise SystemExit(f"The compiler refuses the program: {error}") from None
    seconds = time.perf_counter() - began
    cost = program.cost_analysis()
    work = count_work(program.hlo_modules()[0].to_string())
    return {
        "libtpu": importlib.metadata.version("libtpu"),
        "compile_seconds": seconds,
        **memory_sizes(program.get_compiled_memory_stats()),
        "model_gigaflops": description["model_flops"] / len(devices) / 1e9,
        "gigaflops": cost["flops"] / 1e9,
        "accessed_gigabytes": cost["bytes accessed"] / 1e9,
        "hbm_gigabytes": work and work[0] / 1e9,
        "megacycles": work and work[1] / 1e6,
        **estimate(description, devices, work and work[0]),
    }


def memory_sizes(memory: Any) -> dict[str, float]:
    """Return what a compiled program needs on each device, in MiB."""
    sizes = {
        "arguments_mib": memory.argument_size_in_bytes,
        "aliased_mib": memory.alias_size_in_bytes,
        "temporaries_mib": memory.temp_size_in_bytes,
        "program_mib": memory.generated_code_size_in_bytes,
    }
    new_results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    total = sum(sizes.values()) - sizes["aliased_mib"] + new_results
    return {
        n: size / 2**20 for n, size in {**sizes, "memory_mib": total}.items()
    }


def estimate(
    description: Mapping[str, Any],
    devices: Sequence[jax.Device],
    hbm_bytes: int | None,
) -> dict[str, float]:
    """Return the most tokens/s of a chip that its published rates allow.

    Two bounds: as if it only computed the model's matrix products, and as if
    it only moved data in its memory. A step is slower than either.
    """
    if devices[0].device_kind not in CHIP_RATES:
        return {}
    flops, traffic = CHIP_RATES[devices[0].device_kind]
    tokens = description["tokens"]
    bounds = {
        "tokens_per_second_by_arithmetic": tokens
        * flops
        / description["model_flops"]
    }
    if hbm_bytes:
        share = tokens / len(devices)
        bounds["tokens_per_second_by_memory"] = share * traffic / hbm_bytes
    return bounds


def count_work(text: str) -> tuple[int, int] | None:
    """Return bytes moved in the device's memory, and estimated cycles.

    Args:
        text: The compiled program, scheduled, with layouts.

    Returns:
        Bytes of all operands and results that are not in on-chip memory
        (`S(1)` and others in a layout); an operand of which only a part is
        read counts as a whole. And the cycles that the compiler notes beside
        the instructions; those that move data from memory have none. None if
        there is a loop whose trips the compiler does not note.
    """
    pattern = r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\n((?:  .*\n)*)\}"
    bodies = dict(re.findall(pattern, text, re.MULTILINE))
    entry = re.search(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    moved = cycles = 0
    pending = [(entry[1], 1)]
    while pending:
        name, times = pending.pop()
        types: dict[str, str] = {}
        for line in bodies[name].splitlines():
            result, kind, operation, rest = INSTRUCTION.match(line).groups()
            types[result] = kind
            if operation == "while":
                trips = TRIPS.search(rest)
                if not trips:
                    return None
                body = re.search(r"body=%?([\w.\-]+)", rest)[1]
                pending.append((body, times * int(trips[1])))
            elif not IDLE.fullmatch(operation):
                noted = re.search(r'"estimated_cycles":"(\d+)"', rest)
                cycles += times * int(noted[1]) if noted else 0
                operands = re.findall(r"%([\w.\-]+)", rest.split(")")[0])
                inputs = [types[operand] for operand in operands]
                moved += times * bytes_moved(operation, kind, inputs)
    return moved, cycles


def bytes_moved(operation: str, result: str, operands: list[str]) -> int:
    """Return the bytes that an instruction moves in the device's memory."""
    if operation == "copy-start":  # The result names both ends.
        return memory_bytes(result)
    if operation == "slice-start":  # It reads as much as its result holds.
        part = result.split("}), ")[1].split(", s32[]")[0]
        return memory_bytes(re.sub(r"S\(\d+\)", "", part))
    return memory_bytes(result) + sum(map(memory_bytes, operands))


def memory_bytes(kind: str) -> int:
    """Return the bytes of the arrays of a type that are not on the chip.

    Example:
        `(f32[2,3]{1,0}, f32[4]{0:T(128)S(1)})` are 24.
    """
    return sum(
        WIDTHS.get(name, 8 if name.endswith("64") else 4)
        * math.prod(int(size) for size in sizes.split(",") if size)
        for name, sizes, layout in re.findall(
            r"(\w+)\[([\d,]*)\](?:\{([^}]*)\})?", kind
        )
        if "S(" not in layout
    )


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
        help="Folder of npz files, or patterns with commas: one batch each, in "
        "the order of their names, again and again. Default: a random batch.",
    )
    add(
        "--variables",
        help="npz file to start from. Default: that of the program; or the "
        "--output of an earlier run.",
    )
    add("--output", help="npz file to write all variables to at the end.")
    add(
        "--save_steps",
        type=int,
        help="Updates after which --output is written, too. The same command "
        "continues from there. Default: only at the end.",
    )
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
        help="Updates per printed line. Default: %(default)s",
    )
    add(
        "--devices",
        type=int,
        default=1,
        help="Devices to divide each batch over. Default: %(default)s",
    )
    add(
        "--compile_for",
        metavar="TOPOLOGY",
        help="Run nothing, but compile for TPUs, and print what the compiler "
        "says; for example v5e:1x1, v5e:2x4, v5p:2x2x1, v6e:1x1.",
    )
    add(
        "--matrix_size",
        type=int,
        help="Rows of the matrices whose product is the device's rate; 0 does "
        f"not measure it. Default: {PEAK_SIZES['cpu']} on a CPU, else "
        f"{PEAK_SIZE}.",
    )
    return parser


def check_devices(
    description: Mapping[str, Any], devices: Sequence[Any], option: str
) -> None:
    """Refuse to divide a batch that cannot be divided.

    Raises:
        SystemExit: See the text.
    """
    count, batch = len(devices), description["sequences"]
    microbatches = description["options"]["gradient_accumulation_steps"]
    if count > 1 and (batch % count or microbatches > 1):
        raise SystemExit(
            f"{option}: {count} devices cannot share batches of {batch} in "
            f"{microbatches} microbatches. Export with a --train_batch_size "
            f"that is a multiple of {count}, and with "
            "--gradient_accumulation_steps=1."
        )


def show_compiled(folder: pathlib.Path, topology: str) -> None:
    """Compile for a topology and print what that shows."""
    description = json.loads((folder / "train_step.json").read_text())
    devices = find_topology(topology)
    check_devices(description, devices, f"--compile_for={topology}")
    found = {
        "compiled_for": topology,
        **describe(description, devices),
        **compile_only(folder, description, devices),
    }
    print(json.dumps(found))
    print("| " + " | ".join(found) + " |")
    print("| " + " | ".join(map(show, found.values())) + " |")


def show(value: Any) -> str:
    """Return a value for a table, numbers with at most four digits."""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def find_devices(count: int) -> list[jax.Device]:
    """Return the first devices that jax finds.

    Raises:
        SystemExit: It finds fewer.
    """
    devices = backend.get_backend().local_devices()
    if not 1 <= count <= len(devices):
        raise SystemExit(
            f"--devices={count}, but jax finds {len(devices)} on this machine."
        )
    return devices[:count]


def find_variables(
    settings: argparse.Namespace,
    folder: pathlib.Path,
    description: Mapping[str, Any],
) -> tuple[Arrays, int]:
    """Return variables to start from, and the updates already done.

    Raises:
        SystemExit: A file does not belong to the program.
    """
    # Files named in the description must be in its folder.
    name = pathlib.Path(description["variables"]).name
    path = settings.variables or str(folder / name)
    variables = load_npz(path)
    check(description, "variable", variables, path)
    if not (settings.save_steps and os.path.exists(settings.output)):
        return variables, 0
    begun = load_npz(settings.output)
    check(description, "variable", begun, settings.output)
    done = int(begun["iteration"]) - int(variables["iteration"])
    if done < 0:
        raise SystemExit(
            f"--output={settings.output} has fewer updates than {path}. Name "
            "another file for the output, or remove it."
        )
    return begun, done


def run(settings: argparse.Namespace, folder: pathlib.Path) -> None:
    """Run the program and print what was measured."""
    steps = settings.steps
    if steps is None:
        found = find_batches(settings.batches) if settings.batches else []
        steps = len(found) or DEFAULT_STEPS
    description = json.loads((folder / "train_step.json").read_text())
    devices = find_devices(settings.devices)
    check_devices(description, devices, f"--devices={settings.devices}")
    variables, done = find_variables(settings, folder, description)
    if done >= steps:
        raise SystemExit(
            f"--output={settings.output} has {done} updates already, and "
            f"--steps is {steps}. Nothing is left to do."
        )
    batches = feed(description, devices, settings.batches, done)
    first = next(batches)  # Errors in it come before compiling.
    step = Step(folder, description, devices, variables)
    plan = Plan(
        done, steps, settings.log_steps, settings.save_steps, settings.output
    )
    seconds = train(step, itertools.chain([first], batches), plan)
    size = settings.matrix_size
    if size is None:
        size = PEAK_SIZES.get(devices[0].platform, PEAK_SIZE)
    print(json.dumps(report(step, description, seconds, size)))


def main() -> None:
    """Run a program, or only compile it."""
    parser = make_parser()
    settings = parser.parse_args()
    steps = 1 if settings.steps is None else settings.steps
    saving = settings.save_steps
    if min(settings.log_steps, steps, 1 if saving is None else saving) < 1:
        parser.error(
            "--steps, --log_steps and --save_steps are whole numbers from 1."
        )
    if saving and not settings.output:
        parser.error("--save_steps needs --output.")
    # The counter of steps has 64 bits.
    jax.config.update("jax_enable_x64", True)
    folder = pathlib.Path(settings.program)
    if settings.compile_for:
        show_compiled(folder, settings.compile_for)
    else:
        run(settings, folder)


if __name__ == "__main__":
    main()
