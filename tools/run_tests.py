"""Run the tests, a few files in a process.

    python tools/run_tests.py [ARGUMENT OF PYTEST ...]

Compiled TensorFlow functions stay in memory until the process ends. So each
long file has its own process, and short files share one. As many processes run
in parallel as cores and memory allow. A process that uses more than 3 GiB, or
starts one that does, fails.
"""

import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
from xml.etree import ElementTree

MOST_MIB = 3 * 1024  # Of one process.
MOST_PROCESSES = 4
SHARING = 4  # Short files in a process.
# They start first, so that no core waits for one of them at the end.
LONG = (
    *("test_train_step.py", "test_train_step_of_choices.py"),
    *("test_finetune.py", "test_training_loop.py"),
    *("test_base_shape.py", "test_readers.py", "test_commands.py"),
    "test_fuzz.py",
    *(
        "test_pretraining_at_scale.py",
        "test_pipeline.py",
        "test_saved_model.py",
    ),
    *("test_original_training.py", "test_answer_service.py"),
    *("test_create_pretraining_data.py", "test_id_model.py", "test_demo.py"),
    *("test_serving_page.py", "test_export.py"),
)
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]

_running: set[subprocess.Popen[bytes]] = set()


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of the tests of one process.

    Attributes:
        files: The test files.
        counts: How many "passed", "failed" and "skipped".
        reasons: Why tests were skipped, one entry per test.
        mib: Peak memory of the process, or of one that it started.
        is_good: Whether all passed or were skipped, within the memory limit.
    """

    files: tuple[str, ...]
    counts: collections.Counter[str]
    reasons: tuple[str, ...]
    seconds: float
    mib: int
    output: str
    is_good: bool


def processes() -> int:
    """Return how many processes run at a time."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, MOST_PROCESSES, pages // (MOST_MIB << 20)))


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separate files, folders and tests from pytest's options."""
    paths = [
        argument
        for argument in arguments
        if pathlib.Path(argument.partition("::")[0]).exists()
    ]
    return paths, [a for a in arguments if a not in paths]


def find_files(arguments: list[str]) -> list[str]:
    """Return the files with selected tests.

    Raises:
        SystemExit: Pytest cannot collect tests, or there are none.
    """
    done = subprocess.run(
        [*PYTEST, "--collect-only", "-qq", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    files = re.findall(r"^(\S+\.py): \d+$", done.stdout, re.MULTILINE)
    if done.returncode or not files:
        print(done.stdout)
        sys.exit(done.returncode or 5)
    return files


def group(files: list[str]) -> list[tuple[str, ...]]:
    """Assign files to processes; long files come first."""
    long = [(path,) for path in files if os.path.basename(path) in LONG]
    short = [path for path in files if os.path.basename(path) not in LONG]
    return [
        *long,
        *(
            tuple(short[first : first + SHARING])
            for first in range(0, len(short), SHARING)
        ),
    ]


def run_files(files: tuple[str, ...], arguments: list[str]) -> Result:
    """Run the selected tests of some files in a process."""
    paths, options = split(arguments)
    chosen = [path for path in paths if path.partition("::")[0] in files]
    named = {path.partition("::")[0] for path in chosen}
    chosen += [path for path in files if path not in named]
    with (
        tempfile.TemporaryDirectory() as folder,
        open(f"{folder}/output", "w+b") as output,
    ):
        report = f"{folder}/report.xml"
        begun = time.monotonic()
        process = subprocess.Popen(
            [*PYTEST, "-q", f"--junitxml={report}", *options, *chosen],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _running.add(process)
        _, status, usage = os.wait4(process.pid, 0)
        _running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        counts, reasons = read_report(report)
    mib = usage.ru_maxrss // 1024
    if mib > MOST_MIB:
        text += f"\nA process took {mib} MiB, more than {MOST_MIB}.\n"
    return Result(
        files=files,
        counts=counts,
        reasons=reasons,
        seconds=time.monotonic() - begun,
        mib=mib,
        output=text,
        is_good=process.returncode == 0 and bool(counts) and mib <= MOST_MIB,
    )


def read_report(path: str) -> tuple[collections.Counter[str], tuple[str, ...]]:
    """Return the counts of a JUnit file, and why tests were skipped."""
    counts: collections.Counter[str] = collections.Counter()
    if not os.path.exists(path):  # Pytest crashed.
        return counts, ()
    root = ElementTree.parse(path).getroot()
    reasons = []
    for case in root.iter("testcase"):
        skipped = case.find("skipped")
        failed = {"failure", "error"} & {child.tag for child in case}
        if skipped is not None:
            reasons.append(skipped.get("message", ""))
        kind = "failed" if failed else "passed"
        counts["skipped" if skipped is not None else kind] += 1
    return counts, tuple(reasons)


def leave(number: int, _: types.FrameType | None) -> None:
    """Kill all processes and end this one after a signal."""
    for process in list(_running):
        process.kill()
    os._exit(128 + number)


def show(result: Result) -> None:
    """Print a line about a process, and its output if it failed."""
    counts = ", ".join(f"{n} {kind}" for kind, n in result.counts.items())
    print(
        f"{counts or 'no result'} in {result.seconds:.0f} s, "
        f"{result.mib:,} MiB: {' '.join(result.files)}",
        flush=True,
    )
    if not result.is_good:
        print(result.output, flush=True)


def main(arguments: list[str]) -> int:
    """Run all selected tests; return the exit status."""
    begun = time.monotonic()
    groups = group(find_files(arguments))
    results = []
    with concurrent.futures.ThreadPoolExecutor(processes()) as pool:
        jobs = [pool.submit(run_files, files, arguments) for files in groups]
        for job in concurrent.futures.as_completed(jobs):
            results.append(job.result())
            show(results[-1])
    for reason, count in sorted(
        collections.Counter(r for x in results for r in x.reasons).items()
    ):
        print(f"skipped {count}: {reason}")
    for result in results:
        if not result.is_good:
            print(f"FAILED {' '.join(result.files)}")
    print(closing(results, time.monotonic() - begun))
    return int(not all(result.is_good for result in results))


def closing(results: list[Result], seconds: float) -> str:
    """Return the last line."""
    counts = sum((r.counts for r in results), collections.Counter())
    kinds = ("passed", "failed", "skipped")
    largest = max(results, key=lambda result: result.mib)
    return (
        f"== {', '.join(f'{counts[kind]} {kind}' for kind in kinds)} in "
        f"{seconds:.0f} s; largest process {largest.mib:,} MiB: "
        f"{' '.join(largest.files)}"
    )


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    sys.exit(main(sys.argv[1:]))
