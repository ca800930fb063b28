r"""Finetune ALBERT on a GLUE task, evaluate it, predict its test set.

    python -m albert_tf.run_classifier --flagfile=configs/glue/cola.flags \
        --data_dir=glue --output_dir=runs/cola \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base_v2

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf import errors, finetuning, options
from albert_tf.options import option
from albert_tf.tasks import glue, registry


@dataclasses.dataclass(frozen=True)
class ClassifierOptions:
    """Options of run_classifier."""

    finetuning: finetuning.FinetuningOptions
    data_dir: str = option(
        help="Folder that holds the GLUE task folders.", may_change=True
    )
    task_name: str = option(
        help=f"One of {', '.join(sorted(glue.TASKS))}, in any case."
    )
    task_module: str | None = option(
        None,
        "Python module that adds tasks of your own to "
        "albert_tf.tasks.glue.TASKS, see docs/own_task.md.",
    )


def run(settings: ClassifierOptions) -> None:
    """Train, evaluate and predict as the options say."""
    registry.load_module(settings.task_module)
    tokenizer = finetuning.load_tokenizer(settings.finetuning)
    task = registry.make(options.to_dict(settings), tokenizer)
    if not isinstance(task, glue.GlueTask):
        raise errors.UserError(
            f"--task_name={settings.task_name} has a script of its own: python "
            f"-m albert_tf.run_{task.name}."
        )
    finetuning.run(
        finetuning.Job(
            "run_classifier", settings, task, task.sources(settings.data_dir)
        )
    )


if __name__ == "__main__":
    options.run_script(run, ClassifierOptions)
