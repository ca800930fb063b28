"""Run an exported pretraining step with jax, on a CPU, GPU or TPU.

    python benchmarks/run_train_step --program=step

It imports numpy and jax only: the program is what albert_tf.export_train_step
has written, and the device is the first one that jax finds. Without --batches
every step gets the same random batch, which is what a measurement needs; with
them the program trains, and --output_dir keeps what it has learned and a log.

Every line that is printed is a JSON object: the numbers of some steps or of an
evaluation, and last what was measured. Model FLOPs are those of the forward
matrix products, times three; they are compared with the rate of a product of
two square bfloat16 matrices on the same device, in the same process. The first
steps are not timed.

With several --devices each of them computes its part of every batch, and all
have the same variables. --compile_for=v5e:2x2 runs nothing and needs no TPU: it
compiles the program for the chips of that topology, and prints what the
compiler says about memory and work, as a JSON object and a row of a table.
"""

import argparse
import difflib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

try:
    import jax
except ModuleNotFoundError as error:
    raise SystemExit(
        f"{error}. Install what requirements-jax.txt names, see "
        "docs/train_step.md."
    ) from None

import batches
import measurement
import program
import tpu_compiler
import training
from run_folder import RunFolder

DEFAULT_STEPS = 20  # Of a measurement.


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--program",
        required=True,
        help="Folder that albert_tf.export_train_step has written.",
    )
    add(
        "--compile_for",
        metavar="TOPOLOGY",
        help="Run nothing, but compile for TPUs, and print what the compiler "
        "says; for example v5e:1x1, v5e:2x4, v5p:2x2x1, v6e:1x1.",
    )
    add(
        "--devices",
        type=int,
        default=1,
        help="Devices to divide each batch over. Default: %(default)s",
    )
    add(
        "--matrix_size",
        type=int,
        help="Rows of the matrices whose product is the device's rate; 0 does "
        f"not measure it. Default: {measurement.MATRIX_SIZES['cpu']} on a CPU, "
        f"else {measurement.MATRIX_SIZE}.",
    )
    add_training(parser)
    return parser


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options about batches, updates and the folder of a training."""
    add = parser.add_argument
    add(
        "--batches",
        help="Folder of npz files, or patterns with commas: one batch each, in "
        "the order of their names, again and again. Default: a random batch.",
    )
    add(
        "--follow",
        action="store_true",
        help="Wait for batches that another process still writes into the "
        "folder --batches; each has the number of its update as its name.",
    )
    add(
        "--eval_batches",
        help="Folder of npz files, or patterns with commas, to evaluate on: "
        "all of them at the end. Needs a program exported with "
        "--eval_batches_from.",
    )
    add("--eval_steps", type=int, help="Updates between two evaluations.")
    add(
        "--variables",
        help="npz file to start from. Default: that of the program.",
    )
    add(
        "--output_dir",
        help="Folder for all variables (variables.npz) and the log "
        "(metrics.jsonl). The same command continues from there.",
    )
    add(
        "--save_steps",
        type=int,
        help="Updates after which variables are written. Default: at the end "
        "and at SIGTERM only.",
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


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options given; end the process if one is wrong."""
    settings, unknown = parser.parse_known_args()
    known = [f"--{name}" for name in vars(settings)]
    for argument in unknown:
        name = argument.split("=")[0]
        close = difflib.get_close_matches(name, known, 1)
        advice = f"Did you mean {close[0]}? " if close else ""
        parser.error(
            f"unrecognized arguments: {argument}. {advice}--help explains all "
            "options."
        )
    wrong = check_options(settings)
    if wrong:
        parser.error(wrong)
    return settings


