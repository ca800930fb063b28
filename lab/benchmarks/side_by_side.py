"""Ours and others side by side: processes that work in turn.

Each implementation runs in its own process, so that its threads and settings do
not affect the others. The parent has them work in turn for several rounds, so
that other load affects all of them equally.

A script that uses this is both the parent and the workers: a worker gets the
options of the parent and `--serve=NAME`. Workers may use another interpreter
without this project's packages, so only the standard library is imported here,
except inside functions.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE_CONFIG = ROOT / "configs" / "models" / "albert_base_v2.json"
PRECISIONS = ("float32", "bfloat16")
# For every measured process.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_USE_LEGACY_KERAS": "1",
}
# Options with the interpreter of some implementations.
PYTHONS = {"hugging": "torch_python", "openvino": "openvino_python"}

Config = Mapping[str, Any]  # The keys of a config file of the original.
# Works once, and returns how much: sequences, examples or questions.
Turn = Callable[[], float]


@dataclasses.dataclass(frozen=True)
class Shape:
    """Tokens of a sequence, special ones included, and sequences."""

    length: int
    batch: int

    def __str__(self) -> str:
        return f"{self.length}x{self.batch}"


def parse_shapes(text: str) -> list[Shape]:
    """Return what `128x8,512x2` means: length 128, batch 8, and so on."""
    pairs = (part.split("x") for part in text.split(","))
    return [Shape(int(length), int(batch)) for length, batch in pairs]


def make_parser(
    description: str, names: Sequence[str], base: str, rounds: int
) -> argparse.ArgumentParser:
    """Return a parser with the options that all comparisons have."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--implementations",
        default=",".join(names),
        help="What to compare, with commas. Default: %(default)s",
    )
    add("--base", default=base, help="The others are compared with it.")
    add("--rounds", type=int, default=rounds, help="Turns of each.")
    add(
        "--torch_python",
        default=sys.executable,
        help="Python that has torch and transformers; it needs nothing else.",
    )
    add("--serve", help=argparse.SUPPRESS)
    return parser


def parse(
    parser: argparse.ArgumentParser,
    names: Collection[str],
    build: Callable[[argparse.Namespace], tuple[Turn, str]],
) -> argparse.Namespace:
    """Read options, and refuse what cannot be run before anything runs.

    In the process of an implementation, do its work, and exit.
    """
    settings = parser.parse_args()
    settings.implementations = settings.implementations.split(",")
    unknown = sorted(set(settings.implementations) - set(names))
    if unknown:
        parser.error(
            f"--implementations: there is no {', '.join(unknown)}. There are "
            f"{', '.join(names)}."
        )
    if settings.base not in settings.implementations:
        parser.error(f"--base={settings.base} is not among --implementations.")
    if settings.serve:
        serve(lambda: build(settings))
        sys.exit()
    return settings


def parse_name(name: str) -> tuple[str, str, bool]:
    """Return implementation, precision and whether it is compiled.

    Example:
        parse_name("model_garden_float32_compiled") =
            ("model_garden", "float32", True)
    """
    plain = name.removesuffix("_compiled")
    implementation, precision = plain.rsplit("_", 1)
    return implementation, precision, plain != name


def read_config(path: str) -> Config:
    """Return a config file of the original."""
    content = pathlib.Path(path).read_text()
    return {"inner_group_num": 1, **json.loads(content)}


def make_hugging_face_config(config: Config) -> Any:
    """Return Hugging Face's config, without dropout in the classifier."""
    import transformers

    return transformers.AlbertConfig(
        **{
            **config,
            "hidden_act": "gelu_new",  # Their name of the original's gelu.
            "classifier_dropout_prob": 0.0,
        }
    )


# In a process. ----------------------------------------------------------------


def serve(build: Callable[[], tuple[Turn, str]]) -> None:
    """Work once for every line of standard input and report its cost."""
    # Output of packages must not be mixed with the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        turn, about = build()
        print(json.dumps(about), file=answers, flush=True)
        for _ in sys.stdin:
            began, processor = time.perf_counter(), time.process_time()
            amount = turn()
            result = {
                "amount": amount,
                "seconds": time.perf_counter() - began,
                # Of all threads.
                "processor_seconds": time.process_time() - processor,
                "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                / 1024,
            }
            print(json.dumps(result), file=answers, flush=True)


def make_pretraining_update(encoder: Any, precision: str) -> tuple[Any, int]:
    """Return this project's update with LAMB, and its number of losses."""
    from albert_tf.model.heads import pretraining
    from albert_tf.model.losses import pretraining_objective
    from albert_tf.model.optimizers import optimization
    from albert_tf.training import train_step

    model = pretraining.AlbertPretrainer(encoder)
    optimizer = optimization.Lamb(1e-4)
    optimizer.build(model.trainable_variables)
    objective = pretraining_objective.make()
    guard = train_step.Guard(precision)
    update = train_step.TrainStep(model, optimizer, objective, guard)
    return update, len(objective.losses)


