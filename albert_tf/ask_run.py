"""A finetuned run's answers about a file of the user's."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import (
    checkpoints,
    errors,
    files,
    modeling,
    run_folder,
    scores,
    tokenization,
)
from albert_tf.tasks import base, batches, registry, text_files

# Batches of examples that are answered together: the windows of a question
# belong to one group, and only its last batch may be filled up.
_BATCHES = 8

Item = base.Example | text_files.BadLine


class Asker:
    """The model of a run.

    Attributes:
        files: What the answers follow from, once it is loaded: paths of the
            checkpoint's files, options and scores.
        group: Items that `answers` should get together.
    """

    def __init__(
        self,
        run_dir: str,
        checkpoint: str | None,
        batch_size: int,
        *,
        task_module: str | None = None,
    ) -> None:
        """Find the task of a run; its model is loaded by `load`.

        Args:
            run_dir: Folder of the run.
            checkpoint: The one to use; None for the best, else the latest.
            batch_size: Records that go through the model together.
            task_module: Python module with the task of the run, if it needs
                one.

        Raises:
            errors.UserError: The folder is not that of a finetuned model.
        """
        self._source = run_folder.read(run_dir)
        options = self._source.options
        if "task_name" not in options:
            raise errors.UserError(
                f"--run_dir={run_dir} was made by {self._source.program}, "
                "which finetunes no task. Name the folder of a finetuned model."
            )
        registry.load_module_for(options, self._source.folder, task_module)
        vocabulary = tokenization.load(self._source.vocabulary)
        self._task = registry.make(options, vocabulary)
        self._task.remember(scores.of_best(run_dir))
        self._named = (
            checkpoint or run_dir,
            ("checkpoint" if checkpoint else "run_dir"),
        )
        self._batch_size = batch_size
        self._call: Callable[..., Mapping[str, tf.Tensor]] | None = None
        self.files: list[str] = []
        self.group = _BATCHES * batch_size

    def read(self, path: str) -> list[Item]:
        """Read a file of the user's; see `tasks.base.Task.read_own`.

        Raises:
            errors.UserError: It has no example.
        """
        items = self._task.read_own(path)
        if not items:
            raise errors.UserError(
                f"{path} has no examples. Give a file that has some."
            )
        if all(isinstance(item, text_files.BadLine) for item in items):
            next(text_files.strictly(items))
        return items

    def load(self) -> None:
        """Build the model.

        Raises:
            errors.UserError: There is no checkpoint for it.
        """
        model = self._task.make_model(modeling.AlbertModel(self._source.config))
        used = checkpoints.restore(model, *self._named).path
        logging.info("Predicting with %s", used)
        folder = self._source.folder
        beside = (run_folder.OPTIONS_NAME, scores.FILE_NAME)
        self.files = [
            *tf.io.gfile.glob(f"{glob.escape(used)}*"),
            *(os.path.join(folder, name) for name in beside),
        ]
        self.files = [p for p in self.files if files.exists(p)]
        self._call = tf.function(model.call, autograph=False)
        self._task.remarks = {}

    def answers(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """Return what is predicted for each item, or what is wrong with it.

        See `tasks.base.Task.answers`.
        """
        examples = [i for i in items if not isinstance(i, text_files.BadLine)]
        found = iter(
            self._task.answers(self._outputs(examples), examples)
            if examples
            else ()
        )
        return [
            item.answer if isinstance(item, text_files.BadLine) else next(found)
            for item in items
        ]

    def tell(self) -> None:
        """Say what was cut or left out."""
        base.tell(self._task.remarks or {})

    def _outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        """Return the outputs of the model for all records of the examples."""
        assert self._call is not None, "`load` comes first."
        parts: list[dict[str, np.ndarray]] = []
        size = self._batch_size
        found = list(batches.of_examples(self._task, examples, size))
        # Examples without any record have no outputs, but of the right shape.
        for batch, count in found or [(batches.empty(self._task, size), 0)]:
            outputs = self._call({k: tf.constant(v) for k, v in batch.items()})
            parts.append({k: v.numpy()[:count] for k, v in outputs.items()})
        return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