def check_options(settings: argparse.Namespace) -> str | None:
    """Return the first mistake in the options, None if there is none."""
    for name, least in (
        *(("steps", 1), ("log_steps", 1), ("save_steps", 1)),
        *(("eval_steps", 1), ("matrix_size", 0)),
    ):
        value = getattr(settings, name)
        if value is not None and value < least:
            return f"--{name}={value} is not a whole number from {least}."
    for name, value in vars(settings).items():
        if value == "":
            return f"--{name} is empty. Give it a value, or leave it out."
    unused = [
        *("batches", "eval_batches", "variables", "output_dir", "steps"),
        *("save_steps", "eval_steps", "follow"),
    ]
    given = [n for n in unused if getattr(settings, n) not in (None, False)]
    if settings.devices != 1:
        given.append("devices")
    folder = settings.batches or ""
    problems = [
        (
            settings.compile_for and given,
            f"--compile_for={settings.compile_for} runs nothing, and compiles "
            "for all chips of the topology: leave "
            f"{', '.join(f'--{name}' for name in given)} out.",
        ),
        (
            settings.save_steps and not settings.output_dir,
            "--save_steps needs --output_dir.",
        ),
        (
            settings.eval_steps and not settings.eval_batches,
            "--eval_steps needs --eval_batches.",
        ),
        (
            settings.follow and not (folder and settings.steps),
            "--follow needs --batches, a folder, and --steps.",
        ),
        (
            settings.follow and set(folder) & set("*?[,"),
            f"--batches={folder} is not one folder, which --follow needs.",
        ),
    ]
    return next((text for is_wrong, text in problems if is_wrong), None)


def count_steps(settings: argparse.Namespace) -> int:
    """Return the number of updates: --steps, or its default."""
    if settings.steps is not None:
        return int(settings.steps)
    if settings.batches is None:
        return DEFAULT_STEPS
    return len(batches.find_batches(settings.batches))


def find_variables(
    settings: argparse.Namespace, exported: program.Exported, output: RunFolder
) -> tuple[program.Arrays, int]:
    """Return variables to start from, and the updates already done.

    Raises:
        SystemExit: A file does not belong to the program.
    """
    description = exported.description
    path = settings.variables or str(exported.path(description["variables"]))
    option = "variables" if settings.variables else "program"
    variables = batches.load_npz(path, option)
    batches.check(description, "variable", variables, path)
    if not output.variables:
        return variables, 0
    begun = batches.load_npz(output.variables, "output_dir")
    batches.check(description, "variable", begun, output.variables)
    done = int(begun["iteration"]) - int(variables["iteration"])
    if done < 0:
        raise SystemExit(
            f"--output_dir={settings.output_dir} has fewer updates than "
            f"{path}. Name another folder, or remove it."
        )
    return begun, done


def feed(
    settings: argparse.Namespace,
    exported: program.Exported,
    devices: Sequence[jax.Device],
    start: tuple[int, int],
    stopping: threading.Event,
) -> Iterator[training.Batch]:
    """Yield the batches of the updates, on the devices.

    Args:
        settings: Options.
        exported: The program.
        devices: Where to put them.
        start: Updates since the program's variables, and since the very first
            ones. The second is more if the export went on from a checkpoint.
        stopping: If it is set, batches to come are not waited for.
    """
    description = exported.description
    if settings.batches is None:
        batch = batches.make_batch(description)
        # This never ends.
        yield from itertools.repeat(program.place(batch, devices, "batch"))
    done, iteration = start
    found = (
        batches.follow(description, settings.batches, iteration, stopping)
        if settings.follow
        else batches.repeat(description, settings.batches, done)
    )
    for arrays in found:
        yield program.place(arrays, devices, "batch")


def make_evaluation(
    settings: argparse.Namespace,
    exported: program.Exported,
    devices: Sequence[jax.Device],
    step: program.Step,
) -> Callable[[], dict[str, float]] | None:
    """Compile the evaluation and return it, if there are batches for it."""
    if settings.eval_batches is None:
        return None
    description = exported.description
    evaluation = program.Program(exported, description["evaluation"], devices)

    def evaluate() -> dict[str, float]:
        found = (
            batches.load_batch(description, path, "eval_batches")
            for path in find_evaluation(settings, exported)
        )
        placed = (program.place(batch, devices, "batch") for batch in found)
        return training.evaluate(
            description, evaluation, step.variables, placed
        )

    return evaluate