# The parent. ------------------------------------------------------------------


def last_error(text: str) -> str:
    """Return the last exception that a process printed, or its last line."""
    lines = text.strip().split("\n")
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    return (raised or lines)[-1]


class Worker:
    """A process with one implementation."""

    def __init__(self, name: str, command: Sequence[str]):
        """Start it."""
        self.name = name
        self.results: list[dict[str, float]] = []
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def read(self) -> Any:
        """Return the next answer; None if the process has ended."""
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def take_turn(self) -> None:
        """Have it do its work once."""
        with contextlib.suppress(BrokenPipeError):  # It has ended.
            self._process.stdin.write("turn\n")
            self._process.stdin.flush()
        result = self.read()
        if result is None:
            raise SystemExit(f"{self.name} ended: {self.last_words()}")
        self.results.append(result)

    def rates(self, key: str) -> list[float]:
        """Return the work of each turn by its `seconds`, or others."""
        return [result["amount"] / result[key] for result in self.results]

    def last_words(self) -> str:
        """Return how the process ended and the last error that it printed."""
        status = self._process.wait()
        self._errors.seek(0)
        return f"status {status}: {last_error(self._errors.read())}"

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
        self._errors.close()


def start(name: str, command: Sequence[str]) -> Worker | None:
    """Start a process and wait until it is ready; None if it fails."""
    began = time.perf_counter()
    worker = Worker(name, command)
    about = worker.read()
    if about is None:
        print(f"- {name}: not measured, {worker.last_words()}", flush=True)
        worker.stop()
        return None
    seconds = time.perf_counter() - began
    print(f"- {name}: ready after {seconds:.0f} s, {about}", flush=True)
    return worker


def compare(
    module: str,
    settings: argparse.Namespace,
    unit: str,
    *arguments: str,
) -> None:
    """Start processes, have them work in turn, and print a Markdown table.

    One more round comes first and does not count: the processes have waited for
    each other, threads and caches are cold.

    Args:
        arguments: Further options of the processes.
    """
    base = settings.base
    with contextlib.ExitStack() as stack:
        workers = []
        for name in settings.implementations:
            python = getattr(settings, PYTHONS.get(name.split("_")[0], ""), "")
            command = [python or sys.executable, "-m", module, *sys.argv[1:]]
            worker = start(name, [*command, f"--serve={name}", *arguments])
            if worker:
                stack.callback(worker.stop)
                workers.append(worker)
            elif name == base:
                raise SystemExit(f"There is nothing to compare without {base}.")
        before = os.getloadavg()[0]
        for _ in range(1 + settings.rounds):
            for worker in workers:
                worker.take_turn()
        for worker in workers:
            del worker.results[0]
        print(
            f"\nMedians of {settings.rounds} rounds in turn; {os.cpu_count()} "
            f"processors, load {before:.1f} before, {os.getloadavg()[0]:.1f} "
            "after.\n",
            *table(workers, base, unit),
            "",
            sep="\n",
            flush=True,
        )


def table(workers: Sequence[Worker], base: str, unit: str) -> list[str]:
    """Return the lines of a Markdown table, see `compare`."""

    def rate(worker: Worker, key: str = "seconds") -> float:
        return statistics.median(worker.rates(key))

    (first,) = (worker for worker in workers if worker.name == base)
    columns: Mapping[str, Callable[[Worker], str]] = {
        "implementation": lambda worker: worker.name,
        "s": lambda worker: "{:.3f}".format(
            statistics.median(r["seconds"] for r in worker.results)
        ),
        f"{unit}/s": lambda worker: f"{rate(worker):.2f}",
        "fastest": lambda worker: f"{max(worker.rates('seconds')):.2f}",
        f"{unit}/CPU s": lambda worker: "{:.2f}".format(
            rate(worker, "processor_seconds")
        ),
        "peak MiB": lambda worker: f"{worker.results[-1]['mib']:,.0f}",
        f"speed v {base}": lambda worker: f"{rate(worker) / rate(first):.2f}x",
        "by CPU s": lambda worker: "{:.2f}x".format(
            rate(worker, "processor_seconds") / rate(first, "processor_seconds")
        ),
    }
    rows = [[cell(worker) for cell in columns.values()] for worker in workers]
    return [
        f"| {' | '.join(columns)} |",
        f"| --- | {' | '.join(['---:'] * (len(columns) - 1))} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
