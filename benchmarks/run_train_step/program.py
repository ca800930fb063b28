"""Exported programs, compiled, and their arrays on devices."""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.interpreters import mlir
from jaxlib import xla_client

# Attributes of a function, and the list of the description that each is about.
SIDES = {"arg_attrs": "arguments", "res_attrs": "results"}

# What a description must have: names, and types of their values.
_FIELDS = {
    **{name: str for name in ("program", "variables")},
    **{name: list for name in ("arguments", "results")},
    **{name: dict for name in ("options", "config", "losses")},
    **{name: int for name in ("sequences", "tokens")},
    "model_flops": (int, float),
}
_OPTIONS = {
    *("gradient_accumulation_steps", "precision", "optimizer", "recompute"),
    "max_seq_length",
}
_CONFIG = {"num_hidden_layers", "hidden_size"}
# What it must say about each argument and result.
_ENTRY = {"name", "role", "dtype", "shape"}

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Exported:
    """What albert_tf.export_train_step has written.

    Attributes:
        folder: Where it is.
        description: What its JSON file says.
    """

    folder: pathlib.Path
    description: Mapping[str, Any]

    def path(self, name: str) -> pathlib.Path:
        """Return the path of a file that the description names."""
        # Only the name counts: the file lies beside the description.
        return self.folder / pathlib.Path(name).name


def open_folder(folder: str) -> Exported:
    """Read the description of an exported program.

    Raises:
        SystemExit: There is none.
    """
    path = pathlib.Path(folder)
    try:
        description = json.loads((path / "train_step.json").read_text())
        check_description(dict(description))
    except (
        *(OSError, TypeError, ValueError),
        *(AttributeError, KeyError),
    ) as error:
        raise SystemExit(
            f"--program={folder} is not a folder that "
            f"albert_tf.export_train_step has written: {error}. Export the "
            "program again, or name another folder."
        ) from None
    return Exported(path, description)


def check_description(description: dict[str, Any]) -> None:
    """Check that a description has what this program reads.

    Raises:
        ValueError: It has not.
    """
    missing = [
        name
        for name, kind in sorted(_FIELDS.items())
        if not isinstance(description.get(name), kind)
    ]
    if not missing:
        missing += sorted(_OPTIONS - description["options"].keys())
        missing += sorted(_CONFIG - description["config"].keys())
    if missing:
        raise ValueError(f"train_step.json has no {missing[0]}")
    for signature in (description, description.get("evaluation", description)):
        entries = [*signature["arguments"], *signature["results"]]
        if not all(entry.keys() >= _ENTRY for entry in entries):
            raise ValueError("train_step.json names no shape of an array")
        if not signature["results"] or "rows" not in signature["results"][0]:
            raise ValueError("train_step.json has no names of the numbers")


