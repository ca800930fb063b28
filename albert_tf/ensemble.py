r"""Average the predictions of several finetuned models, without training again.

    python -m albert_tf.ensemble --run_dirs='runs/rte/run_*' \
        --output_dir=runs/rte/ensemble

The models may be of any size and length, but of one task; for SQuAD, where they
speak of places in windows, of one vocabulary and one kind of windows. What each
of them said about a split lies in its folder (`dev_outputs.npz`, and
`test_outputs.npz` after --do_predict). Class probabilities are averaged, or the
numbers of a regression; each task says how, in its `combine`. Source: ALBERT
§4.9.
"""

import dataclasses
import glob
import os
from collections.abc import Iterable

from absl import logging

from albert_tf import (
    errors,
    files,
    folder_lock,
    options,
    run_folder,
    run_log,
    scores,
    tokenization,
)
from albert_tf.options import option
from albert_tf.tasks import base, features, registry, saved_outputs


@dataclasses.dataclass(frozen=True)
class EnsembleOptions:
    """Options of ensemble."""

    run_dirs: str = option(
        help="Folders of finetuned models, or patterns, separated by commas."
    )
    output_dir: str = option(help="Folder for scores and predictions.")
    task_module: str | None = option(
        None, "The --task_module of the runs, if they had one."
    )


def run(settings: EnsembleOptions) -> None:
    """Combine the saved outputs of all runs; score and write the result."""
    folders = find_folders(settings.run_dirs)
    task = _make_task(folders, settings.task_module)
    splits = [
        split
        for split in (*task.eval_splits, *task.test_splits)
        if any(files.exists(saved_outputs.path(f, split)) for f in folders)
    ]
    if not splits:
        raise errors.UserError(
            f"--run_dirs={settings.run_dirs} have no saved outputs. Run their "
            "command again with --do_eval or --do_predict."
        )
    with folder_lock.hold(settings.output_dir, "output_dir"):
        _combine(settings, folders, task, dict.fromkeys(splits))


def _combine(
    settings: EnsembleOptions,
    folders: list[str],
    task: base.Task,
    splits: Iterable[str],
) -> None:
    """Write the mean of the outputs of each split, its scores, predictions."""
    files.make_folder(settings.output_dir, "output_dir")
    numbers: dict[str, float] = {}
    for split in splits:
        saved = [saved_outputs.load(folder, split) for folder in folders]
        check_alike(folders, saved, split)
        if task.outputs_are_places:
            check_records(folders, saved, split)
        examples = _read_again(task, saved[0], split)
        combined = task.combine([one.outputs for one in saved])
        saved_outputs.save(
            settings.output_dir,
            split,
            dataclasses.replace(saved[0], outputs=combined),
        )
        if split in task.eval_splits:
            found = task.score(combined, examples)
            task.remember(found)
            numbers |= scores.named(found, split, task.eval_splits)
            for folder, one in zip(folders, saved, strict=True):
                single = task.score(one.outputs, examples)[task.key_metric]
                logging.info("%s, %s: %.4f", split, folder, single)
        if split in task.test_splits:
            task.write_predictions(
                combined, examples, split, settings.output_dir
            )
    if numbers:
        run_log.write_eval_results(settings.output_dir, 0, numbers)


def find_folders(patterns: str) -> list[str]:
    """Return the folders that patterns match, in order, each once.

    Raises:
        errors.UserError: There are fewer than two.
    """
    found: dict[str, None] = {}
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        local = [] if files.is_remote(pattern) else sorted(glob.glob(pattern))
        found.update(dict.fromkeys(local or [pattern]))
    if len(found) < 2:
        raise errors.UserError(
            f"--run_dirs={patterns} names {len(found)} folder(s). An ensemble "
            "needs two or more."
        )
    return list(found)


def _make_task(folders: list[str], task_module: str | None) -> base.Task:
    """Make the task of the runs.

    Raises:
        errors.UserError: They have no task, or different ones, or used a module
            that is not given.
    """
    runs = [run_folder.read(folder) for folder in folders]
    for run_ in runs:
        registry.load_module_for(run_.options, run_.folder, task_module)
    names = {str(run.options.get("task_name")).lower() for run in runs}
    if len(names) > 1 or "task_name" not in runs[0].options:
        raise errors.UserError(
            f"The runs of --run_dirs have not one task, but "
            f"{', '.join(sorted(names))}. Name finetuned models of one task."
        )
    return registry.make(runs[0].options, tokenization.load(runs[0].vocabulary))


def check_alike(
    folders: list[str], saved: list[saved_outputs.SavedOutputs], split: str
) -> None:
    """Refuse outputs that are not about the same records.

    Raises:
        errors.UserError: They come from other data, or have other shapes.
    """
    first = saved[0]
    for folder, one in zip(folders, saved, strict=True):
        same_data = features.same_content(first.facts, one.facts)
        shapes = [
            {name: value.shape for name, value in outputs.items()}
            for outputs in (first.outputs, one.outputs)
        ]
        if not same_data or shapes[0] != shapes[1]:
            raise errors.UserError(
                f"{saved_outputs.path(folder, split)} is about other data than "
                f"{saved_outputs.path(folders[0], split)}, or has other shapes "
                f"({shapes[1]} instead of {shapes[0]}). Predict the same file "
                "with all runs."
            )


def check_records(
    folders: list[str], saved: list[saved_outputs.SavedOutputs], split: str
) -> None:
    """Refuse outputs that speak of places in other records.

    Raises:
        errors.UserError: The records were made with other options.
    """
    for folder, one in zip(folders, saved, strict=True):
        lines = features.differences(saved[0].facts, one.facts)
        if lines:
            raise errors.UserError(
                f"{saved_outputs.path(folder, split)} speaks of other windows "
                f"than {saved_outputs.path(folders[0], split)}:\n"
                + "\n".join(lines)
                + "\nName runs with the same vocabulary and windows."
            )


def _read_again(
    task: base.Task, saved: saved_outputs.SavedOutputs, split: str
) -> list[base.Example]:
    """Read the examples that outputs are about.

    Raises:
        errors.UserError: The file has changed since, or is not here.
    """
    source = saved.source
    # A file of outputs may come from anywhere: what it names is looked at only
    # on this machine, and read as data only if it is what the runs have read.
    if files.is_remote(source) or not (
        os.path.isfile(source) or os.path.isdir(source)
    ):
        raise errors.UserError(
            f"The runs of --run_dirs have predicted {source}, which is no file "
            "or folder of this machine. Copy it here, and run their commands "
            "again with --do_eval or --do_predict."
        )
    now = features.describe(task, source, split)
    if not features.same_content(saved.facts, now):
        raise errors.UserError(
            f"{saved.source} has changed since the runs of --run_dirs "
            "predicted it. Run their commands again, or restore the file."
        )
    return task.read(source, split)


if __name__ == "__main__":
    options.run_script(run, EnsembleOptions)
