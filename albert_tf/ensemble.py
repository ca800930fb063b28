r"""Average the predictions of several finetuned models, without training again.

    python -m albert_tf.ensemble --run_dirs='runs/rte/run_*' \
        --output_dir=runs/rte/ensemble

The models may be of any size and length, but of one task; for SQuAD, whose
outputs are positions in windows, of one vocabulary and one kind of windows. The
outputs of each model for a split are in its folder (`dev_outputs.npz`, and
`test_outputs.npz` after --do_predict). Class probabilities are averaged, or the
numbers of a regression; each task says how, in its `combine`. Source: ALBERT
§4.9.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    imports,
    options,
    outputs,
    scores,
    strict_json,
)
from albert_tf.common.options import option, shown
from albert_tf.finetuning import base, features, registry, saved_outputs
from albert_tf.text import tokenization

run_folder = imports.later("albert_tf.training.run_folder")
run_log = imports.later("albert_tf.training.run_log")
RUNS_NAME = "ensemble.json"  # In the folder: what it is an ensemble of.


@dataclasses.dataclass(frozen=True)
@shown(
    Model="run_dirs",
    Data="data_dir predict_file task_module",
    Output="output_dir",
)
class EnsembleOptions:
    """Options of ensemble."""

    run_dirs: str = option(
        help="Folders of finetuned models, or patterns, separated by commas.",
        positional=True,
        must_exist=True,
    )
    output_dir: str = option(help="Folder for scores and predictions.")
    data_dir: str | None = option(
        None,
        "Folder that holds the task's data now, if it has moved since the runs "
        "have read it.",
    )
    predict_file: str | None = option(
        None,
        "The same for runs whose options name each file: the file that they "
        "have predicted, or several, separated by commas.",
    )
    task_module: str | None = option(
        None, "The --task_module of the runs, if they had one."
    )


def run(settings: EnsembleOptions) -> None:
    folders: list[str] = []
    for pattern in files.split_list(settings.run_dirs):
        folders += files.match_pattern(pattern) or [pattern]
    folders = files.drop_repeated([scores.best_folder(f) for f in folders])
    if len(folders) < 2:
        raise errors.UserError(
            f"--run_dirs={settings.run_dirs} names {len(folders)} folder(s). "
            "An ensemble needs two or more."
        )
    runs = [run_folder.read(folder, "run_dirs") for folder in folders]
    for one in runs:
        registry.load_module_for(one.options, one.folder, settings.task_module)
    names = {str(one.options.get("task_name")).lower() for one in runs}
    if len(names) > 1 or "task_name" not in runs[0].options:
        raise errors.UserError(
            f"The runs of --run_dirs have not one task, but "
            f"{', '.join(sorted(names))}. Name finetuned models of one task."
        )
    vocabulary = tokenization.load(runs[0].vocabulary)
    task = registry.make(runs[0].options, vocabulary, runs[0].facts)
    moved = _find_moved(settings, task)
    splits = _find_splits(settings, folders, task)
    with folder_lock.hold(settings.output_dir, "output_dir"):
        _combine(settings, folders, task, splits, moved)


def _find_splits(
    settings: EnsembleOptions, folders: list[str], task: base.Task
) -> list[str]:
    """Return the splits to combine: those scored by all runs, tests of any."""
    saved = {
        folder: [
            split
            for split in dict.fromkeys((*task.eval_splits, *task.test_splits))
            if files.exists(saved_outputs.path(folder, split))
        ]
        for folder in folders
    }
    all_splits = dict.fromkeys(
        split for splits in saved.values() for split in splits
    )
    splits = []
    for split in all_splits:
        lacking = [folder for folder in folders if split not in saved[folder]]
        if split in task.test_splits or not lacking:
            splits.append(split)
        else:
            logging.warning(
                "%s is left out: %s has no outputs of it.", split, lacking[0]
            )
    if not splits:
        listed = "; ".join(
            f"{folder}: {', '.join(names) or 'none'}"
            for folder, names in saved.items()
        )
        raise errors.UserError(
            f"--run_dirs={settings.run_dirs} have no outputs for the same "
            f"file ({listed}). Run their commands again with `do_eval` or "
            "`do_predict` and the same file for all, without `do_train` if "
            "they are trained (for tables: with `dev_file`, and without "
            "`train_file`)."
        )
    return splits


def _check_folder(
    settings: EnsembleOptions, run_dirs: list[str], splits: Collection[str]
) -> tuple[str, str]:
    """Refuse another ensemble's folder; return path and text of its record."""
    folder = settings.output_dir
    path = os.path.join(folder, RUNS_NAME)
    hashes = {
        folder: {
            split: files.sha256(saved_outputs.path(folder, split))
            for split in splits
            if files.exists(saved_outputs.path(folder, split))
        }
        for folder in run_dirs
    }
    text = strict_json.dumps({"outputs": hashes}, indent=2) + "\n"
    is_own = files.exists(path) and files.read_bytes(path) == text.encode()
    run_folder.refuse_foreign_results(folder, settings, [path], is_own=is_own)
    return path, text


