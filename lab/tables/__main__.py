r"""Run the plan of a table, and write the table.

    python -m lab.tables --plan=lab/tables/plans/table5.toml \
        --corpus_dir=CORPUS --data_dir=DATA --output_dir=OUTPUT

CORPUS holds train.txt and held_out.txt, of lab.measure.make_corpus or others.
Started again after any interruption, the command goes on. See README.md.
"""

import dataclasses
import importlib.util
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging
from doit import cmd_base, doit_cmd, exceptions

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    options,
    preemption,
    ranges,
)
from albert_tf.common.options import checked, option
from lab.tables import plan, results


@dataclasses.dataclass(frozen=True)
@checked
class TablesOptions:
    """Options of the command."""

    plan: str = option(help="The plan, a TOML file.")
    output_dir: str = option(
        help="Folder of all results. Plans may share it, and with it the steps "
        "that they have in common."
    )
    corpus_dir: str = option(help="Folder with train.txt and held_out.txt.")
    data_dir: str = option("", "Folder of the data of lab.measure.evaluate.")
    size: str = option("default", "A size of the plan, such as quick.")
    cell: int = option(
        0, "Run this cell alone; 0: all.", within=ranges.EXAMPLES_OR_NONE
    )
    dry_run: bool = option(False, "Only print cells, commands and hours.")


def describe(cells: Sequence[plan.Cell], output_dir: str) -> str:
    """Return cells, commands, and the hours that are expected."""
    tasks = {task.name: task for cell in cells for task in cell.tasks.values()}
    lines = [
        f"cell {number}: {cell.row}, seed {cell.seed}"
        for number, cell in enumerate(cells, 1)
    ]
    left = 0.0
    for task in tasks.values():
        is_done = results.is_done(output_dir, task)
        left += 0 if is_done else task.minutes
        state = "done" if is_done else f"{task.minutes:g} minutes"
        lines += [f"\n{task.name} ({state})", f"  {shlex.join(task.words)}"]
    whole = sum(task.minutes for task in tasks.values()) / 60
    lines.append(f"\n{whole:.1f} hours, {left / 60:.1f} of them left")
    return "\n".join(lines) + "\n"


def check_options(cells: Sequence[plan.Cell], output_dir: str) -> None:
    """Refuse wrong options of this project's commands before any runs."""
    for cell in cells:
        for step, task in cell.tasks.items():
            package = "".join(task.words[:1]).split(".")[0]
            if not (package and importlib.util.find_spec(package)):
                raise errors.UserError(
                    f"Step {step} of {cell.row}: there is no module "
                    f"{package!r}. Begin the command with one."
                )
            if (
                package not in ("albert_tf", "data_prep", "lab")
                or cell.seed != cells[0].seed
                or results.is_done(output_dir, task)
            ):
                continue
            done = subprocess.run(
                [sys.executable, "-m", *task.words, "--only_check_args"],
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                last = done.stderr.strip().split("\n")[-1]
                raise errors.UserError(
                    f"Step {step} of {cell.row}: {last.removeprefix('error: ')}"
                )


def execute(task: plan.Task, output_dir: str) -> exceptions.TaskFailed | None:
    """Run a command, its output in a log, and leave a stamp."""
    path = os.path.join(output_dir, task.name)
    # Cells that run beside each other wait for what they share. The command
    # holds the lock, too: if only this process is killed, it is waited for.
    with folder_lock.hold(
        path, "output_dir", math.inf, lock=f"{path}.lock"
    ) as lock:
        files.make_folder(path, "output_dir")
        if results.is_done(output_dir, task):
            return None
        if task.config:
            config = os.path.join(output_dir, plan.config_path(task.config))
            files.make_folder(os.path.dirname(config))
            content = task.config.to_json()  # Cells write it all at once.
            files.write_text(config, content, unfinished_work=True)
        begun = time.time()
        status = _wait(task.words, f"{path}.log", lock)
        if status:
            last = results.last_line(output_dir, task)
            return exceptions.TaskFailed(f"exit status {status}: {last}")
        minutes = (time.time() - begun) / 60
        stamp = {"command": task.words, "minutes": minutes}
        files.write_text(f"{path}.json", json.dumps(stamp, indent=2) + "\n")
        return None


def _wait(words: Sequence[str], log_file: str, lock: int | None) -> int:
    """Run a command to its end; return its exit status."""
    with open(log_file, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=log,
            stderr=log,
            pass_fds=[] if lock is None else [lock],
        )
        try:
            return process.wait()
        except BaseException:  # This process is to end: so is that one.
            process.terminate()
            process.wait()
            raise


def execute_all(cells: Sequence[plan.Cell], output_dir: str) -> bool:
    """Run what is missing, one command at a time; return whether all is there.

    A failed command does not keep those from running that do not need it.
    """
    tasks = {task.name: task for cell in cells for task in cell.tasks.values()}

    def task_command() -> Iterator[dict[str, Any]]:
        for name, task in tasks.items():
            yield {
                "name": name,
                "actions": [(execute, [task, output_dir])],
                "targets": [os.path.join(output_dir, f"{name}.json")],
                "uptodate": [True],  # If that is there.
                "task_dep": [f"command:{need}" for need in task.needs],
            }

    # The stamps say what is done, not doit's notes.
    with tempfile.TemporaryDirectory() as notes:
        config = {
            "dep_file": os.path.join(notes, "doit"),
            "continue": True,
            "verbosity": 2,
        }
        loader = cmd_base.ModuleTaskLoader(
            {"task_command": task_command, "DOIT_CONFIG": config}
        )
        names = [f"command:{name}" for name in tasks]
        return doit_cmd.DoitMain(loader).run(["run", *names]) == 0


def run(settings: TablesOptions) -> None:
    """Run the plan, or print what would be run."""
    chosen = plan.read(settings.plan, settings.size)
    places = {
        name: getattr(settings, name)
        for name in ("output_dir", "corpus_dir", "data_dir")
    }
    for name in ("train.txt", "held_out.txt"):
        path = os.path.join(settings.corpus_dir, name)
        files.require_file(path, "corpus_dir")
    if settings.data_dir and not os.path.isdir(settings.data_dir):
        raise errors.UserError(
            f"`data_dir={settings.data_dir}` is not a folder. Check the path."
        )
    cells = chosen.cells(places)
    if settings.cell > len(cells):
        raise errors.UserError(
            f"`cell={settings.cell}` is not there. Give 1 to {len(cells)}."
        )
    wanted = cells[settings.cell - 1 :][:1] if settings.cell else cells
    check_options(wanted, settings.output_dir)
    if settings.dry_run:
        sys.stdout.write(describe(wanted, settings.output_dir))
        return
    files.make_folder(settings.output_dir, "output_dir")
    with preemption.exiting_at_once():
        is_done = execute_all(wanted, settings.output_dir)
    name = os.path.splitext(os.path.basename(settings.plan))[0]
    folder = os.path.join(
        settings.output_dir, "tables", f"{name}-{settings.size}"
    )
    with folder_lock.hold(folder, "output_dir", math.inf):
        results.write(chosen, cells, settings.output_dir, folder)
    logging.info("Wrote %s/table.md.", folder)
    if not is_done:
        sys.exit("Some commands failed; the table names them.")


if __name__ == "__main__":
    options.run_script(run, TablesOptions)