def find_evaluation(
    settings: argparse.Namespace, exported: program.Exported
) -> list[str]:
    """Return the files to evaluate on.

    Raises:
        SystemExit: There are none, or the program has no evaluation.
    """
    if settings.eval_batches is None:
        return []
    if "evaluation" not in exported.description:
        raise SystemExit(
            f"--program={settings.program} has no evaluation. Export with "
            "--eval_batches_from."
        )
    return batches.find_batches(settings.eval_batches, "eval_batches")


def check_evaluation(
    settings: argparse.Namespace, exported: program.Exported
) -> None:
    """Read all that an evaluation needs, so that errors come before training.

    Raises:
        SystemExit: A file is missing or damaged.
    """
    description = exported.description
    paths = find_evaluation(settings, exported)
    if paths:
        program.read_program(exported, description["evaluation"], 1)
    for path in paths:
        batches.load_batch(description, path, "eval_batches")


def run(settings: argparse.Namespace, exported: program.Exported) -> None:
    """Run the program and print what was measured."""
    description = exported.description
    steps = count_steps(settings)
    devices = program.find_devices(settings.devices)
    program.check_devices(description, devices, f"--devices={settings.devices}")
    output = RunFolder(settings.output_dir)
    output.check_same(exported, settings)
    variables, done = find_variables(settings, exported, output)
    iteration = int(variables["iteration"])
    is_evaluated = not settings.eval_batches or output.has_evaluated(iteration)
    if done > steps or (done == steps and output.has_ended and is_evaluated):
        print(
            f"--output_dir={settings.output_dir} has {done} updates already, "
            f"and --steps is {steps}. Nothing is left to do; give more --steps "
            "to go on.",
            file=sys.stderr,
        )
        return
    check_evaluation(settings, exported)
    output.check_space(variables)
    stopping, training_begins = threading.Event(), threading.Event()
    if settings.output_dir:
        listen(stopping, training_begins)
    fed = feed(settings, exported, devices, (done, iteration), stopping)
    # Errors in it come before compiling.
    first = list(itertools.islice(fed, int(done < steps)))
    update = program.Program(exported, description, devices)
    step = program.Step(update, program.place(variables, devices, "variable"))
    trainer = training.Trainer(
        step,
        description,
        output,
        make_evaluation(settings, exported, devices, step),
    )
    output.start(iteration, exported, settings, devices)
    plan = training.Plan(
        iteration,
        iteration - done + steps,
        settings.log_steps,
        settings.save_steps,
        settings.eval_steps,
    )
    training_begins.set()
    trainer.train(itertools.chain(first, fed), plan, stopping)
    if trainer.watch.updates:
        seconds = trainer.watch.seconds / trainer.watch.updates
        measured = measurement.report(
            update, description, devices, seconds, settings.matrix_size
        )
        print(json.dumps(measured))


def listen(stopping: threading.Event, training_begins: threading.Event) -> None:
    """Set an event at SIGTERM and Ctrl-C; end at once before training begins.

    Compiling takes minutes, in which Python calls no handler of a signal. But
    it writes the signal to a file, and a thread reads it.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def stop(number: int, _: object) -> None:
        stopping.set()
        if number == signal.SIGINT:  # A second one ends at once.
            signal.signal(number, signal.default_int_handler)

    def end_early() -> None:
        os.read(read, 1)
        if not training_begins.is_set():
            os._exit(training.PREEMPTED)

    threading.Thread(target=end_early, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def main() -> None:
    """Run a program, or only compile it."""
    settings = parse(make_parser())
    # The counter of steps has 64 bits.
    jax.config.update("jax_enable_x64", True)
    exported = program.open_folder(settings.program)
    if settings.compile_for:
        tpu_compiler.show_compiled(exported, settings.compile_for)
        return
    try:
        run(settings, exported)
    except jax.errors.JaxRuntimeError as error:
        raise SystemExit(
            f"--program={settings.program} failed on the device: {error}. If "
            "its memory is too small, export with a smaller "
            "--train_batch_size, or with --recompute, or give more --devices."
        ) from None


if __name__ == "__main__":
    main()
