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
from collections.abc import Mapping
from typing import Any

from albert_tf.common import errors, options
from albert_tf.common.options import checked, option
from albert_tf.finetuning import embedding, embedding_data, finetuning_options


@dataclasses.dataclass(frozen=True)
@checked
class RunEmbeddingsOptions(finetuning_options.FileOptions):
    """Options of run_embeddings."""

    train_file: str | None = option(
        None, "TSV, CSV or JSON lines for --do_train.", may_change=True
    )
    task_name: str = option(
        embedding.NAME, "The only one.", choices=(embedding.NAME,)
    )
    vectors: embedding.EmbeddingOptions = embedding.EmbeddingOptions()

    def __post_init__(self) -> None:
        if self.vectors.train_examples == embedding_data.TEXTS:
            raise errors.UserError(
                f"`train_examples={self.vectors.train_examples}` has nothing "
                "to learn from but a teacher. Use python -m albert_tf.distill."
            )


if __name__ == "__main__":
    options.check_command_line(RunEmbeddingsOptions)

from albert_tf.finetuning import finetune, known_labels
from albert_tf.model.checkpoints import checkpoint_files, checkpoint_reader
from albert_tf.training import run_folder


def run(settings: RunEmbeddingsOptions) -> None:
    # Pooling and width that are left out are those of the run that goes on,
    # else of --init_checkpoint.
    shared = settings.finetuning
    path = shared.init.init_checkpoint
    known: Mapping[str, Any] = {}
    started = known_labels.started(shared.output_dir)
    if path and not started:
        found = checkpoint_files.find(path)
        folder = run_folder.folder_of(found)
        if run_folder.is_run(folder):
            started = folder
        else:
            modules = checkpoint_reader.modules_beside(found)
            width = checkpoint_reader.read(found).projection_size
            known = {
                "text_pooling": modules.text_pooling if modules else "mean",
                "projection_size": width,
            }
    if started:
        known = run_folder.read(started).options
    given = settings.vectors
    usual = {"text_pooling": "mean", "projection_size": 0}
    values = {
        name: known.get(name, value)
        for name, value in usual.items()
        if getattr(given, name) is None
    }
    vectors = dataclasses.replace(given, **values)
    settings = dataclasses.replace(settings, vectors=vectors)
    finetune.run("run_embeddings", settings, settings.sources)


if __name__ == "__main__":
    options.run_script(run, RunEmbeddingsOptions)