def _combine(
    settings: EnsembleOptions,
    folders: list[str],
    task: base.Task,
    splits: Collection[str],
    moved: Mapping[str, Sequence[str]],
) -> None:
    """Combine the runs' outputs of each split; write scores and predictions."""
    description = _check_folder(settings, folders, splits)
    files.make_folder(settings.output_dir, "output_dir")
    metrics: dict[str, float] = {}
    for split in splits:
        saved = [saved_outputs.load(folder, split) for folder in folders]
        _check_alike(task, folders, saved, split)
        source = _find_source(task, saved, moved.get(split, ()))
        examples = task.read(source, split)
        combined = task.combine([one.outputs for one in saved])
        files.write_text(*description)
        saved_outputs.save(
            settings.output_dir,
            split,
            saved_outputs.SavedOutputs(combined, source, saved[0].key),
        )
        if split in task.eval_splits:
            split_scores = task.score(combined, examples)
            scored = [s for s in splits if s in task.eval_splits]
            metrics |= scores.add_split(split_scores, split, scored)
            for folder, one in zip(folders, saved, strict=True):
                single = task.score(one.outputs, examples)[task.key_metric]
                logging.info("%s, %s: %.4f", split, folder, single)
            task.remember(split_scores)
        if split in task.test_splits:
            task.write_predictions(
                combined, examples, split, settings.output_dir
            )
    if metrics:
        run_log.write_eval_results(settings.output_dir, 0, metrics)


def _check_alike(
    task: base.Task,
    folders: list[str],
    saved: list[saved_outputs.SavedOutputs],
    split: str,
) -> None:
    """Refuse outputs for other data, labels or windows than the first run's."""
    first, first_path = saved[0], saved_outputs.path(folders[0], split)
    shapes = [{k: v.shape for k, v in one.outputs.items()} for one in saved]
    for folder, one, shape in zip(folders, saved, shapes, strict=True):
        path = saved_outputs.path(folder, split)
        contents = {x.key[features.CONTENT] for x in (first, one)}
        if len(contents) > 1 or shape != shapes[0]:
            raise errors.UserError(
                f"{path} is about other data than {first_path}, or has other "
                f"shapes ({shape} instead of {shapes[0]}). Predict the same "
                "file with all runs."
            )
        meanings = (_meaning(x.key["options"], split) for x in (first, one))
        outputs.require_same(
            f"{path} means something else than {first_path}",
            outputs.changes(*meanings),
            "Name runs with the same labels in the same order, and for "
            f"{base.HELD_OUT} with the same part held out.",
        )
        if task.outputs_are_positions:
            outputs.require_same(
                f"{path} is about other windows than {first_path}",
                [
                    *features.differences(first.key, one.key),
                    *features.differences(one.key, first.key),
                ],
                "Name runs with the same vocabulary and windows.",
            )


def _meaning(options: Mapping[str, Any], split: str) -> dict[str, Any]:
    """Return the options that decide what rows and columns of outputs are."""
    columns, pairs = options.get("columns"), options.get("pairs") or [""]
    names = ["labels", "kind"]
    if split == base.HELD_OUT:  # The same texts stay together.
        names += ["dev_share", "columns"]
    # The column; texts of other columns may have the same labels.
    label = columns[-1] if isinstance(columns, list) else None
    # Pairwise scores have no scale; it is the default.
    loss = "pairwise" if pairs[0] is None else pairs[0]
    return {
        **{n: options.get(n) for n in names},
        "label": label,
        "ranking_loss": loss,
    }


def _find_moved(
    settings: EnsembleOptions, task: base.Task
) -> Mapping[str, Sequence[str]]:
    """Return the paths that options give for the files of each split."""
    option = task.data_option
    (other,) = {"data_dir", "predict_file"} - {option}
    if getattr(settings, other) is not None:
        raise errors.UserError(
            f"--{other}={getattr(settings, other)} does not go with the task "
            f"{task.name}. Say with --{option} where its data are."
        )
    value = getattr(settings, option)
    if value is None:
        return {}
    paths = [value] if option == "data_dir" else files.split_list(value)
    for path in paths:
        if not files.exists(path):
            raise errors.UserError(
                f"`{option}={path}` does not exist.{files.suggest(path)}"
            )
    if option == "data_dir":
        sources = task.sources(value)
        return {split: [path] for split, path in sources.items()}
    return dict.fromkeys((*task.eval_splits, *task.test_splits), paths)


def _find_source(
    task: base.Task,
    saved: Sequence[saved_outputs.SavedOutputs],
    moved: Sequence[str],
) -> str:
    """Return the file or folder that the runs have predicted.

    A file of outputs may come from anywhere: paths in it are searched only on
    this machine, and used only if the content is what the runs have read.
    """
    paths = [*moved, *dict.fromkeys(one.source for one in saved)]
    existing = [
        path
        for path in paths
        if not files.is_remote(path)
        and (os.path.isfile(path) or os.path.isdir(path))
    ]
    content = saved[0].key[features.CONTENT]
    for path in existing:
        if features.content_sha256(path) == content:
            return path
    option = f"--{task.data_option}"
    if paths[0] in existing:
        raise errors.UserError(
            f"{paths[0]} is not what the runs of --run_dirs have predicted: "
            f"its content is another. Say with {option} where that is, or run "
            "their commands again."
        )
    problem = f"The runs of --run_dirs have predicted {paths[0]}, which"
    if moved:
        problem = f"{option} leads to {paths[0]}, which"
    raise errors.UserError(
        f"{problem} is no file or folder of this machine. Say with {option} "
        "where the data are."
    )


if __name__ == "__main__":
    options.run_script(run, EnsembleOptions)
