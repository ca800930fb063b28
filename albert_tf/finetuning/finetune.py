"""Finetune a task: one run, or several that differ in their seeds.

The same for every task; the commands, such as `run_squad`, choose the task and
say where its files are.
"""

import dataclasses
import gc
import math
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors, files, options, preemption, scores
from albert_tf.finetuning import (
    base,
    fact_sources,
    features,
    finetuning_options,
    one_run,
    registry,
    run_data,
    saved_outputs,
    teacher_signal,
)
from albert_tf.model import compatibility
from albert_tf.training import (
    distribution,
    memory_check,
    processors,
    run_folder,
)


@preemption.exiting_at_once()
def run(
    program: str,
    settings: finetuning_options.TaskOptions,
    sources: Mapping[str, str] | None = None,
    *,
    task: base.Task | None = None,
    signal: teacher_signal.TeacherSignal | None = None,
) -> None:
    """Train, evaluate and predict one task, once or several times.

    With several runs, each has a folder `run_1`, `run_2` and so on, and the
    best one's predictions are written beside these folders. Of several workers
    the first writes; features and logs of the others are in `worker_N`.

    Args:
        sources: The file of each split. Default: the task finds them in the
            folder `data_dir` of the options.
        task: Default: the one that the options name.
        signal: What a teacher adds to the loss. Default: the soft labels of the
            teacher in the options, if they name one.
    """
    output_dir = settings.finetuning.output_dir
    settings = processors.settle_precision(settings, output_dir)
    shared = settings.finetuning
    task = task or _make_task(settings, sources or {})
    sources = _files_of_splits(settings, task, sources)
    teaching = getattr(settings, "teaching", None)
    signal = teacher_signal.soft_labels(teaching) if teaching else signal
    # First of all: several workers must meet before TensorFlow does anything.
    strategy = distribution.make_strategy(shared.devices)
    runs = _options_of_runs(settings)
    folders = [run_settings.finetuning.output_dir for run_settings in runs]
    _check_folders(shared, folders)
    _check_model(shared, task)
    _check_batch_sizes(shared, task, strategy)
    data = run_data.RunData(shared, task, sources, strategy, signal)
    if not (shared.do_train or shared.init.init_checkpoint):
        for folder in folders:
            if not run_folder.has_checkpoint(folder):
                raise run_folder.no_weights_error(folder)
    is_chief, has_several = distribution.is_chief(strategy), len(runs) > 1
    run_scores = []
    with run_folder.hold(shared.output_dir, is_wanted=is_chief):
        for run_settings, folder in zip(runs, folders, strict=True):
            with run_folder.hold(folder, is_wanted=is_chief and has_several):
                done = one_run.run_once(program, run_settings, data, strategy)
                run_scores.append(done)
            keras.backend.clear_session()
            gc.collect()
        if has_several and is_chief:
            _write_shared_results(shared, data, run_scores)


def _make_task(
    settings: finetuning_options.TaskOptions, sources: Mapping[str, str]
) -> base.Task:
    values, shared = options.to_dict(settings), settings.finetuning
    kind = registry.find_class(values["task_name"])
    tokenizer = finetuning_options.load_tokenizer(shared)
    source = fact_sources.RunSource(kind, shared, sources)
    return registry.make(values, tokenizer, source=source)


def _files_of_splits(
    settings: finetuning_options.TaskOptions,
    task: base.Task,
    sources: Mapping[str, str] | None,
) -> Mapping[str, str]:
    """Return the file of each split; a part of a split has the same file."""
    if sources is None:
        data_dir = options.to_dict(settings)["data_dir"]
        sources = task.sources(data_dir)
        output = settings.finetuning.output_dir
        folders = [data_dir, *map(os.path.dirname, sources.values())]
        identities = set(map(files.identity, folders)) - {None}
        if files.identity(output) in identities:
            raise errors.UserError(
                f"`output_dir={output}` is in `data_dir`, where nothing is "
                "written. Name another folder."
            )
    for part, whole in task.parts.items():
        if path := sources.get(whole):
            sources = {**sources, part: path}
        _check_part(settings.finetuning.output_dir, part, sources.get(part))
    return sources


def _check_part(output_dir: str, part: str, path: str | None) -> None:
    """Refuse a training file other than the one of an earlier start."""
    folder = fact_sources.find_run(output_dir)
    if not (folder and path and files.exists(path)):
        return
    if not files.exists(saved_outputs.path(folder, part)):
        return
    key = saved_outputs.load(folder, part).key
    if features.content_sha256(path) != key[features.CONTENT]:
        raise errors.UserError(
            f"`train_file={path}` has changed since the run in {folder}, so "
            "another part of it would be held out, with examples that were "
            "learnt. Give the same file, or another `output_dir`; to score "
            "other examples give them as `dev_file`, without `train_file`."
        )


