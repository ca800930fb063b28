"""Export a pretraining step as a program without TensorFlow, and run it.

    python -m lab.train_step export --output_dir=step \
        --albert_config_file=albert_base_v2 --train_batch_size=32 \
        --max_seq_length=128 --precision=bfloat16
    python lab/train_step.py run --program=step
    python lab/train_step.py compile --program=step --topology=v5e:1x1

`export` takes the options of run_pretraining and writes one update as
StableHLO: variables and a batch go in, variables and numbers come out. `run`
and `compile` need numpy and jax only, and that folder. See docs/train_step.md.
"""

import argparse
import importlib.util
import io
import json
import os
import pathlib
import re
import sys
import time
from typing import Any, NoReturn

import numpy as np

try:  # The export does without it.
    import jax
    from jax.experimental import topologies
    from jax.extend import backend
    from jax.interpreters import mlir
    from jaxlib import xla_client
except ModuleNotFoundError as missing:
    MISSING = f"{missing}. Install what requirements-jax.txt names."
else:
    MISSING = ""

PROGRAM_NAME = "train_step.mlir"
DESCRIPTION_NAME = "train_step.json"
VARIABLES_NAME = "variables.npz"
BATCH_NAME = "batch.npz"
WARM_UP_STEPS = 2  # Not timed.
# What TensorFlow returns a changed variable through. It is not StableHLO, and
# TPU compilers refuse it.
COPY = re.compile(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)")
# Published bfloat16 FLOP/s of a chip.
# Source: cloud.google.com/tpu/docs/v5e, v5p and v6e (2026-11-22).
CHIP_RATES = {"TPU v5 lite": 197e12, "TPU v5": 459e12, "TPU v6 lite": 918e12}

Arrays = dict[str, np.ndarray]


def refuse(message: str) -> NoReturn:
    """End the process with a message."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


# Export. TensorFlow and the project are imported here only.


def export(words: list[str]) -> None:
    """Write program, variables, a random batch and, last, the description."""
    from albert_tf import run_pretraining
    from albert_tf.common import options

    parser = argparse.ArgumentParser("train_step export", allow_abbrev=False)
    parser.add_argument("--loop_layers", action="store_true")
    own, words = parser.parse_known_args(words)
    status = options.run_inside(
        lambda settings: write_program(settings, own.loop_layers),
        run_pretraining.PretrainingOptions,
        ["--input_file=none", *words],  # No record is read.
    )
    sys.exit(status)


def write_program(settings: Any, loop_layers: bool = False) -> None:
    """Export the update of a run with these `PretrainingOptions`."""
    from albert_tf.common import files, options, outputs
    from albert_tf.training import pretraining_recipe

    recipe, update = settings.recipe, settings.trainer
    others = {
        "--word_embeddings_file": recipe.word_embeddings_file,
        "--init_schedule=continue": recipe.init_schedule == "continue",
        "--objective=plm or spans": recipe.objective in ("plm", "spans"),
        "--records=passages": settings.data.records == "passages",
        "--pack_sequences": settings.data.pack_sequences,
        "--max_minutes": update.max_minutes > 0,
        "--weight_precision=int8": update.round_from is not None,
    }
    for name, is_given in others.items():
        if is_given:
            refuse(f"{name} is not exported. Leave it out.")
    config, step = make_step(settings, loop_layers)
    folder = pathlib.Path(settings.output_dir)
    names = DESCRIPTION_NAME, PROGRAM_NAME, VARIABLES_NAME, BATCH_NAME
    written = [str(folder / name) for name in names]
    is_own = (folder / DESCRIPTION_NAME).exists()
    outputs.check(settings, "output_dir", written, is_own=is_own)
    files.make_folder(settings.output_dir, "output_dir")
    variables, batch = variables_of(step), random_batch(settings, config)
    text, arguments, results = lower(step, batch, variables)
    values = {name: variable.numpy() for name, variable in variables.items()}
    size, length = settings.train_batch_size, settings.data.max_seq_length
    shape = length, settings.data.num_predictions, None if loop_layers else 1
    flops = pretraining_recipe.forward_flops(recipe, config, *shape)
    description = {
        "batch": {n: describe_array(v) for n, v in batch.items()},
        "variables": {n: describe_array(v) for n, v in values.items()},
        "arguments": arguments,
        "results": results,
        "rows": list(step.names),
        "losses": dict(step.objective.losses),
        "tokens": size * length,
        # Of matrix products; what --recompute adds does not count.
        "model_flops": 3 * size * flops,
        "options": options.to_dict(settings),
    }
    contents = [json.dumps(description, indent=1).encode(), text.encode()]
    contents += packed(values), packed(batch)
    files.write_together(dict(zip(written, contents, strict=True)))


def packed(arrays: Arrays) -> bytes:
    """Return an npz file, compressed, because the moments are zeros."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def make_step(settings: Any, loop_layers: bool) -> tuple[Any, Any]:
    """Return the architecture, and the update with the weights of a new run."""
    import tf_keras as keras

    from albert_tf.model.checkpoints import restoring
    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.optimizers import optimization
    from albert_tf.training import pretraining_recipe, train_step

    recipe, update = settings.recipe, settings.trainer
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    keras.utils.set_random_seed(update.seed)
    model = pretraining_recipe.make_model(
        recipe, config, update, loop_layers=loop_layers
    )
    restoring.initialize(model, recipe.init)
    optimizer = optimization.make_optimizer(
        recipe.optimizer,
        recipe.num_train_steps,
        recipe.num_warmup_steps,
        precision=update.precision,
    )
    optimizer.build(model.trainable_variables)
    return config, train_step.TrainStep(
        model,
        optimizer,
        pretraining_recipe.make_objective(recipe),
        train_step.Guard(update.precision),
        update.gradient_accumulation_steps,
        update.seed,
    )


