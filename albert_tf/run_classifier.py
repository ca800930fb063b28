r"""Finetune ALBERT to classify texts: a table of your own, or a GLUE task.

    python -m albert_tf.run_classifier --do_train --do_eval \
        --train_file=reviews.csv --text_columns=title,review \
        --label_column=mood --output_dir=runs/mood --max_seq_length=128 \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base \
        --albert_config_file=albert_base_v2

    python -m albert_tf.run_classifier --flagfile=configs/glue/cola.flags \
        --data_dir=glue --output_dir=runs/cola \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base

Tables are CSV, TSV, JSON lines or Parquet: docs/own_task.md. Started again with
the same options, it goes on from the last checkpoint of --output_dir.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from albert_tf.common import errors, files, imports, options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import (
    features,
    finetuning_options,
    registry,
    regression,
    saved_outputs,
    tables,
)
from albert_tf.finetuning.glue import glue_tasks
from albert_tf.text import tokenization

finetune = imports.later("albert_tf.finetuning.finetune")
known_labels = imports.later("albert_tf.finetuning.known_labels")
run_folder = imports.later("albert_tf.training.run_folder")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file data_dir task_name task_module")
class ClassifierOptions(finetuning_options.FileOptions):
    """Options of run_classifier."""

    train_file: str | None = option(
        None,
        "CSV, TSV, JSON lines or Parquet for --do_train, with --text_columns.",
        may_change=True,
    )
    data_dir: str | None = option(
        None,
        "Folder that holds the GLUE task folders, with --task_name.",
        may_change=True,
    )
    task_name: str | None = option(
        None,
        f"One of {', '.join(sorted(glue_tasks.TASKS))}, in any case. Default: "
        f"{tables.NAME}, with --text_columns.",
    )
    task_module: str | None = option(
        None,
        "Python module that adds tasks of your own to "
        "albert_tf.finetuning.glue.glue_tasks.TASKS, see docs/own_task.md.",
    )
    table: tables.TableOptions = tables.TableOptions()
    teaching: finetuning_options.TeacherOptions = (
        finetuning_options.TeacherOptions()
    )

    def __post_init__(self) -> None:
        if not self.is_table:
            for name in ("task_name", "data_dir"):
                if not getattr(self, name):
                    raise errors.UserError(
                        f"`{name}` is required, or for a table of your own "
                        "`text_columns`."
                    )
            names = "train_file", "dev_file", "test_file"
            options.refuse_foreign(self, names, "text_columns")
            return
        for name in ("data_dir", "task_module", "task_name"):
            if getattr(self, name) not in (None, "", tables.NAME):
                raise errors.UserError(
                    f"`{name}={getattr(self, name)}` does not go with "
                    "`text_columns`, which is for tables of your own. Leave "
                    "one of the two out."
                )
        shared, table = self.finetuning, self.table
        is_taught = table.kind == "label" and not table.long.is_divided
        if self.teaching.teacher and not is_taught:
            raise errors.UserError(
                f"`teacher={self.teaching.teacher}` teaches which label of "
                "whole texts is the right one. For tables of another kind, and "
                "with `windows`, leave it out."
            )
        if not table.label_column and (shared.do_train or shared.do_eval):
            raise errors.UserError(
                "`label_column` is not given. Name the column that holds the "
                "labels."
            )
        if shared.train_feature_file:
            raise errors.UserError(
                f"`train_feature_file={shared.train_feature_file}` does not go "
                "with `text_columns`. Give `train_file`."
            )

    @property
    def is_table(self) -> bool:
        return bool(self.table.text_columns)


def _names() -> Any:
    return known_labels.Names(
        "labels",
        lambda labels: tables.TableOptions(labels=labels).names,
        "output_bias",
    )


def run(settings: ClassifierOptions) -> None:
    registry.load_module(settings.task_module)
    tokenizer = finetuning_options.load_tokenizer(settings.finetuning)
    if settings.is_table:
        settings = _with_labels(settings, tokenizer)
    task = registry.make(options.to_dict(settings), tokenizer)
    if task.command != "run_classifier":
        raise errors.UserError(
            f"--task_name={settings.task_name} has a script of its own: python "
            f"-m albert_tf.{task.command}."
        )
    _names().check_order(settings.finetuning, getattr(task, "labels", ()))
    if isinstance(task, tables.TableTask):
        sources = settings.sources
        if settings.train_file and settings.table.dev_share:
            sources[tables.HELD_OUT] = settings.train_file
    else:
        sources = task.sources(settings.data_dir or "")
    if settings.is_table:  # Of GLUE's files one that is missing is told.
        task.eval_splits = tuple(s for s in task.eval_splits if s in sources)
    finetune.run("run_classifier", settings, sources, task=task)


def _with_labels(
    settings: ClassifierOptions, tokenizer: tokenization.AnyTokenizer
) -> ClassifierOptions:
    """Return the options with what was left out: labels, share, name."""
    table, shared = settings.table, settings.finetuning
    started = known_labels.started(shared.output_dir)
    labels: Sequence[str] = table.names
    if not labels and not table.is_number:
        labels = _names().choose(
            shared,
            settings.train_file,
            lambda path: tables.find_labels(path, table),
        )
        table = dataclasses.replace(table, labels=tables.SEPARATOR.join(labels))
    table = dataclasses.replace(table, best_score=table.key_metric)
    if table.dev_share is None:
        share = 0.0 if settings.dev_file else tables.DEV_SHARE
        if started:
            share = run_folder.read(started).options.get("dev_share", share)
        table = dataclasses.replace(table, dev_share=share)
    if started and table.dev_share:
        _check_held_out(settings.train_file, started)
    if table.needs_scale and table.label_mean is None:
        table = _with_scale(settings, table, tokenizer)
    return dataclasses.replace(settings, table=table, task_name=tables.NAME)


def _with_scale(
    settings: ClassifierOptions,
    table: tables.TableOptions,
    tokenizer: tokenization.AnyTokenizer,
) -> tables.TableOptions:
    """Return the options with mean and deviation: a model's, or a file's."""
    shared = settings.finetuning
    init = "" if shared.new_head else shared.init.init_checkpoint or ""
    for folder in (known_labels.started(shared.output_dir), init):
        known = known_labels.scale_of_model(folder) if folder else {}
        if known.get("label_deviation"):
            return dataclasses.replace(table, **known)
    if not settings.train_file:
        raise errors.UserError(
            "The mean of the numbers is not known. Give `train_file`, or "
            "`label_mean` and `label_deviation`."
        )
    task = registry.make_table(tokenizer, shared.max_seq_length, table)
    assert isinstance(task, regression.RegressionTask)
    return task.scaled(settings.train_file)


def _check_held_out(path: str | None, started: str) -> None:
    """Refuse a training file that is not the one of an earlier start."""
    if not (path and files.exists(path)):
        return
    if not files.exists(saved_outputs.path(started, tables.HELD_OUT)):
        return
    facts = saved_outputs.load(started, tables.HELD_OUT).facts
    if features.content_sha256(path) != facts[features.CONTENT]:
        raise errors.UserError(
            f"`train_file={path}` has changed since the run in {started}, so "
            "another part of it would be held out, with examples that were "
            "learnt. Give the same file, or another `output_dir`; to score "
            "other examples give them as `dev_file`, without `train_file`."
        )


if __name__ == "__main__":
    options.run_script(run, ClassifierOptions)
