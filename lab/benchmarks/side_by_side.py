"""Processes that work in turn, and other shared parts of the comparisons.

Each implementation runs in its own process, so that its threads and settings do
not affect the others. The parent has them work in turn for several rounds, so
that other load affects all of them equally.

A script that uses this is both the parent and the worker processes. Workers may
use another interpreter without this project's packages, so only the standard
library is imported here, except inside functions of the implementations.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from typing import IO, Any, TypeVar

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE_CONFIG = ROOT / "configs" / "models" / "albert_base_v2.json"

PRECISIONS = ("float32", "bfloat16")
# Options that name a file or folder to read.
PATH_OPTIONS = (
    "albert_config_file",
    "data_dir",
    "input_file",
    "spm_model_file",
)

# For every measured process.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_USE_LEGACY_KERAS": "1",
}

T = TypeVar("T")
Config = Mapping[str, Any]  # The keys of a config file of the original.


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of a batch.

    Attributes:
        length: Tokens of a sequence, special ones included.
        batch: Sequences.
    """

    length: int
    batch: int


def parse_shapes(text: str) -> list[Shape]:
    """Return what `128x8,512x2` means: length 128, batch 8, and so on."""
    pairs = (part.split("x") for part in text.split(","))
    return [Shape(int(length), int(batch)) for length, batch in pairs]


def add_options(
    parser: argparse.ArgumentParser, *, shapes: str, model: str, rounds: str
) -> None:
    """Add the options that all comparisons have.

    Args:
        parser: Where to.
        shapes: Default of --shapes.
        model: Help of --albert_config_file, a sentence.
        rounds: Help of --rounds, a sentence.
    """
    add = parser.add_argument
    add(
        "--base",
        default="model_garden_float32",
        help="The implementation that is compared with the others.",
    )
    add(
        "--shapes",
        type=parse_shapes,
        default=shapes,
        help="Sequence length x batch. Default: %(default)s",
    )
    add(
        "--albert_config_file",
        default=str(BASE_CONFIG),
        help=f"{model} Default: base.",
    )
    add("--rounds", type=int, default=5, help=f"{rounds} Default: %(default)s")
    add(
        "--torch_python",
        default=sys.executable,
        help="Python that has torch and transformers; it needs nothing else.",
    )


def check(
    parser: argparse.ArgumentParser,
    settings: argparse.Namespace,
    names: Collection[str],
    counts: Sequence[str],
) -> None:
    """Divide --implementations at commas, and refuse what cannot be run.

    Files are checked too, see `check_paths`.

    Args:
        parser: It ends the program with its usage.
        settings: What it has read; with `implementations` and `base`.
        names: Of the implementations that there are.
        counts: Options that are at least 1.
    """
    settings.implementations = settings.implementations.split(",")
    unknown = sorted(set(settings.implementations) - set(names))
    if unknown:
        parser.error(f"--implementations: there is no {', '.join(unknown)}.")
    for name in counts:
        if getattr(settings, name) < 1:
            parser.error(f"--{name}={getattr(settings, name)} is less than 1.")
    if settings.base not in settings.implementations:
        parser.error(f"--base={settings.base} is not among --implementations.")
    check_paths(parser, settings)


def check_paths(
    parser: argparse.ArgumentParser, settings: argparse.Namespace
) -> None:
    """Refuse files and folders that do not exist, before anything runs.

    Args:
        parser: It ends the program with its usage.
        settings: What it has read; `PATH_OPTIONS` that it lacks are skipped.
    """
    for name in PATH_OPTIONS:
        path = getattr(settings, name, None)
        if path and not os.path.exists(path):
            parser.error(f"--{name}={path} does not exist. Check the path.")


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


# Other implementations. -------------------------------------------------------


def make_model_garden_encoder(config: Config, precision: str) -> Any:
    """Return Model Garden's encoder, without dropout."""
    import tf_keras as keras
    from official.modeling import activations
    from official.nlp.modeling import networks

    if precision == "bfloat16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return networks.AlbertEncoder(
        vocab_size=config["vocab_size"],
        embedding_width=config["embedding_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"],
        intermediate_size=config["intermediate_size"],
        activation=activations.gelu,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        dict_outputs=True,
    )


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