def variables_of(step: Any) -> dict[str, Any]:
    """Return all that an update may change, by the names of checkpoints."""
    from albert_tf.model.checkpoints import checkpoint_reader

    found = [*step.model.variables, *step.guard.variables]
    found += [*step.optimizer.adam_m, *step.optimizer.adam_v]
    found.append(step.optimizer.iterations)
    return {checkpoint_reader.name_of(variable): variable for variable in found}


def random_batch(settings: Any, config: Any) -> Arrays:
    """Return a batch without padding, in the layout of masked records."""
    from albert_tf.data import layouts

    length, width = settings.data.max_seq_length, settings.data.num_predictions
    size = settings.train_batch_size
    highest = {
        "input_ids": config.vocab_size,
        "segment_ids": config.type_vocab_size,
        "masked_lm_positions": length,
        "masked_lm_ids": config.vocab_size,
        "next_sentence_labels": 2,
    }
    draws, batch = np.random.default_rng(0), {}
    for feature in layouts.pretraining_layout(length, width):
        shape = size, *feature.shape
        values = draws.integers(0, highest.get(feature.name, 1), shape)
        if feature.name not in highest:  # Masks and weights.
            values += 1
        kind = np.float32 if feature.dtype == "float32" else np.int32
        batch[feature.name] = values.astype(kind)
    del batch["token_boundary"]  # No training reads it.
    return {**batch, "is_real_example": np.ones(size, np.int32)}


