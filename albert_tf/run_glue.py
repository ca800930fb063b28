r"""Finetune ALBERT on the tasks of GLUE, one by one, and print their table.

    python -m albert_tf.run_glue --data_dir=glue --output_dir=runs/glue \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base \
        --num_runs=5

Each task is a process of `run_classifier` with its recipe of configs/glue, so a
finished suite lies in one folder for each task. Started again with the same
options, it goes on where it stopped.
"""

import contextlib
import dataclasses
import io
import os
import shlex
import statistics
import subprocess
import sys
import zipfile

from absl import logging

from albert_tf.common import (
    configs,
    errors,
    files,
    folder_lock,
    options,
    outputs,
    ranges,
    scores,
)
from albert_tf.common.options import checked, option, shown
from albert_tf.tasks.glue import specs

TABLE_NAME = "glue_table.md"
_TABLE_HEAD = (
    "| task | metrics | median | score | spread | runs |",
    "| --- | --- | ---: | ---: | ---: | ---: |",
)
_TRAINED = tuple(name for name in specs.TASKS if name != "ax")
# Small tasks that gain from a model that was finetuned for MNLI; ALBERT §4.9.
FROM_MNLI = ("rte", "sts-b", "mrpc")
_SHARED = (
    "albert_config_file",
    "spm_model_file",
    "vocab_file",
    "init_checkpoint",
    "num_runs",
)


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="albert_config_file spm_model_file vocab_file init_checkpoint",
    Data="data_dir tasks",
    Training="recipe_dir from_mnli num_runs overrides",
    Output="output_dir",
)
class GlueOptions:
    """Options of run_glue; those without a default here are the recipes'."""

    data_dir: str = option(help="Folder that holds the GLUE task folders.")
    output_dir: str = option(help="Folder that gets one folder for each task.")
    tasks: str = option(",".join(_TRAINED), "Tasks, separated by commas.")
    recipe_dir: str = option(
        "configs/glue", "Folder of flag files, TASK.flags for each task."
    )
    from_mnli: bool = option(
        False,
        "Whether RTE, STS-B and MRPC start from the best finetuned MNLI model "
        "of this suite, with a new head.",
    )
    albert_config_file: str | None = option(None, "See run_classifier.")
    spm_model_file: str | None = option(None, "See run_classifier.")
    vocab_file: str | None = option(None, "See run_classifier.")
    init_checkpoint: str | None = option(None, "See run_classifier.")
    num_runs: int | None = option(
        None, "See run_classifier.", within=ranges.RUNS
    )
    overrides: str = option(
        "",
        "Further options of run_classifier for all tasks, which win over the "
        "recipes, such as '--max_seq_length=128 --train_batch_size=16'.",
    )
    submission_file: str | None = option(
        None,
        "ZIP file to write for GLUE's leaderboard, with the predictions of all "
        "tasks in --output_dir, those of earlier commands too.",
    )


def run(settings: GlueOptions) -> None:
    names = choose_tasks(settings)
    if settings.submission_file:
        check_submission(settings, names)
    path = os.path.join(settings.output_dir, TABLE_NAME)
    outputs.check(settings, "output_dir", [path], is_own=_is_table(path))
    with folder_lock.hold(settings.output_dir, "output_dir"):
        for name in names:
            command = [
                *(sys.executable, "-m", "albert_tf.run_classifier"),
                *flags_of(settings, name),
            ]
            logging.info("%s", shlex.join(command[1:]))
            status = subprocess.run(command, check=False).returncode
            if status:
                logging.error(
                    "The task %s ended with status %d; its message is above. "
                    "Fix the cause and run the same command again: finished "
                    "tasks are not trained again.",
                    name,
                    status,
                )
                sys.exit(max(status, 1))  # Below 0: it was killed.
        summaries = {
            name: scores.read(os.path.join(settings.output_dir, name))
            for name in names
        }
        table = to_markdown(summaries)
        files.write_text(path, table)
        print(table, end="", flush=True)
        if settings.submission_file:
            write_submission(settings.output_dir, settings.submission_file)


