r"""Finetune an encoder whose vectors say how much texts have in common.

    python -m albert_tf.run_embeddings --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --max_score=5 \
        --output_dir=runs/vectors --spm_model_file=30k-clean.model \
        --albert_config_file=albert_base_v2 --init_checkpoint=albert_base

The files are TSV or CSV, whose first row names the columns, or JSON lines:
docs/embeddings.md. Started again with the same options, it goes on from the
last checkpoint of --output_dir.
"""

import dataclasses

from albert_tf.common import errors, imports, options, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import finetuning_options
from albert_tf.tasks.embedding import data, task

finetune = imports.later("albert_tf.finetuning.finetune")
teacher_signal = imports.later("albert_tf.finetuning.teacher_signal")
distillation = imports.later("albert_tf.model.losses.distillation")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="teacher teacher_weight", Data="train_file task_name")
class RunEmbeddingsOptions(finetuning_options.FileOptions):
    """Options of run_embeddings."""

    train_file: str | None = option(
        None,
        "TSV, CSV or JSON lines for --do_train.",
        may_change=True,
        must_exist="do_train",
    )
    teacher: str | None = option(
        None,
        "triplets: a run of run_classifier that scores pairs of texts, or the "
        "folder teacher-embedding-... that it left for the same triplets. The "
        "difference of both cosines, divided by --temperature, learns that of "
        "its scores, too.",
    )
    teacher_weight: float = option(
        0.5,
        "Share of the teacher in the loss.",
        within=ranges.SHARE,
        needs="teacher",
    )
    task_name: str = option(task.NAME, "The only one.", choices=(task.NAME,))
    vectors: task.EmbeddingOptions = task.EmbeddingOptions()

    def __post_init__(self) -> None:
        if self.vectors.train_examples == data.TEXTS:
            raise errors.UserError(
                f"`train_examples={self.vectors.train_examples}` has nothing "
                "to learn from but a teacher. Use python -m albert_tf.distill."
            )
        if self.teacher and self.vectors.train_examples != data.TRIPLETS:
            raise errors.UserError(
                f"`teacher={self.teacher}` scores pairs of texts, which "
                "`train_examples=triplets` learns. To learn the vectors of a "
                "teacher use python -m albert_tf.distill."
            )


def run(settings: RunEmbeddingsOptions) -> None:
    vectors, signal = settings.vectors, None
    if settings.teacher:
        share = settings.teacher_weight
        signal = teacher_signal.TeacherSignal(
            settings.teacher,
            lambda hard, _: distillation.margins(
                hard, share, vectors.temperature, vectors.prefixes
            ),
        )
    finetune.run("run_embeddings", settings, settings.sources, signal=signal)


if __name__ == "__main__":
    options.run_script(run, RunEmbeddingsOptions)