def _options_of_runs(
    settings: finetuning_options.TaskOptions,
) -> list[finetuning_options.TaskOptions]:
    """Return the options of each run, with its own folder and seed."""
    shared = settings.finetuning
    if shared.num_runs == 1:
        return [settings]
    cached_dir = shared.cached_dir or shared.output_dir
    trainer, runs = shared.trainer, []
    for number in range(1, shared.num_runs + 1):
        seed = trainer.seed + number - 1
        run_settings = dataclasses.replace(
            shared,
            num_runs=1,
            cached_dir=cached_dir,
            output_dir=os.path.join(shared.output_dir, f"run_{number}"),
            trainer=dataclasses.replace(trainer, seed=seed),
        )
        runs.append(dataclasses.replace(settings, finetuning=run_settings))
    return runs


def _check_folders(
    settings: finetuning_options.FinetuningOptions, folders: Sequence[str]
) -> None:
    """Check that the folders fit the number of runs, and how each starts."""
    folder, num_runs = settings.output_dir, settings.num_runs
    next_run = f"run_{1 if num_runs == 1 else num_runs + 1}"
    content = None
    if run_folder.is_run(os.path.join(folder, next_run)):
        content = f"`{next_run}`, too; its summary would be lost"
    elif num_runs > 1 and run_folder.is_run(folder):
        content = "a single run"
    if content:
        raise errors.UserError(
            f"`num_runs={num_runs}` does not fit `output_dir={folder}`, which "
            f"holds {content}. Repeat the command with as many runs as before, "
            "or more, or choose another folder."
        )
    if num_runs > 1:
        is_own = run_folder.is_run(os.path.join(folder, "run_1"))
        run_folder.refuse_foreign_results(folder, settings, is_own=is_own)
    for folder in folders:
        run_folder.check_start(
            folder, settings.init.init_checkpoint, settings.vocabulary
        )


def _check_model(
    settings: finetuning_options.FinetuningOptions, task: base.Task
) -> None:
    config = settings.read_config()
    if task.has_pairs:
        compatibility.check_pairs(config, settings.albert_config_file)
    for name in ("exit_layers", "exit_heads"):
        if getattr(settings, name) and name not in task.exit_options:
            raise errors.UserError(
                f"`{name}={getattr(settings, name)}` is not for {task.name}. "
                "Leave it out."
            )
    config.exits(settings.exit_layers)
    task.check_config(config.hidden_size)


def _check_batch_sizes(
    settings: finetuning_options.FinetuningOptions,
    task: base.Task,
    strategy: tf.distribute.Strategy,
) -> None:
    """Refuse batches that replicas cannot divide, or devices not hold."""
    microbatches = settings.trainer.gradient_accumulation_steps
    step = memory_check.StepSize(
        settings.read_config(),
        settings.max_seq_length,
        task.sequences_at_once,
        precision=settings.trainer.precision,
        recompute=settings.trainer.recompute,
        microbatches=microbatches,
    )
    num_predictions = math.ceil(task.num_predictions / step.sequences)
    learning = dataclasses.replace(step, num_predictions=num_predictions)
    for name, size, is_wanted, divisor in (
        ("train_batch_size", learning, settings.do_train, microbatches),
        ("eval_batch_size", step, settings.do_eval, 1),
        ("predict_batch_size", step, settings.do_predict, 1),
    ):
        if is_wanted:
            batch_size = getattr(settings, name)
            distribution.check_batch(strategy, batch_size, name, divisor)
            memory_check.check(size, strategy, name, batch_size)
    parts = strategy.num_replicas_in_sync * microbatches
    needs_others = settings.do_train and task.compares_by
    if needs_others and settings.train_batch_size == parts:
        raise errors.UserError(
            f"`train_batch_size={parts}` leaves one example at a time, with no "
            f"other to tell it from: `{task.compares_by}` needs several at "
            f"once, and {strategy.num_replicas_in_sync} replica(s) and "
            f"`gradient_accumulation_steps={microbatches}` divide the batch. "
            "Use a larger one."
        )


def _write_shared_results(
    settings: finetuning_options.FinetuningOptions,
    data: run_data.RunData,
    runs: Sequence[scores.RunScores],
) -> None:
    """Write the scores of all runs, and the best one's predictions."""
    folder = settings.output_dir
    if settings.do_eval:
        summary = one_run.write_summary(data.task, folder, runs)
        print(summary.to_markdown(), flush=True)
    if not settings.do_predict:
        return
    best = scores.best_folder(folder)
    if best == folder:
        logging.warning(
            "No scores say which run is the best, so the predictions are in "
            "their folders only. With `do_eval` they also come into %s.",
            folder,
        )
        return
    data.task.remember(scores.best_scores(folder))
    for split in data.test_splits:
        data.task.write_predictions(
            saved_outputs.load(best, split).outputs,
            data.examples[split],
            split,
            folder,
        )
    logging.info("The predictions are those of %s", best)