class Program:
    """A program that devices execute together.

    Attributes:
        rows: Names of its numbers.
        compile_seconds: Seconds that compiling took.
    """

    def __init__(
        self,
        exported: Exported,
        signature: Mapping[str, Any],
        devices: Sequence[jax.Device],
    ):
        """Compile it.

        Args:
            exported: The folder with the program.
            signature: File, arguments and results: the description itself
                for the update, its entry `evaluation` for the evaluation.
            devices: What it runs on.
        """
        self.rows: list[str] = signature["results"][0]["rows"]
        self._devices = devices
        self._arguments = [entry["name"] for entry in signature["arguments"]]
        self._results = signature["results"]
        began = time.perf_counter()
        module = read_program(exported, signature, len(devices))
        try:
            self._compiled = backend.get_backend().compile_and_load(
                module,
                xla_client.DeviceList(tuple(devices)),
                compile_options(devices),
            )
        except jax.errors.JaxRuntimeError as error:
            name, kind = signature["program"], devices[0].device_kind
            raise SystemExit(
                f"--program={exported.folder}: {name} cannot be compiled for "
                f"{len(devices)} {kind}: {error}"
            ) from None
        self.compile_seconds = time.perf_counter() - began

    def __call__(self, known: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Start it; its results, by name, are available later.

        Args:
            known: All arguments by name; others are not used. The memory of
                those that results replace is given to these.
        """
        executed = self._compiled.execute_sharded(
            [known[name] for name in self._arguments]
        )
        shards = executed.disassemble_into_single_device_arrays()
        return {
            entry["name"]: jax.make_array_from_single_device_arrays(
                tuple(entry["shape"]),
                placement(self._devices, "variable"),
                parts,
            )
            for entry, parts in zip(self._results, shards, strict=True)
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


class Step:
    """The update, with the variables that it keeps on the devices."""

    def __init__(self, program: Program, variables: dict[str, jax.Array]):
        """Keep the variables, by name; the program may read some of them."""
        self.program = program
        self.variables = variables

    def __call__(self, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Start an update; its numbers, float32 [rows, 2], come later."""
        results = self.program({**self.variables, **batch})
        numbers = results.pop("numbers")
        self.variables.update(results)
        return numbers

    def read(self) -> Arrays:
        """Copy the variables from the devices."""
        return {n: np.asarray(value) for n, value in self.variables.items()}


def placement(
    devices: Sequence[jax.Device], role: str
) -> jax.sharding.NamedSharding:
    """Return where an array is: a batch is divided, a variable is on each."""
    mesh = jax.sharding.Mesh(np.array(devices), ("batch",))
    spec = ("batch",) if role == "batch" else ()
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def place(
    arrays: Arrays, devices: Sequence[jax.Device], role: str
) -> dict[str, jax.Array]:
    """Put batches or variables on the devices."""
    return jax.device_put(arrays, placement(devices, role))


def read_program(
    exported: Exported, signature: Mapping[str, Any], devices: int
) -> mlir.ir.Module:
    """Read a program, and divide its batch if there are several devices.

    XLA's partitioner finds from the annotations of arguments and results how to
    divide the rest, and where the devices must add up their parts.
    """
    path = exported.path(signature["program"])
    try:
        module = mlir.ir.Module.parse(path.read_text(), mlir.make_ir_context())
        main = main_function(module, signature)
    except (OSError, ValueError, mlir.ir.MLIRError) as error:
        raise SystemExit(
            f"--program={exported.folder}: {path.name} cannot be read: {error}."
            " Export the program again, or copy its whole folder again."
        ) from None
    if devices == 1:
        return module
    with module.context:
        for attribute, side in SIDES.items():
            main.attributes[attribute] = mlir.ir.ArrayAttr.get(
                [annotation(entry) for entry in signature[side]]
            )
        mesh = mlir.ir.Operation.parse(
            f'sdy.mesh @mesh = <["batch"={devices}]>'
        )
        mlir.ir.InsertionPoint.at_block_begin(module.body).insert(mesh)
    return module


def main_function(
    module: mlir.ir.Module, signature: Mapping[str, Any]
) -> mlir.ir.Operation:
    """Return the main function of a program.

    Raises:
        ValueError: There is none, or it takes arrays of other shapes than the
            description says.
    """
    for operation in module.body.operations:
        if operation.attributes["sym_name"].value == "main":
            break
    else:
        raise ValueError("it has no main function")
    kind = mlir.ir.TypeAttr(operation.attributes["function_type"]).value
    inputs = mlir.ir.FunctionType(kind).inputs
    shapes = [list(mlir.ir.RankedTensorType(array).shape) for array in inputs]
    if shapes != [entry["shape"] for entry in signature["arguments"]]:
        raise ValueError(
            "it takes other arrays than train_step.json says, as if it were "
            "of another export"
        )
    return operation


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


def find_devices(count: int) -> list[jax.Device]:
    """Return the first devices that jax finds.

    Raises:
        SystemExit: It finds fewer.
    """
    try:
        devices = backend.get_backend().local_devices()
    # jax fails with the second one if the platform has no package.
    except (RuntimeError, AssertionError) as error:
        platforms = os.environ.get("JAX_PLATFORMS", "")
        raise SystemExit(
            f"--devices={count}, but jax finds none with JAX_PLATFORMS="
            f"{platforms}: {error!r}. Install the jax of the device "
            "(docs/train_step.md), or set JAX_PLATFORMS=cpu."
        ) from None
    if not 1 <= count <= len(devices):
        raise SystemExit(
            f"--devices={count}, but jax finds {len(devices)} on this machine: "
            f"give 1 to {len(devices)}. On a CPU, XLA_FLAGS="
            "--xla_force_host_platform_device_count=8 makes eight."
        )
    return devices[:count]


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
        parts = f" in {microbatches} microbatches" if microbatches > 1 else ""
        raise SystemExit(
            f"{option}: {count} devices cannot share batches of {batch}{parts}."
            f" Use a number of devices that divides {batch}, or export with a "
            f"--train_batch_size that is a multiple of {count}. Several "
            "devices need --gradient_accumulation_steps=1, too."
        )


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
