r"""Kill jobs at random moments and compare their final results.

    python -m lab.soak --output_dir=soak_output --kills=50

Every job runs undisturbed twice. Then it runs many times and is killed (`kill
-9`) at random moments, one to six times, with or without its process group, and
restarted with the same command until it ends by itself. Its folder must then
equal that of the undisturbed run: every file, every tensor of every checkpoint,
every number of the logs, except times (see compare.py). Other faults follow
(see faults.py).

The moments are drawn from --seed as fractions of the undisturbed run's time:
one in four from all of it, the others after the first output. Results are kept
in --output_dir, so the same command continues after an interruption; they are
valid only for the code that produced them.
"""

import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import random
import shutil
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from albert_tf.common import errors, options
from albert_tf.common.options import option
from lab.soak import bench, compare, faults, jobs

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS_NAME = "results.jsonl"
# Most kills of one run.
_MOST_KILLS = 6
# Share of the kills that may come before the first output.
_EARLY = 0.25


@dataclasses.dataclass(frozen=True)
class SoakOptions:
    """Options of the soak test."""

    output_dir: str = option(help="Folder for what the jobs write.")
    kills: int = option(50, "Kills of each job while it runs.")
    jobs: str = option(
        ",".join(job.name for job in jobs.JOBS), "Jobs, separated by commas."
    )
    faults: str = option(
        ",".join(fault.name for fault in faults.FAULTS),
        "Other faults for these jobs, separated by commas; empty for none.",
    )
    fault_rounds: int = option(3, "Rounds of each fault.")
    num_stories: int = option(
        3600, "Stories that the writer reads; 3,600 are 2.9 MB."
    )
    seed: int = option(12345, "Seed of the random moments and places.")


def run(settings: SoakOptions) -> None:
    """Run all jobs, and print the tables."""
    code = _code()
    place = pathlib.Path(settings.output_dir).resolve() / code[:12]
    place.mkdir(parents=True, exist_ok=True)
    results = Results(place / RESULTS_NAME)
    machine = bench.Bench(place)
    chosen = _chosen(jobs.JOBS, settings.jobs)
    machine.make_inputs(
        settings.num_stories,
        models=any("albert_tf." in job.command.module for job in chosen),
    )
    for job in chosen if settings.kills else ():
        _soak(machine, job, settings, results)
    for fault in _chosen(faults.FAULTS, settings.faults):
        for job in chosen:
            if job.name in fault.jobs:
                _try_fault(machine, fault, job, settings, results)
    text = to_markdown(results, settings)
    (place / "table.md").write_text(text)
    print(text, flush=True)
    if not all(line.get("equal", True) for line in results.lines):
        sys.exit(1)


def _chosen(known: Sequence[Any], names: str) -> list[Any]:
    by_name = {one.name: one for one in known}
    return [by_name[name] for name in filter(None, names.split(","))]


