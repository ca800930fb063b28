"""A finetuned run's answers about a file of the user's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    modeling,
    run_folder,
    scores,
    tokenization,
)
from albert_tf.tasks import base, batches, registry


def answers(
    run_dir: str,
    checkpoint: str | None,
    input_file: str,
    batch_size: int,
    *,
    task_module: str | None = None,
) -> list[dict[str, Any]]:
    """Return what the model of a run predicts for each example of a file.

    Args:
        run_dir: Folder of the run.
        checkpoint: The one to use; None for the best, else the latest.
        input_file: See `tasks.base.Task.read`.
        batch_size: Records that go through the model together.
        task_module: Python module with the task of the run, if it needs one.

    Returns:
        See `tasks.base.Task.answers`.

    Raises:
        errors.UserError: The folder is not that of a finetuned model, or the
            file is missing or has another layout.
    """
    source = run_folder.read(run_dir)
    if "task_name" not in source.options:
        raise errors.UserError(
            f"--run_dir={run_dir} was made by {source.program}, which "
            "finetunes no task. Name the folder of a finetuned model."
        )
    registry.load_module_for(source.options, source.folder, task_module)
    task = registry.make(source.options, tokenization.load(source.vocabulary))
    task.remember(scores.of_best(run_dir))
    examples = task.read(input_file, base.PREDICT)
    model = task.make_model(modeling.AlbertModel(source.config))
    used = checkpoints.restore(
        model, checkpoint or run_dir, "checkpoint" if checkpoint else "run_dir"
    )
    logging.info("Predicting %d examples with %s", len(examples), used.path)
    outputs = predict(model, task, examples, batch_size)
    return list(task.answers(outputs, examples))


def predict(
    model: keras.Model,
    task: base.Task,
    examples: Sequence[base.Example],
    batch_size: int,
) -> base.Outputs:
    """Return the outputs of a model for all records of the examples.

    Raises:
        errors.UserError: They have no record.
    """
    call = tf.function(model.call, autograph=False)
    parts: list[dict[str, np.ndarray]] = []
    for batch, count in batches.of_examples(task, examples, batch_size):
        outputs = call({k: tf.constant(v) for k, v in batch.items()})
        parts.append({k: v.numpy()[:count] for k, v in outputs.items()})
    if not parts:
        raise errors.UserError(
            "--input_file has nothing that is in the vocabulary's alphabet, "
            "so there is nothing to predict. Correct the file."
        )
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
