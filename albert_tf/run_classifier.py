"""Finetune ALBERT on a GLUE task, evaluate it, predict its test set.

    python -m albert_tf.run_classifier --flagfile=configs/glue/cola_tiny.flags

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf import errors, finetuning, options
from albert_tf.options import option
from albert_tf.tasks import glue


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
    train_step: int = option(1000, "Step to stop at.")
    warmup_step: int = option(0, "Steps of linear warm-up.")

    def __post_init__(self) -> None:
        if self.train_step < 1 or not 0 <= self.warmup_step <= self.train_step:
            raise errors.UserError(
                f"--train_step={self.train_step} and --warmup_step="
                f"{self.warmup_step} do not fit: at least one step is needed, "
                "and the warm-up is a part of them."
            )


def run(settings: ClassifierOptions) -> None:
    """Train, evaluate and predict as the options say."""
    finetuning.run(
        glue.GlueTask(settings.task_name),
        settings.data_dir,
        finetuning.Steps(settings.train_step, settings.warmup_step),
        settings.finetuning,
        ("run_classifier", settings),
    )


if __name__ == "__main__":
    options.run_script(run, ClassifierOptions)