def lower(
    step: Any, batch: Arrays, variables: dict[str, Any]
) -> tuple[str, list[str], list[str]]:
    """Translate an update into StableHLO.

    Returns:
        The program, and the names of its arguments and results in order. The
        first result is `numbers`, float32 [names, (numerator, denominator)].
        Each of the others may take the memory of the argument of its name.
    """
    import tensorflow as tf

    function = tf.function(
        lambda batch: step(batch), jit_compile=True, autograph=False
    )
    example = {name: tf.constant(value) for name, value in batch.items()}
    concrete = function.get_concrete_function(example)
    text = function.experimental_get_compiler_ir(example)(stage="stablehlo")
    # A reshape to the same shape changes nothing.
    text = COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text)
    # TensorFlow flattens dictionaries in the order of their keys, and puts the
    # variables that a function uses behind its arguments.
    names = {id(variable.handle): n for n, variable in variables.items()}
    captured = [names[id(handle)] for handle in concrete.captured_inputs]
    arguments = [*sorted(batch), *captured]
    replaced = re.findall(
        r"parameter_number = (\d+) : i64}, output_index = array<i64: (\d+)>",
        text[: text.index("func.func")],
    )
    places = {int(result): int(argument) for argument, result in replaced}
    changed = [arguments[places[i + 1]] for i in range(len(places))]
    return text, arguments, ["numbers", *changed]


def describe_array(value: np.ndarray) -> dict[str, Any]:
    """Return shape and type of an array, for JSON."""
    return {"shape": list(value.shape), "dtype": str(value.dtype)}


# Run and compile, with numpy and jax.


