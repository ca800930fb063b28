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

from albert_tf.common import errors, imports, options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import base, finetuning_options, registry
from albert_tf.tasks.glue import specs
from albert_tf.tasks.table import data as tables

finetune = imports.later("albert_tf.finetuning.finetune")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file data_dir task_name task_module")
class ClassifierOptions(finetuning_options.FileOptions):
    """Options of run_classifier."""

    train_file: str | None = option(
        None,
        "CSV, TSV, JSON lines or Parquet for --do_train, with --text_columns.",
        may_change=True,
        must_exist="do_train",
    )
    data_dir: str | None = option(
        None,
        "Folder that holds the GLUE task folders, with --task_name.",
        may_change=True,
        must_exist="do_eval",
    )
    task_name: str | None = option(
        None,
        f"One of {', '.join(sorted(specs.TASKS))}, in any case. Default: "
        f"{tables.NAME}, with --text_columns.",
    )
    task_module: str | None = option(
        None,
        "Python module that adds tasks of your own to "
        "albert_tf.tasks.glue.specs.TASKS, see docs/own_task.md.",
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
            options.refuse_unused(self, names, "text_columns")
            return
        if self.table.computes_head:
            self._check_computed_head()
        for name in ("data_dir", "task_module", "task_name"):
            if getattr(self, name) not in (None, "", tables.NAME):
                raise errors.UserError(
                    f"`{name}={getattr(self, name)}` does not go with "
                    "`text_columns`, which is for tables of your own. Leave "
                    "one of the two out."
                )
        shared, table = self.finetuning, self.table
        is_taught = table.kind in ("label", "relevance")
        if self.teaching.teacher and (not is_taught or table.long.is_divided):
            raise errors.UserError(
                f"`teacher={self.teaching.teacher}` teaches which label of "
                "whole texts is the right one, or a ranking. For tables of "
                "another kind, and with `windows`, leave it out."
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

    def _check_computed_head(self) -> None:
        shared, table = self.finetuning, self.table
        for name, value in {
            "teacher": self.teaching.teacher,
            "exit_layers": shared.exit_layers,
            "pooling": shared.pooling,
            "num_runs": shared.num_runs if shared.num_runs > 1 else None,
            "encoder_learning_rate": shared.encoder_learning_rate,
            "weight_precision": "int8" if shared.trainer.round_from else None,
            "train_file": self.train_file if table.labels_file else None,
        }.items():
            if value is not None:
                other = "labels_file" if table.labels_file else "few_shot"
                raise errors.UserError(
                    f"`{name}={value}` does not go with `{other}`: the head is "
                    "computed, nothing is trained. Leave one of the two out."
                )
        has_dev = shared.do_eval and self.dev_file
        is_new = shared.do_train and table.none_threshold is None
        if table.none_label and is_new and not has_dev:
            raise errors.UserError(
                f"`none_label={table.none_label}` needs `none_threshold`, or "
                "`do_eval` and a `dev_file` with texts of this label. Give one."
            )

    @property
    def sources(self) -> dict[str, str]:
        path = self.table.labels_file
        return {**({base.TRAIN: path} if path else {}), **super().sources}

    @property
    def is_table(self) -> bool:
        return bool(self.table.text_columns)


def run(settings: ClassifierOptions) -> None:
    registry.load_module(settings.task_module)
    if settings.is_table:
        settings = dataclasses.replace(settings, task_name=tables.NAME)
    kind = registry.find_class(str(settings.task_name))
    if kind.command != "run_classifier":
        raise errors.UserError(
            f"--task_name={settings.task_name} has a script of its own: python "
            f"-m albert_tf.{kind.command}."
        )
    sources = settings.sources if settings.is_table else None
    finetune.run("run_classifier", settings, sources)


if __name__ == "__main__":
    options.run_script(run, ClassifierOptions)
