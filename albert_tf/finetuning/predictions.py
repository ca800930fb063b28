"""Predictions of a finetuned run for a user's file."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors, rows, scores
from albert_tf.common import options as task_options
from albert_tf.finetuning import base, batches, overlaps, registry
from albert_tf.model.checkpoints import restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import (
    distribution,
    memory_check,
    run_folder,
    training_options,
)

# Batches in a group of examples. All windows of a question are in one group,
# and only the last batch of a group is padded.
_BATCHES = 8

Item = base.Example | rows.BadLine


Call = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def compile_model(model: Callable[..., dict[str, tf.Tensor]]) -> Call:
    """Compile a model to a function from a NumPy batch to NumPy outputs."""
    # Batches have several lengths; they share one trace.
    call = tf.function(
        lambda batch: model(batch), autograph=False, reduce_retracing=True
    )

    def call_numpy(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = call({k: tf.constant(v) for k, v in batch.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return call_numpy


class RunPredictor:
    """The model of a run, which answers items; best `group_size` at a time."""

    def __init__(
        self,
        run_dir: str,
        checkpoint: str | None,
        batch_size: int,
        *,
        task_module: str | None = None,
        option: str = "run_dir",
        changes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Open a run and its task; `load` loads the model.

        Args:
            changes: Of the run's options; None leaves one as it is.
        """
        self._source = run_folder.read(run_dir, option)
        options = self._source.options
        if "task_name" not in options:
            raise errors.UserError(
                f"`{option}={run_dir}` was made by {self._source.program}, "
                "which finetunes no task. Name the folder of a finetuned "
                "model. For embeddings or fill-mask export this one: python -m "
                f"albert_tf.export --run_dir={run_dir} --export_dir=EXPORT, "
                "then python -m albert_tf.predict --saved_model=EXPORT "
                "[--signature=fill_mask]."
            )
        registry.load_module_for(options, self._source.folder, task_module)
        named = {option: run_dir, "checkpoint": checkpoint}
        run_folder.check_vocabularies(**named)
        changes = {k: v for k, v in changes.items() if v is not None}
        kind = registry.find_class(options["task_name"])
        known = task_options.names(kind.options_class)
        for name in sorted(changes.keys() - {*known}):
            raise errors.UserError(
                f"`{name}={changes[name]}` is not for the run in {run_dir}, "
                f"which is one of {options['task_name']}. Leave it out."
            )
        options = {**options, **changes}
        vocabulary = tokenization.load(self._source.vocabulary)
        self.task = registry.make(options, vocabulary, self._source.facts)
        self.task.check_config(self._source.config.hidden_size)
        self.task.remember(scores.best_scores(run_dir))
        self._named = (
            checkpoint or run_dir,
            ("checkpoint" if checkpoint else option),
        )
        self._batch_size = batch_size
        self._call: Call | None = None
        self.group_size = _BATCHES * batch_size

    def read(self, path: str) -> list[Item]:
        items = [*map(self._check_length, self.task.read_own(path))]
        rows.require_examples(items, path)
        if all(isinstance(item, rows.BadLine) for item in items):
            next(rows.raise_bad_lines(items))
        return items

    def _check_length(self, item: Item) -> Item:
        """Return an example, or a bad line if its windows were too many."""
        name = self.task.read_whole
        if not name or isinstance(item, rows.BadLine):
            return item
        try:
            overlaps.require_short(*self.task.texts([item])[name])
        except ValueError as error:
            key = rows.key_of(item.guid)
            return rows.BadLine(key, f"{rows.LineKey(key)}: {error}")
        return item

    def load(self, precision: str | None = None) -> keras.Model:
        task = self.task
        step = memory_check.StepSize(
            self._source.config, task.max_seq_length, task.sequences_at_once
        )
        strategy = distribution.make_strategy(
            training_options.DistributionOptions()
        )
        memory_check.check(step, strategy, "batch_size", self._batch_size)
        encoder = AlbertModel(self._source.config, precision=precision)
        model = task.make_model(encoder)
        used = restoring.restore(model, *self._named).path
        logging.info("Predicting with %s", used)
        self._call = compile_model(model)
        task.remarks = {}
        return model

    def answers(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        return rows.answer_items(
            items, lambda some: self.task.answers(self._outputs(some), some)
        )

    def log_remarks(self) -> None:
        base.log_remarks(self.task.remarks or {})

    def _outputs(self, examples: Sequence[base.Example]) -> base.Outputs:
        call = self._call
        assert call is not None, "`load` comes first."
        outputs = batches.run_model(call, self.task, examples, self._batch_size)
        return self.task.pool_records(outputs, examples)
