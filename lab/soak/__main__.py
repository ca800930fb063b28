r"""Kill jobs at random moments and compare their final results.

    python -m lab.soak --output_dir=soak_output --kills=50

Every job runs undisturbed twice. Then it runs many times and is killed (`kill
-9`) at random moments, one to six times, with or without its process group, and
restarted with the same command until it ends by itself. Its folder must then
equal that of the undisturbed run: every file, every tensor of every checkpoint,
every number of the logs, except times (see compare.py).

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
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from albert_tf.common import errors, options
from albert_tf.common.options import option
from lab.soak import bench, compare, jobs

# Most kills of one run.
_MOST_KILLS = 6
# Share of the kills that may come before the first output.
_EARLY = 0.25

Trials = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class SoakOptions:
    """Options of the soak test."""

    output_dir: str = option(help="Folder for what the jobs write.")
    kills: int = option(50, "Kills of each job while it runs.")
    jobs: str = option(
        ",".join(job.name for job in jobs.JOBS), "Jobs, separated by commas."
    )
    num_stories: int = option(
        3600, "Stories that the writer reads; 3,600 are 2.9 MB."
    )
    seed: int = option(12345, "Seed of the random moments.")


def run(settings: SoakOptions) -> None:
    """Run all jobs, and print the table."""
    code = _code()
    name = f"{code}-{settings.seed}-{settings.num_stories}"
    place = pathlib.Path(settings.output_dir).resolve() / name
    by_name = {job.name: job for job in jobs.JOBS}
    names = settings.jobs.split(",")
    errors.require_known("name for `jobs`", names, by_name)
    chosen = [by_name[name] for name in names]
    bench.make_inputs(
        place / "inputs",
        settings.num_stories,
        models=any("albert_tf." in job.command for job in chosen),
    )
    trials = {job.name: soak(place / job.name, job, settings) for job in chosen}
    rows = [
        f"{datetime.date.today()}, {os.cpu_count()} cores, TensorFlow "
        f"{metadata.version('tensorflow')}, seed {settings.seed}, code {code}",
        "",
        "| job | kills while it ran | runs | equal | seconds |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(to_row(name, found) for name, found in trials.items()),
    ]
    text = "\n".join(rows) + "\n"
    (place / "table.md").write_text(text)
    print(text, flush=True)
    if any(trial["wrong"] for found in trials.values() for trial in found):
        sys.exit(1)


def _code() -> str:
    """Return a digest of all code, to separate results of other code."""
    digest = hashlib.sha256()
    for folder in ("albert_tf", "data_prep", "lab/soak"):
        for path in sorted((bench.ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(bench.ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def soak(
    place: pathlib.Path, job: jobs.Job, settings: SoakOptions
) -> list[dict[str, Any]]:
    """Kill a job until enough kills have hit it; return its trials."""
    expected = undisturbed(place, job)
    trials: list[dict[str, Any]] = []
    while (left := settings.kills - count_hits(trials)) > 0:
        name = f"trial-{len(trials)}"
        path = place / f"{name}.json"
        if not path.exists():
            rng = random.Random(f"{settings.seed}/{job.name}/{len(trials)}")
            trial = _trial(place / name, job, expected, rng, left)
            path.write_text(json.dumps(trial))
        trials.append(json.loads(path.read_text()))
        wrong = trials[-1]["wrong"]
        told = f", NOT EQUAL: {wrong}" if wrong else ""
        _say(f"{job.name}: {count_hits(trials)} kills{told}")
    return trials


def count_hits(trials: Trials) -> int:
    return sum(kill["hit"] for trial in trials for kill in trial["kills"])


def to_row(name: str, trials: Trials) -> str:
    """Return the row of a job in the table."""
    equal = sum(not trial["wrong"] for trial in trials)
    seconds = round(sum(trial["seconds"] for trial in trials))
    cells = name, count_hits(trials), len(trials), equal, seconds
    return f"| {' | '.join(map(str, cells))} |"


def _say(text: str) -> None:
    print(f"[{datetime.datetime.now():%H:%M:%S}] {text}", flush=True)


def undisturbed(place: pathlib.Path, job: jobs.Job) -> dict[str, Any]:
    """Return the result of an undisturbed run.

    Returns:
        `content` of its folder, its `seconds`, and `begins`, the share of the
        time until the first output.
    """
    path = place / "undisturbed.json"
    if not path.exists():
        first, second = (
            _run_undisturbed(place / name, job)
            for name in ("undisturbed", "again")
        )
        unequal = compare.differences(first["content"], second["content"])
        if unequal:
            raise errors.UserError(
                f"Two undisturbed runs of {job.name} differ in {unequal[:20]}"
            )
        path.write_text(json.dumps(second))
    found = json.loads(path.read_text())
    _say(f"{job.name}: {found['seconds']:.1f} s undisturbed")
    return found


def _run_undisturbed(folder: pathlib.Path, job: jobs.Job) -> dict[str, Any]:
    bench.make_folder(folder)
    begun = time.monotonic()
    process = bench.start(job.command, folder, job.workers)
    process.wait(is_time=lambda: any(folder.glob(job.begins)))
    begins = time.monotonic() - begun
    status = process.wait()
    seconds = time.monotonic() - begun
    if any(status):
        raise errors.UserError(
            f"{job.name} ends with {status}; see {folder / 'log'}"
        )
    content = bench.content(job, folder)
    return {"content": content, "begins": begins / seconds, "seconds": seconds}


def _trial(
    folder: pathlib.Path,
    job: jobs.Job,
    expected: Mapping[str, Any],
    rng: random.Random,
    most: int,
) -> dict[str, Any]:
    """Kill a run several times, let it finish; return the result.

    Args:
        most: The most kills.
    """
    bench.make_folder(folder)
    begun = time.monotonic()
    kills: list[dict[str, Any]] = []
    status: list[int | None] = []
    for _ in range(min(rng.randint(1, _MOST_KILLS), most)):
        low = 0.0 if rng.random() < _EARLY else expected["begins"]
        share, how = rng.uniform(low, 1.0), rng.choice(bench.KINDS_OF_KILL)
        process = bench.start(job.command, folder, job.workers)
        time.sleep(share * expected["seconds"])
        status = process.kill(how)
        hit = any(one == -9 for one in status)
        kills.append({"share": round(share, 4), "how": how, "hit": hit})
        if not hit:
            break
    if kills[-1]["hit"]:
        status = bench.start(job.command, folder, job.workers).wait()
    wrong = [f"status {status}"]
    if not any(status):
        found = bench.content(job, folder)
        wrong = compare.differences(expected["content"], found)
    if not wrong:  # Otherwise keep it for inspection.
        shutil.rmtree(folder)
    seconds = round(time.monotonic() - begun, 1)
    return {"kills": kills, "seconds": seconds, "wrong": wrong[:20]}


if __name__ == "__main__":
    options.run_script(run, SoakOptions)
