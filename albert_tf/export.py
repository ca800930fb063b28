"""Export a trained model as a SavedModel that takes text.

    python -m albert_tf.export --run_dir=runs/rte --export_dir=exported/rte

The result runs with tensorflow and tensorflow-text alone.
"""

import dataclasses
import os

from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    files,
    modeling,
    options,
    run_folder,
    serving,
    tokenization,
)
from albert_tf.heads import pretraining
from albert_tf.options import option
from albert_tf.tasks import glue, registry


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Options of export."""

    run_dir: str = option(
        help="The --output_dir of run_pretraining or run_classifier."
    )
    export_dir: str = option(help="Folder to write the SavedModel to.")
    checkpoint: str | None = option(
        None, "Checkpoint to export. Default: the best, else the latest."
    )
    spm_model_file: str | None = option(
        None, "Vocabulary; needed when the run's folder has no copy of it."
    )
    vocab_file: str | None = option(
        None, "The same, for a WordPiece vocabulary."
    )
    overwrite: bool = option(
        False, "Whether an existing --export_dir may be replaced."
    )


def run(settings: ExportOptions) -> None:
    """Restore the model of a run and save it with its tokenizer."""
    source = run_folder.read(settings.run_dir)
    check_target(settings)
    service = make_service(source, _load_tokenizer(settings, source))
    used = checkpoints.restore(
        service.model,
        settings.checkpoint or settings.run_dir,
        "checkpoint" if settings.checkpoint else "run_dir",
    )
    files.make_folder(os.path.dirname(settings.export_dir.rstrip("/")))
    serving.save(service, settings.export_dir)
    logging.info("Exported %s to %s", used.path, settings.export_dir)


def check_target(settings: ExportOptions) -> None:
    """Refuse to write where something else would be lost."""
    target = settings.export_dir
    if files.is_remote(target):
        raise errors.UserError(
            f"--export_dir={target} is remote. Export to a local folder, and "
            "copy it."
        )
    if not files.exists(target):
        return
    if not settings.overwrite:
        raise errors.UserError(
            f"--export_dir={target} already exists. Choose another folder, or "
            "replace it with --overwrite."
        )
    if not files.exists(os.path.join(target, "saved_model.pb")):
        raise errors.UserError(
            f"--export_dir={target} is not a SavedModel, so --overwrite does "
            "not replace it. Choose another folder."
        )


def make_service(
    source: run_folder.Run, tokenizer: tokenization.AnyTokenizer
) -> serving.Service:
    """Build the model of a run, with new weights, and its signatures."""
    encoder = modeling.AlbertModel(source.config)
    length = source.options["max_seq_length"]
    if source.program == "run_pretraining":
        model = pretraining.AlbertPretrainer(encoder)
        return serving.PretrainedService(model, tokenizer, length)
    task = registry.make(source.options, tokenizer)
    if not isinstance(task, glue.GlueTask) or task.is_regression:
        raise errors.UserError(
            f"--run_dir={source.folder} is a model for {task.name}, which "
            "cannot be exported yet: only classifiers of texts can. Use "
            "albert_tf.predict."
        )
    return serving.ClassifierService(
        task.make_model(encoder),
        tokenizer,
        length,
        labels=task.labels,
        pairs=task.has_pairs,
    )


def _load_tokenizer(
    settings: ExportOptions, source: run_folder.Run
) -> tokenization.AnyTokenizer:
    vocabulary = source.vocabulary
    if settings.spm_model_file or settings.vocab_file:
        vocabulary = dataclasses.replace(
            vocabulary,
            spm_model_file=settings.spm_model_file,
            vocab_file=settings.vocab_file,
        )
    if vocabulary.path is None:
        raise errors.UserError(
            f"--run_dir={settings.run_dir} has no copy of its vocabulary. "
            "Name the one it was trained with as --spm_model_file (or "
            "--vocab_file)."
        )
    tokenizer = tokenization.load(vocabulary)
    if tokenizer.vocab_size != source.config.vocab_size:
        raise errors.UserError(
            f"--{vocabulary.kind}={vocabulary.path} has {tokenizer.vocab_size} "
            f"pieces, but the run has vocab_size {source.config.vocab_size}. "
            "Use the vocabulary the run was trained with."
        )
    return tokenizer


if __name__ == "__main__":
    options.run_script(run, ExportOptions)
