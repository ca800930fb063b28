"""Compile a program for TPUs that need not exist.

`libtpu` has the compiler, and works on any Linux machine.
"""

import importlib.metadata
import importlib.util
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import program
from jax.experimental import topologies
from jaxlib import xla_client

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


def show_compiled(exported: program.Exported, topology: str) -> None:
    """Compile for a topology and print what that shows."""
    devices = find_topology(topology)
    description = exported.description
    program.check_devices(description, devices, f"--compile_for={topology}")
    found = {
        "compiled_for": topology,
        **program.describe(description, devices),
        **compile_only(exported, devices),
    }
    print(json.dumps(found))
    print("| " + " | ".join(found) + " |")
    print("| " + " | ".join(map(show, found.values())) + " |")


def show(value: Any) -> str:
    """Return a value for a table, numbers with at most four digits."""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


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
    exported: program.Exported, devices: Sequence[jax.Device]
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
    description = exported.description
    module = program.read_program(exported, description, len(devices))
    began = time.perf_counter()
    try:
        compiled = devices[0].client.compile(
            module,
            xla_client.DeviceList(tuple(devices)),
            program.compile_options(devices),
        )
    except jax.errors.JaxRuntimeError as error:
        raise SystemExit(
            f"--program={exported.folder}: the compiler refuses it: {error}. "
            "If it needs more memory than a chip has, export with a smaller "
            "--train_batch_size, or with --recompute, or name more chips."
        ) from None
    seconds = time.perf_counter() - began
    cost = compiled.cost_analysis()
    work = count_work(compiled.hlo_modules()[0].to_string())
    return {
        "libtpu": importlib.metadata.version("libtpu"),
        "compile_seconds": seconds,
        **memory_sizes(compiled.get_compiled_memory_stats()),
        "model_gigaflops": description["model_flops"] / len(devices) / 1e9,
        "gigaflops": cost["flops"] / 1e9,
        "accessed_gigabytes": cost["bytes accessed"] / 1e9,
        "hbm_gigabytes": work and work[0] / 1e9,
        "megacycles": work and work[1] / 1e6,
        **estimate(description, devices, work and work[0]),
    }


def memory_sizes(memory: Any) -> dict[str, float]:
    """Return the memory that a compiled program needs on each device."""
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
