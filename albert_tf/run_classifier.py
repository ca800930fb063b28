r"""Finetune ALBERT on a GLUE task, evaluate it, predict its test set.

    python -m albert_tf.run_classifier --flagfile=configs/glue/cola.flags \
        --data_dir=glue --output_dir=runs/cola \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base_v2

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf.common import errors, options
from albert_tf.common.options import option
from albert_tf.finetuning import finetuning_options, race, registry
from albert_tf.finetuning.glue import glue_tasks
from albert_tf.finetuning.squad import squad


@dataclasses.dataclass(frozen=True)
class ClassifierOptions(finetuning_options.TaskOptions):
    """Options of run_classifier."""

    data_dir: str = option(
        help="Folder that holds the GLUE task folders.", may_change=True
    )
    task_name: str = option(
        help=f"One of {', '.join(sorted(glue_tasks.TASKS))}, in any case."
    )
    task_module: str | None = option(
        None,
        "Python module that adds tasks of your own to "
        "albert_tf.finetuning.glue.glue_tasks.TASKS, see docs/own_task.md.",
    )
    teaching: finetuning_options.TeacherOptions = dataclasses.field(
        default_factory=finetuning_options.TeacherOptions
    )


if __name__ == "__main__":
    options.check_command_line(ClassifierOptions)

from albert_tf.finetuning import finetune, lesson


def run(settings: ClassifierOptions) -> None:
    """Train, evaluate and predict as the options say."""
    registry.load_module(settings.task_module)
    tokenizer = finetuning_options.load_tokenizer(settings.finetuning)
    task = registry.make(options.to_dict(settings), tokenizer)
    if task.name in (race.NAME, squad.NAME):
        raise errors.UserError(
            f"--task_name={settings.task_name} has a script of its own: python "
            f"-m albert_tf.run_{task.name}."
        )
    sources = getattr(task, "sources", None)
    if sources is None:
        raise errors.UserError(
            f"--task_name={settings.task_name}: its class "
            f"{type(task).__name__} has no method sources(data_dir), which "
            "names the file of each split. Add it as in docs/own_task.md."
        )
    finetune.run(
        "run_classifier",
        settings,
        task,
        sources(settings.data_dir),
        lesson.soft_labels(settings.teaching),
    )


if __name__ == "__main__":
    options.run_script(run, ClassifierOptions)