@contextlib.contextmanager
def open_answers() -> Iterator[IO[str]]:
    """Keep standard output for answers; send other output to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # Output of packages must not be mixed with the answers.
        yield answers


def send(answers: IO[str], values: Mapping[str, Any]) -> None:
    """Write an answer: one JSON object per line."""
    print(json.dumps(values), file=answers, flush=True)


def answer_turns(
    answers: IO[str],
    turn: Callable[[], T],
    measure: Callable[[T], Mapping[str, float]],
) -> None:
    """Work once for every line of standard input and report its cost.

    Args:
        answers: Gets `seconds`, `processor_seconds` (of all threads) and what
            `measure` returns, for each turn.
        turn: What is timed.
        measure: Returns more about a turn, such as the `mib` of this process;
            it gets what the turn returned.
    """
    for _ in sys.stdin:
        began, processor = time.perf_counter(), time.process_time()
        done = turn()
        seconds = time.perf_counter() - began
        processor = time.process_time() - processor
        result = {
            "seconds": seconds,
            "processor_seconds": processor,
            **measure(done),
        }
        send(answers, result)


# The parent. ------------------------------------------------------------------


def last_error(text: str) -> str:
    """Return the last exception that a process printed, or its last line."""
    lines = text.strip().split("\n")
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    return (raised or lines)[-1]


class Worker:
    """A process with one implementation."""

    def __init__(self, name: str, command: Sequence[str]):
        """Start the process; `read` its first answer to wait for it."""
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

    def read(self) -> dict[str, Any] | None:
        """Return the next answer; None if the process has ended."""
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def take_turn(self) -> None:
        """Have it do its work once.

        Raises:
            SystemExit: The process has ended.
        """
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        result = self.read()
        if result is None:
            raise SystemExit(f"{self.name} ended: {self.last_words()}")
        self.results.append(result)

    def median(self, key: str) -> float:
        """Return the median of the turns."""
        return statistics.median(result[key] for result in self.results)

    def fastest(self) -> float:
        """Return the seconds of the fastest turn."""
        return min(result["seconds"] for result in self.results)

    def last_words(self) -> str:
        """Return how the process ended and the last error that it printed."""
        status = self._process.wait()
        self._errors.seek(0)
        return f"status {status}: {last_error(self._errors.read())}"

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def start(
    name: str, command: Sequence[str]
) -> tuple[Worker, dict[str, Any], float] | None:
    """Start a process and wait until it is ready.

    Returns:
        It, its first answer, and the seconds it took; None, and a line is
        printed that says why, if it fails.
    """
    worker = Worker(name, command)
    began = time.perf_counter()
    ready = worker.read()
    if ready is None:
        print(f"- {name}: not measured, {worker.last_words()}", flush=True)
        return None
    return worker, ready, time.perf_counter() - began


def compare(
    start_one: Callable[[str], Worker | None],
    report: Callable[[Sequence[Worker]], Sequence[str]],
    names: Sequence[str],
    needed: Sequence[str],
    rounds: int,
    in_a_row: int = 1,
) -> None:
    """Start processes, have them work in turn, and print the results.

    Args:
        start_one: Starts the process of a name; None if that fails.
        report: Returns the lines to print.
        names: What to start; what fails is left out.
        needed: Those of them without which nothing can be said.
        rounds: See `take_turns`.
        in_a_row: See `take_turns`.

    Raises:
        SystemExit: One of `needed` fails, or any in the middle.
    """
    workers: list[Worker] = []
    try:
        for name in names:
            worker = start_one(name)
            if worker:
                workers.append(worker)
            elif name in needed:
                raise SystemExit(f"There is nothing to compare without {name}.")
        how = take_turns(workers, rounds, in_a_row)
        print("", how, *report(workers), "", sep="\n", flush=True)
    finally:
        for worker in workers:
            worker.stop()


def take_turns(workers: Sequence[Worker], rounds: int, in_a_row: int) -> str:
    """Have all processes work in turn, and print progress.

    One more round comes first and does not count: the processes have waited
    for each other, threads and caches are cold.

    Args:
        workers: Processes that are ready.
        rounds: How often each gets its turn.
        in_a_row: What each does then, one after the other.

    Returns:
        A line for people.
    """
    before = os.getloadavg()[0]
    for _ in range(1 + rounds):
        for worker in workers:
            for _ in range(in_a_row):
                worker.take_turn()
    for worker in workers:
        del worker.results[:in_a_row]
    return (
        f"Medians of {rounds} rounds in turn"
        + (f", {in_a_row} in a row" if in_a_row > 1 else "")
        + f"; {os.cpu_count()} processors, load {before:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after."
    )


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Return the lines of a Markdown table; all columns but one hold numbers.

    Args:
        header: A name for each column, the first that of the implementations.
        rows: Cells.
    """
    return [
        f"| {' | '.join(header)} |",
        f"| --- | {' | '.join(['---:'] * (len(header) - 1))} |",
        *(f"| {' | '.join(cells)} |" for cells in rows),
    ]
