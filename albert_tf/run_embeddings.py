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

from albert_tf.common import errors, imports, options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import finetuning_options
from albert_tf.tasks.embedding import data, task

finetune = imports.later("albert_tf.finetuning.finetune")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file task_name")
class RunEmbeddingsOptions(finetuning_options.FileOptions):
    """Options of run_embeddings."""

    train_file: str | None = option(
        None, "TSV, CSV or JSON lines for --do_train.", may_change=True
    )
    task_name: str = option(task.NAME, "The only one.", choices=(task.NAME,))
    vectors: task.EmbeddingOptions = task.EmbeddingOptions()

    def __post_init__(self) -> None:
        if self.vectors.train_examples == data.TEXTS:
            raise errors.UserError(
                f"`train_examples={self.vectors.train_examples}` has nothing "
                "to learn from but a teacher. Use python -m albert_tf.distill."
            )


def run(settings: RunEmbeddingsOptions) -> None:
    finetune.run("run_embeddings", settings, settings.sources)


if __name__ == "__main__":
    options.run_script(run, RunEmbeddingsOptions)
