"""Time how commands start: to the help, a refused option, the first answer.

    python benchmarks/start.py --spm_model_file=30k-clean.model

Each command is a whole process. The processes run in turn, and medians are
printed as a Markdown table.

Without --spm_model_file: the seconds to the end of `--help`, and to the refusal
of an option that does not exist, for every command.

With it: small jobs, so that little but the start is measured. One step of
pretraining, of a tiny model and of albert-base, on 8 sequences of 64; the same
command for one more step (restarted); one sentence to a SavedModel; an export;
a run card. "First" is the time to the first step or answer, "end" to the end of
the process; CPU seconds are those of the whole process. Imports are measured in
one more run, with `-X importtime`, which makes them slower: the seconds in the
modules of TensorFlow, and of all packages.
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import side_by_side

TEXT = "The island has a lighthouse, and nobody remembers who built it.\n"
STEP = "train step "  # What run_pretraining prints after its first step.
IMPORT = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *([\w.]+)$")
CONFIGS = {
    "tiny": side_by_side.BASE_CONFIG.with_name("albert_tiny.json"),
    "base": side_by_side.BASE_CONFIG,
}
LENGTH, PREDICTIONS, BATCH = 64, 10, 8

# Commands of which only the help and a refused option are timed.
MODULES = [
    *(
        f"albert_tf.{name}"
        for name in (
            "run_pretraining run_classifier run_squad run_race run_glue "
            "ensemble predict export export_train_step convert_checkpoint "
            "demo write_run_card zip_glue_submission"
        ).split()
    ),
    *(
        f"data_prep.{name}"
        for name in (
            "extract_passages split_sentences train_sentencepiece "
            "train_wordpiece compare_vocabularies create_pretraining_data "
            "inspect_records create_finetuning_data make_demo_data"
        ).split()
    ),
]


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that does some work.

    Attributes:
        name: For people.
        command: Module and arguments.
        first: What the line of the first step or answer begins with; None if
            only the end counts.
        before: Called before each run.
    """

    name: str
    command: Sequence[str]
    first: str | None = None
    before: Callable[[], None] = lambda: None


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a process took, in seconds.

    Attributes:
        first: Until its first step or answer; None if there was none.
        end: Until its end.
        processor: CPU time of the whole process.
        output: What it printed.
        status: Its exit status.
    """

    first: float | None
    end: float
    processor: float
    output: str
    status: int


def time_process(command: Sequence[str], first: str | None = None) -> Cost:
    """Run a command of this project with a line of text as its input.

    Args:
        command: What follows `python`.
        first: See `Job`.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, seen, lines = time.perf_counter(), None, []
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=side_by_side.ROOT,
        env={**os.environ, **side_by_side.ENVIRONMENT},
    ) as process:
        assert process.stdin and process.stdout
        try:
            process.stdin.write(TEXT)
            process.stdin.close()
        except BrokenPipeError:  # It needs no input.
            pass
        for line in process.stdout:
            if seen is None and first is not None and line.startswith(first):
                seen = time.perf_counter() - began
            lines.append(line)
    end = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime
    processor += after.ru_stime - before.ru_stime
    return Cost(seen, end, processor, "".join(lines), process.returncode)


def import_seconds(report: str) -> dict[str, float]:
    r"""Return the seconds of each top-level package, and of `all`.

    Example:
        import_seconds("import time: 2000000 | 3000000 |   numpy.linalg\\n") =
            {"numpy": 2.0, "all": 2.0}

    Args:
        report: What `python -X importtime` prints; other lines are ignored.
    """
    found: collections.Counter[str] = collections.Counter()
    for line in report.splitlines():
        if match := IMPORT.match(line):
            seconds = int(match[1]) / 1e6
            found[match[2].partition(".")[0]] += seconds
            found["all"] += seconds
    return dict(found)


def medians(costs: Sequence[Cost]) -> list[str]:
    """Return the cells of first, end and CPU seconds."""
    firsts = [cost.first for cost in costs if cost.first is not None]
    return [
        f"{statistics.median(firsts):.1f}" if firsts else "",
        f"{statistics.median(cost.end for cost in costs):.1f}",
        f"{statistics.median(cost.processor for cost in costs):.1f}",
    ]


def prepare(command: Sequence[str]) -> None:
    """Run a command whose result the jobs need.

    Raises:
        SystemExit: It fails.
    """
    done = time_process(command)
    if done.status:
        sys.exit(f"{command}: {side_by_side.last_error(done.output)}")