def read_npz(path: pathlib.Path, wanted: dict[str, Any]) -> Arrays:
    """Read arrays, and check that they are those of the program."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in wanted}
    except Exception as error:  # Damage raises errors of many kinds.
        refuse(f"{path} does not hold what the program takes: {error}")
    for name, array in arrays.items():
        if describe_array(array) != wanted[name]:
            refuse(
                f"{path}: {name} is {array.dtype} {list(array.shape)}; the "
                f"program takes {wanted[name]}."
            )
    return arrays


def open_program(folder: str) -> dict[str, Any]:
    """Return the description of an exported program."""
    try:
        path = pathlib.Path(folder, DESCRIPTION_NAME)
        description = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        refuse(
            f"--program={folder} is not a folder that `lab.train_step export` "
            f"has written: {error}. Export the program again."
        )
    return description


def placement(devices: list[Any], role: str) -> Any:
    """Return where an array is: a batch is divided, a variable is on each."""
    mesh = jax.sharding.Mesh(np.array(devices), ("batch",))
    spec = ("batch",) if role == "batch" else ()
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def read_module(folder: str, description: dict[str, Any], count: int) -> Any:
    """Read a program, and divide its batch if there are several devices.

    XLA's partitioner finds from the annotations of arguments and results how to
    divide the rest, and where the devices must add up their parts.
    """
    path = pathlib.Path(folder, PROGRAM_NAME)
    try:
        module = mlir.ir.Module.parse(path.read_text(), mlir.make_ir_context())
        operations = module.body.operations
        (main,) = [
            o for o in operations if o.attributes["sym_name"].value == "main"
        ]
    except (OSError, ValueError, mlir.ir.MLIRError) as error:
        refuse(f"{path} cannot be read: {error}. Export the program again.")
    if count == 1:
        return module
    batch, known = description["batch"], description["variables"]

    def annotation(name: str) -> Any:
        rank = len((batch | known).get(name, {"shape": [0, 0]})["shape"])
        axes = ['{"batch"}' if name in batch else "{}", *["{}"] * rank][:rank]
        text = f"#sdy.sharding<@mesh, [{', '.join(axes)}]>"
        sharding = mlir.ir.Attribute.parse(text)
        return mlir.ir.DictAttr.get({"sdy.sharding": sharding})

    with module.context:
        for attribute in ("arguments", "results"):
            main.attributes[f"{attribute[:3]}_attrs"] = mlir.ir.ArrayAttr.get(
                [annotation(name) for name in description[attribute]]
            )
        mesh = mlir.ir.Operation.parse(f'sdy.mesh @mesh = <["batch"={count}]>')
        mlir.ir.InsertionPoint.at_block_begin(module.body).insert(mesh)
    return module


def check_shares(description: dict[str, Any], count: int) -> None:
    """Refuse a batch that so many devices cannot share."""
    told = description["options"]
    batch, parts = told["train_batch_size"], told["gradient_accumulation_steps"]
    if count > 1 and (batch % count or parts > 1):
        refuse(
            f"{count} devices cannot share batches of {batch}. Export with a "
            "--train_batch_size that is a multiple of their number, and "
            "--gradient_accumulation_steps=1."
        )


def compiled(
    settings: argparse.Namespace,
    description: dict[str, Any],
    devices: list[Any],
    compile_for: Any,
) -> tuple[Any, dict[str, Any]]:
    """Compile the program; return it, and what the compiler says about it."""
    count, told = len(devices), description["options"]
    module = read_module(settings.program, description, count)
    options = backend.get_compile_options(
        num_replicas=1,
        num_partitions=count,
        device_assignment=np.array([[device.id for device in devices]]),
    )
    began = time.perf_counter()
    try:
        program = compile_for(
            module, xla_client.DeviceList(tuple(devices)), options
        )
    except jax.errors.JaxRuntimeError as error:
        refuse(
            f"--program={settings.program} cannot be compiled for {count} "
            f"{devices[0].device_kind}: {error}. If it needs too much memory, "
            "export with a smaller --train_batch_size, or with --recompute."
        )
    return program, {
        "device": devices[0].device_kind,
        "devices": count,
        "jax": jax.__version__,
        "batch": told["train_batch_size"],
        "length": told["max_seq_length"],
        "precision": told["precision"],
        "compile_seconds": time.perf_counter() - began,
        **memory_sizes(program.get_compiled_memory_stats()),
        "model_gigaflops": description["model_flops"] / count / 1e9,
    }


def memory_sizes(memory: Any) -> dict[str, float]:
    """Return what a compiled program needs on each device."""
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    sizes = {
        "arguments_mib": memory.argument_size_in_bytes,
        "temporaries_mib": memory.temp_size_in_bytes,
        "program_mib": memory.generated_code_size_in_bytes,
    }
    sizes["memory_mib"] = sum(sizes.values()) + new
    sizes["aliased_mib"] = memory.alias_size_in_bytes
    return {name: size / 2**20 for name, size in sizes.items()}


def compile_only(settings: argparse.Namespace) -> None:
    """Compile for TPUs that need not exist; print what the compiler says."""
    if importlib.util.find_spec("libtpu") is None:
        refuse("compile needs libtpu, see requirements-jax.txt.")
    # Nothing is asked of a metadata server, and other processes may compile.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    description, name = open_program(settings.program), settings.topology
    # A host has 2 x 2 chips, or one.
    single = re.fullmatch(r"\w+:1(x1)*", name)
    bounds = {"chips_per_host_bounds": [1, 1, 1]} if single else {}
    try:
        found = topologies.get_topology_desc(name, platform="tpu", **bounds)
    except jax.errors.JaxRuntimeError as error:
        refuse(
            f"--topology={name} is none that the compiler knows: {error}. "
            "Examples: v5e:1x1, v5e:2x4, v5p:2x2x1, v6e:1x1."
        )
    devices = list(found.devices)
    check_shares(description, len(devices))
    program, said = compiled(
        settings, description, devices, devices[0].client.compile
    )
    cost, rate = program.cost_analysis(), CHIP_RATES.get(said["device"])
    said["gigaflops"] = cost["flops"] / 1e9
    said["accessed_gigabytes"] = cost["bytes accessed"] / 1e9
    if rate:
        share = rate / description["model_flops"]
        said["tokens_per_second_by_arithmetic"] = description["tokens"] * share
    print(json.dumps({"compiled_for": name, **said}))


def run(settings: argparse.Namespace) -> None:
    """Run updates; print the numbers of each, and what was measured."""
    description = open_program(settings.program)
    devices = backend.get_backend().local_devices()
    if settings.devices > len(devices):
        refuse(
            f"--devices={settings.devices}, but jax finds {len(devices)}. On a "
            "CPU, XLA_FLAGS=--xla_force_host_platform_device_count=8 makes 8."
        )
    devices = devices[: settings.devices]
    check_shares(description, len(devices))
    folder = pathlib.Path(settings.program)
    divided = placement(devices, "batch")
    batches = [
        jax.device_put(read_npz(path, description["batch"]), divided)
        for path in settings.batches or [folder / BATCH_NAME]
    ]
    values = read_npz(folder / VARIABLES_NAME, description["variables"])
    known = jax.device_put(values, placement(devices, "variable"))
    client = backend.get_backend()
    program, said = compiled(
        settings, description, devices, client.compile_and_load
    )
    rows, began = [], time.perf_counter()
    for number in range(settings.steps):
        if number == WARM_UP_STEPS:
            jax.block_until_ready(rows)
            began = time.perf_counter()
        known.update(batches[number % len(batches)])
        arguments = [known[name] for name in description["arguments"]]
        executed = program.execute_sharded(arguments)
        parts = executed.disassemble_into_single_device_arrays()
        for name, part in zip(description["results"], parts, strict=True):
            known[name] = jax.make_array_from_single_device_arrays(
                part[0].shape, placement(devices, "variable"), part
            )
        rows.append(known["numbers"])
    jax.block_until_ready(rows)
    timed = settings.steps - WARM_UP_STEPS
    if timed > 0:
        seconds = (time.perf_counter() - began) / timed
        said["seconds_per_step"] = seconds
        said["tokens_per_second"] = description["tokens"] / seconds
        flops = description["model_flops"] / seconds
        said["model_gigaflops_per_second"] = flops / 1e9
    for row in rows:
        print(json.dumps(summarize(description, np.asarray(row, np.float64))))
    print(json.dumps(said))
    if settings.save:
        np.savez(settings.save, **{n: np.asarray(known[n]) for n in values})


def summarize(description: dict[str, Any], row: np.ndarray) -> dict[str, float]:
    """Return the quotients of an update; `loss` is what is minimized."""
    pairs = zip(description["rows"], row, strict=True)
    numbers = {name: a / b for name, (a, b) in pairs if b}
    if not numbers["skipped"]:
        del numbers["skipped"]
    losses = description["losses"].items()
    total = sum(factor * numbers.get(name, 0.0) for name, factor in losses)
    return {"loss": total, **numbers}


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return int(text)


def new_file(text: str) -> str:
    """Read the name of an npz file that is not there yet."""
    path = pathlib.Path(text if text.endswith(".npz") else f"{text}.npz")
    if os.path.lexists(path):
        raise argparse.ArgumentTypeError(f"{path} exists; give another name")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    return str(path)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `run` and `compile`."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str) -> Any:
        added = commands.add_parser(name, allow_abbrev=False).add_argument
        added("--program", required=True, help="Folder of the export.")
        return added

    add = command("compile")
    add("--topology", default="v5e:1x1", help="Such as v5e:2x4.")
    add = command("run")
    add("--steps", type=positive, default=20, help="Updates.")
    add("--devices", type=positive, default=1, help="They divide each batch.")
    add(
        "--batches",
        nargs="+",
        type=pathlib.Path,
        help="npz files. Default: a random batch.",
    )
    add(
        "--save",
        type=new_file,
        help="File for the variables after the last update.",
    )
    return parser


def main() -> None:
    """Export, run or compile."""
    if sys.argv[1:2] == ["export"]:
        export(sys.argv[2:])
    settings = make_parser().parse_args()
    if MISSING:
        refuse(MISSING)
    # The counter of steps has 64 bits.
    jax.config.update("jax_enable_x64", True)
    try:
        run(settings) if settings.command == "run" else compile_only(settings)
    except jax.errors.JaxRuntimeError as error:
        refuse(f"--program={settings.program} failed on the device: {error}")


if __name__ == "__main__":
    main()
