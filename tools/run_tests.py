"""Run the tests, some files in a process.

    python tools/run_tests.py [ARGUMENT OF PYTEST ...]

Compiled TensorFlow functions stay in memory until the process ends: the 222
tests of tests/albert_tf/training alone take 3.2 GB in one process. Workers of
pytest-xdist live until the end, so it is not used. Many files share a process,
because TensorFlow takes three seconds to import; with slow tests (-m) only a
few do, and each long file has its own. A process that uses more than 3 GiB, or
starts one that does, fails; MOST_MIB in the environment sets another limit.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

MOST_MIB = int(os.environ.get("MOST_MIB", 3 * 1024))  # Of one process.
SHARING, SHARING_OF_ALL = 20, 15  # Short files in a process.
# Their files share a process: they damage copies of files that take 17 seconds
# to make.
TOGETHER = "tests/hostile/"
# Their slow tests take long or much memory. They start first, so that no core
# waits for one of them at the end.
LONG = (
    "end_to_end/test_passages.py",
    "parity/test_bert.py",
    "squad/test_service.py",
    "tasks/test_contract.py",
    "tasks/test_contract_of_classifiers.py",
    "test_base_shape.py",
    "test_create_pretraining_data.py",
    "test_encoder_pages.py",
    "test_export.py",
    "test_export_depths.py",
    "test_finetune.py",
    "test_id_model.py",
    "test_objectives_page.py",
    "test_original_training.py",
    "test_pipeline.py",
    "test_pretraining_at_scale.py",
    "test_saved_model.py",
    "test_serving_page.py",
    "test_task_pages.py",
    "test_train_step.py",
    "test_train_step_of_choices.py",
    "test_training_loop.py",
)
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error)")

_running: set[subprocess.Popen] = set()


def processes() -> int:
    """Return how many run at a time: one for each core, if memory allows."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, pages // (MOST_MIB << 20)))


def find_files(arguments: list[str]) -> list[str]:
    """Return the files with selected tests; leave if there are none."""
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


def group(files: list[str], with_slow: bool) -> list[list[str]]:
    """Assign files to processes; those that take long come first."""
    together = [path for path in files if path.startswith(TOGETHER)]
    others = [path for path in files if path not in together]
    long = [[path] for path in others if with_slow and path.endswith(LONG)]
    short = [path for path in others if [path] not in long]
    most = SHARING_OF_ALL if with_slow else SHARING
    count = -(-len(short) // most)
    # Neighbours, which take about as long, do not share a process.
    shared = [short[i::count] for i in range(count)]
    return [together] * bool(together) + long + shared


def run_files(
    files: list[str], arguments: list[str]
) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Run the selected tests of some files; return counts and skip reasons."""
    paths = [a for a in arguments if pathlib.Path(a.split("::")[0]).exists()]
    options = [a for a in arguments if a not in paths]
    named = [a for a in paths if a.split("::")[0] in files]
    whole = {*files} - {a.split("::")[0] for a in named}
    command = [*PYTEST, "-q", "-rs", *options, *named, *sorted(whole)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _running.add(process)
        _, status, usage = os.wait4(process.pid, 0)
        _running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    lines = text.splitlines() or [""]
    counts = collections.Counter(
        {kind: int(n) for n, kind in COUNTS.findall(lines[-1])}
    )
    mib = usage.ru_maxrss // 1024
    if mib > MOST_MIB:
        text += f"\nA process took {mib} MiB, more than {MOST_MIB}."
    seconds = usage.ru_utime + usage.ru_stime
    is_good = not process.returncode and any(counts) and mib <= MOST_MIB
    print(
        f"{'' if is_good else 'FAILED '}{lines[-1]}, {seconds:.0f} s of CPU, "
        f"{mib:,} MiB: {' '.join(files)}" + ("" if is_good else f"\n{text}"),
        flush=True,
    )
    counts["failed"] += counts.pop("error", 0)
    if not is_good and not counts["failed"]:
        counts["failed"] = 1  # It crashed, or took too much memory.
    skips = re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", text, re.MULTILINE)
    reasons = [r for count, reason in skips for r in [reason] * int(count)]
    return counts, collections.Counter(reasons)


def leave(number: int, _: object) -> None:
    """Kill all processes and end this one after a signal."""
    for process in list(_running):
        process.kill()
    os._exit(128 + number)


def main(arguments: list[str]) -> int:
    """Run all selected tests; return the exit status."""
    begun = time.monotonic()
    counts, reasons = collections.Counter(), collections.Counter()
    groups = group(find_files(arguments), "-m" in arguments)
    with concurrent.futures.ThreadPoolExecutor(processes()) as pool:
        results = pool.map(lambda files: run_files(files, arguments), groups)
        for found, skips in results:
            counts += found
            reasons += skips
    for reason, count in sorted(reasons.items()):
        print(f"skipped {count}: {reason}")
    kinds = ("passed", "failed", "skipped")
    said = ", ".join(f"{counts[kind]} {kind}" for kind in kinds)
    print(f"== {said} in {time.monotonic() - begun:.0f} s")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    sys.exit(main(sys.argv[1:]))