def _code() -> str:
    """Return a digest of all code, to separate results of other code."""
    digest = hashlib.sha256()
    for folder in ("albert_tf", "data_prep", "lab/soak"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Results:
    """The results so far, one JSON object per line."""

    def __init__(self, path: pathlib.Path):
        """Read what an earlier start left."""
        self._path = path
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines += map(json.loads, path.read_text().splitlines())

    def add(self, **values: Any) -> None:
        """Keep a line."""
        self.lines.append(values)
        with self._path.open("a") as stream:
            stream.write(json.dumps(values) + "\n")

    def of(self, kind: str, name: str) -> list[dict[str, Any]]:
        """Return the lines of a kind that belong to a job or fault."""
        return [line for line in self.lines if line.get(kind) == name]


def _say(text: str) -> None:
    print(f"[{datetime.datetime.now():%H:%M:%S}] {text}", flush=True)


# Kills.


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """The result and time of an undisturbed run.

    Attributes:
        begins: Share of the time until the first output.
    """

    content: dict[str, str]
    begins: float
    seconds: float

    def draw(self, rng: random.Random) -> float:
        """Return a moment, as a share of the time."""
        low = 0.0 if rng.random() < _EARLY else self.begins
        return rng.uniform(low, 1.0)


def undisturbed(
    machine: bench.Bench, job: jobs.Job, results: Results
) -> Undisturbed:
    """Return the result of an undisturbed run."""
    known = results.of("undisturbed", job.name)
    if known:
        line = known[-1]
        return Undisturbed(line["content"], line["begins"], line["seconds"])
    first, second = (
        _run_undisturbed(machine, job, name)
        for name in ("undisturbed", "again")
    )
    unequal = compare.differences(first.content, second.content)
    if unequal:
        raise errors.UserError(
            f"Two undisturbed runs of {job.name} differ in {unequal[:20]}"
        )
    _say(f"{job.name}: {second.seconds:.1f} s undisturbed")
    results.add(undisturbed=job.name, **vars(second))
    return second


def _run_undisturbed(
    machine: bench.Bench, job: jobs.Job, name: str
) -> Undisturbed:
    folder = machine.make_folder(job, name)
    begun = time.monotonic()
    process = machine.start(job.command, folder)
    process.wait(is_time=lambda: any(folder.glob(job.begins)))
    begins = time.monotonic() - begun
    status = process.wait()
    seconds = time.monotonic() - begun
    if any(status):
        raise errors.UserError(
            f"{job.name} ends with {status}; see {folder / 'log'}"
        )
    content = machine.content(job, folder)
    return Undisturbed(content, begins / seconds, seconds)


def _soak(
    machine: bench.Bench,
    job: jobs.Job,
    settings: SoakOptions,
    results: Results,
) -> None:
    """Kill a job until enough kills have hit it."""
    expected = undisturbed(machine, job, results)
    while (hits := _hits(results, job)) < settings.kills:
        number = len(results.of("job", job.name))
        rng = random.Random(f"{settings.seed}/{job.name}/{number}")
        folder = machine.make_folder(job, f"trial-{number}")
        most = min(rng.randint(1, _MOST_KILLS), settings.kills - hits)
        line = _trial(machine, job, folder, expected, (rng, most))
        unequal = compare.differences(expected.content, line.pop("content"))
        equal = not unequal and not line["failed"]
        results.add(**line, equal=equal, differs_in=unequal[:20])
        if equal:  # Otherwise keep it for inspection.
            shutil.rmtree(folder)
        wrong = "" if equal else f", NOT EQUAL: {line['failed']} {unequal[:5]}"
        _say(f"{job.name}: {_hits(results, job)}/{settings.kills} kills{wrong}")


def _hits(results: Results, job: jobs.Job) -> int:
    lines = results.of("job", job.name)
    return sum(kill["hit"] for line in lines for kill in line["kills"])


def _trial(
    machine: bench.Bench,
    job: jobs.Job,
    folder: pathlib.Path,
    expected: Undisturbed,
    draws: tuple[random.Random, int],
) -> dict[str, Any]:
    """Kill a run several times, let it finish; return the result.

    Args:
        draws: Where the moments come from, and the most kills.
    """
    rng, most = draws
    begun = time.monotonic()
    kills: list[dict[str, Any]] = []
    status: list[int | None] = []
    for _ in range(most):
        share, how = expected.draw(rng), rng.choice(bench.KINDS_OF_KILL)
        process = machine.start(job.command, folder)
        time.sleep(share * expected.seconds)
        status = process.kill(how)
        hit = any(one == -9 for one in status)
        kills.append({"share": round(share, 4), "how": how, "hit": hit})
        if not hit:
            break
    if kills[-1]["hit"]:
        status = machine.start(job.command, folder).wait()
    failed = f"status {status}" if any(status) else ""
    return {
        "job": job.name,
        "kills": kills,
        "seconds": round(time.monotonic() - begun, 1),
        "failed": failed,
        "content": {} if failed else machine.content(job, folder),
    }


# Other faults.


def _try_fault(
    machine: bench.Bench,
    fault: faults.Fault,
    job: jobs.Job,
    settings: SoakOptions,
    results: Results,
) -> None:
    """Apply a fault to a job for several rounds."""
    expected = undisturbed(machine, job, results)
    done = [x for x in results.of("fault", fault.name) if x["on"] == job.name]
    for number in range(len(done), settings.fault_rounds):
        rng = random.Random(f"{settings.seed}/{fault.name}/{job.name}/{number}")
        begun = time.monotonic()
        seen = None
        while seen is None:  # The run may end before the fault.
            folder = machine.make_folder(job, f"{fault.name}-{number}")
            scene = faults.Scene(
                machine, job, folder, rng, expected.content, expected.seconds
            )
            seen = fault.happen(scene)
        outcome, equal = seen
        results.add(
            fault=fault.name,
            on=job.name,
            outcome=outcome,
            equal=equal,
            seconds=round(time.monotonic() - begun, 1),
        )
        if equal:
            shutil.rmtree(folder)
        _say(f"{fault.name}, {job.name}: {outcome}{'' if equal else ' (BAD)'}")


# The tables.


def to_markdown(results: Results, settings: SoakOptions) -> str:
    """Return the tables, with date and versions."""
    rows = [
        f"{datetime.date.today()}, {os.cpu_count()} cores, TensorFlow "
        f"{metadata.version('tensorflow')}, seed {settings.seed}, code "
        f"{_code()[:12]}",
        "",
        "| job | kills while it ran | runs | equal | seconds |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for job in jobs.JOBS:
        lines = results.of("job", job.name)
        if lines:
            equal = sum(line["equal"] for line in lines)
            seconds = round(sum(line["seconds"] for line in lines))
            hits = _hits(results, job)
            rows.append(_row(job.name, hits, len(lines), equal, seconds))
    rows += ["", "| fault | job | times | as it should be | what happens |"]
    rows += ["| --- | --- | ---: | ---: | --- |"]
    for fault in faults.FAULTS:
        for name in fault.jobs:
            lines = results.of("fault", fault.name)
            lines = [line for line in lines if line["on"] == name]
            good = sum(line["equal"] for line in lines)
            seen = "; ".join(dict.fromkeys(line["outcome"] for line in lines))
            if lines:
                rows.append(_row(fault.name, name, len(lines), good, seen))
    return "\n".join(rows) + "\n"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    options.run_script(run, SoakOptions)