def choose_tasks(settings: GlueOptions) -> list[str]:
    names = [name.strip().lower() for name in settings.tasks.split(",")]
    files.refuse_file(settings.recipe_dir, "recipe_dir")
    files.refuse_file(settings.data_dir, "data_dir")
    for name in names:
        if name not in _TRAINED:
            raise errors.UserError(
                f"--tasks has {name!r}, which is no task that can be trained. "
                f"Allowed are {', '.join(_TRAINED)}."
            )
        files.require_file(_recipe(settings, name), "recipe_dir")
    if not settings.from_mnli:
        return names
    if "mnli" not in names:
        raise errors.UserError(
            f"--from_mnli needs mnli among --tasks={settings.tasks}. Add it."
        )
    return sorted(names, key=lambda name: name != "mnli")


def _recipe(settings: GlueOptions, name: str) -> str:
    return configs.find(os.path.join(settings.recipe_dir, f"{name}.flags"))


def flags_of(settings: GlueOptions, name: str) -> list[str]:
    flags = {
        "flagfile": _recipe(settings, name),
        "task_name": name,
        "data_dir": settings.data_dir,
        "output_dir": os.path.join(settings.output_dir, name),
    }
    for shared in _SHARED:
        if getattr(settings, shared) is not None:
            flags[shared] = getattr(settings, shared)
    if settings.from_mnli and name in FROM_MNLI:
        summary = scores.read(os.path.join(settings.output_dir, "mnli"))
        flags["init_checkpoint"] = summary.best.folder
        flags["new_head"] = "true"
    return [
        *(f"--{key}={value}" for key, value in flags.items()),
        *shlex.split(settings.overrides),
    ]


def _predictions(output_dir: str, task: str) -> dict[str, str]:
    names = [split.submission for split in specs.TASKS[task].splits.values()]
    return {n: os.path.join(output_dir, task, n) for n in names if n}


def _is_table(path: str) -> bool:
    head = "\n".join(_TABLE_HEAD).encode()
    return files.exists(path) and files.read_bytes(path).startswith(head)


def check_submission(settings: GlueOptions, names: list[str]) -> None:
    path, is_own = str(settings.submission_file), False
    members = {n for task in _TRAINED for n in _predictions("", task)}
    with contextlib.suppress(OSError, zipfile.BadZipFile):
        with zipfile.ZipFile(path) as archive:
            is_own = set(archive.namelist()) == members
    outputs.check(settings, "submission_file", [path], is_own=is_own)
    missing = [
        task
        for task in _TRAINED
        if task not in names
        and not all(
            map(files.exists, _predictions(settings.output_dir, task).values())
        )
    ]
    if missing:
        raise errors.UserError(
            f"`submission_file={settings.submission_file}` needs the "
            "predictions of all tasks. Add these to `tasks`, or leave "
            f"`submission_file` out: {', '.join(missing)}."
        )


def write_submission(output_dir: str, path: str) -> None:
    """Pack the predictions of all tasks; those of MNLI include AX."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for task in _TRAINED:
            for name, file in _predictions(output_dir, task).items():
                # Without the time of day: equal predictions, equal bytes. A
                # bare ZipInfo says that its file is stored, and wins.
                archive.writestr(
                    zipfile.ZipInfo(name),
                    files.read_bytes(file),
                    zipfile.ZIP_DEFLATED,
                )
    with files.replace_atomically(path) as stream:
        stream.write(content.getvalue())


def to_markdown(summaries: dict[str, scores.Summary]) -> str:
    """Return the table of a suite: medians over runs, in percent.

    Of each task GLUE's own metrics, of MNLI those of both dev sets. Several
    count with their mean, and the average is over tasks; source: the GLUE
    paper, section 3.
    """
    lines = [*_TABLE_HEAD]
    means = []
    for name, summary in summaries.items():
        spec = specs.TASKS[name]
        official = spec.metrics[: spec.official]
        medians = {
            key: value
            for key, value in summary.medians.items()
            if key.removesuffix("_mismatched") in official
        }
        means.append(100 * statistics.fmean(medians.values()))
        spreads = summary.over_runs(scores.sample_deviation)
        lines.append(
            f"| {name} | {' / '.join(medians)} | "
            f"{' / '.join(f'{100 * v:.1f}' for v in medians.values())} | "
            f"{means[-1]:.1f} | "
            f"{' / '.join(f'{100 * spreads[key]:.1f}' for key in medians)} | "
            f"{len(summary.runs)} |"
        )
    lines.append(
        f"| average of {len(means)} | | | {statistics.fmean(means):.1f} | | |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    options.run_script(run, GlueOptions)