def remove(folder: pathlib.Path) -> None:
    """Remove the files of a folder that a job writes anew."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def make_jobs(folder: pathlib.Path, vocabulary: str) -> list[Job]:
    """Return the jobs; write what they need into a folder."""
    text, records = folder / "text.txt", folder / "train.tfrecord"
    text.write_text((TEXT * 8 + "\n") * 50)
    shape = [
        f"--spm_model_file={vocabulary}",
        f"--max_seq_length={LENGTH}",
        f"--max_predictions_per_seq={PREDICTIONS}",
    ]
    prepare(
        [
            *("-m", "data_prep.create_pretraining_data", *shape),
            *(f"--input_file={text}", f"--output_file={records}"),
        ]
    )
    pretrain = [
        *("-m", "albert_tf.run_pretraining", *shape),
        *(f"--input_file={records}", f"--train_batch_size={BATCH}"),
        "--num_warmup_steps=0",
    ]
    return [
        job
        for size, config in CONFIGS.items()
        for job in make_jobs_of_model(
            folder, size, [*pretrain, f"--albert_config_file={config}"]
        )
    ]


def make_jobs_of_model(
    folder: pathlib.Path, size: str, pretrain: Sequence[str]
) -> list[Job]:
    """Return the jobs with one model; train it for a step first."""
    run, saved = folder / size, folder / f"{size}_saved_model"
    prepare([*pretrain, f"--output_dir={run}", "--num_train_steps=1"])
    export = ["-m", "albert_tf.export", f"--run_dir={run}", "--overwrite"]
    prepare([*export, f"--export_dir={saved}"])
    again = folder / f"{size}_again"
    job = [*pretrain, f"--output_dir={again}"]

    def restarted() -> None:
        remove(again)
        prepare([*job, "--num_train_steps=1"])

    return [
        Job(
            f"run_pretraining, {size}",
            [*job, "--num_train_steps=1"],
            STEP,
            lambda: remove(again),
        ),
        Job(
            f"run_pretraining, {size}, restarted",
            [*job, "--num_train_steps=2"],
            STEP,
            restarted,
        ),
        Job(
            f"predict --saved_model, {size}",
            ["-m", "albert_tf.predict", f"--saved_model={saved}"],
            "{",
        ),
        Job(
            f"export, {size}",
            [*export, f"--export_dir={folder / 'exported'}"],
        ),
        Job(
            f"write_run_card, {size}",
            ["-m", "albert_tf.write_run_card", f"--output_dir={run}"],
        ),
    ]


def time_jobs(jobs: Sequence[Job], rounds: int) -> list[list[str]]:
    """Run the jobs in turn; return a row for each."""
    costs: dict[str, list[Cost]] = {job.name: [] for job in jobs}
    for _ in range(rounds):
        for job in jobs:
            job.before()
            cost = time_process(job.command, job.first)
            if cost.status:
                error = side_by_side.last_error(cost.output)
                print(f"- {job.name}: not measured, {error}", flush=True)
            else:
                costs[job.name].append(cost)
    rows = []
    for job in jobs:
        if costs[job.name]:
            job.before()
            traced = time_process(["-X", "importtime", *job.command])
            shares = import_seconds(traced.output)
            cells = [shares.get(name, 0.0) for name in ("tensorflow", "all")]
            rows.append(
                [
                    job.name,
                    *medians(costs[job.name]),
                    *(f"{cell:.1f}" for cell in cells),
                ]
            )
    return rows


def time_refusals(modules: Sequence[str], rounds: int) -> list[list[str]]:
    """Time `--help` and an unknown option; return a row for each module."""
    costs: dict[str, dict[str, list[Cost]]] = {
        module: {"--help": [], "--no_such_option=1": []} for module in modules
    }
    for _ in range(rounds):
        for module, options in costs.items():
            for option, found in options.items():
                found.append(time_process(["-m", module, option]))
    return [
        [
            module,
            *(
                f"{statistics.median(c.end for c in found):.2f}"
                for found in options.values()
            ),
        ]
        for module, options in costs.items()
    ]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--spm_model_file",
        help="SentencePiece model. Without it, no jobs, only help and refusal.",
    )
    add("--rounds", type=int, default=3, help="Default: %(default)s")
    add("--only", default="", help="Jobs whose name has this part.")
    return parser


def main() -> None:
    """Print both tables."""
    settings = make_parser().parse_args()
    if settings.spm_model_file:
        with tempfile.TemporaryDirectory() as name:
            jobs = make_jobs(pathlib.Path(name), settings.spm_model_file)
            jobs = [job for job in jobs if settings.only in job.name]
            rows = time_jobs(jobs, settings.rounds)
        header = ["job", "first", "end", "CPU", "TensorFlow", "all imports"]
    else:
        rows = time_refusals(MODULES, settings.rounds)
        header = ["command", "help", "refused"]
    print(*side_by_side.format_table(header, rows), sep="\n")


if __name__ == "__main__":
    main()
