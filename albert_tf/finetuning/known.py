"""What is known before a run starts: of an earlier model, of training data."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from albert_tf.common import errors, scores, slices
from albert_tf.finetuning import base, finetuning_options, known_labels
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    huggingface,
)
from albert_tf.training import run_folder

Find = base.Find


class Known:
    """Where a run of a kind of task finds its facts."""

    def __init__(
        self,
        kind: type[base.Task],
        settings: finetuning_options.FinetuningOptions,
        train_file: str | None,
    ):
        self._kind, self._settings = kind, settings
        self._train_file = train_file

    def labels(
        self, option: str, given: Sequence[str], find: Find
    ) -> tuple[str, ...]:
        """Return the labels that are given, else those of file or model."""
        (head,) = slices.load(self._kind.name, "model").HEADS
        names = known_labels.Names(option, lambda _: (), head.width_of)
        labels = given or names.choose(self._settings, self._train_file, find)
        names.check_order(self._settings, labels)
        return tuple(labels)

    def of_model(self) -> dict[str, Any]:
        """Return the facts of the run that goes on, else of the checkpoint."""
        started = known_labels.started(self._settings.output_dir)
        if started:
            return run_folder.read(started).facts
        path = self._settings.init.init_checkpoint
        return of_checkpoint(checkpoint_files.find(path)) if path else {}


@dataclasses.dataclass(frozen=True)
class KnownCheckpoint:
    """The same for a checkpoint that is no run, without training data."""

    path: str

    def labels(
        self, option: str, given: Sequence[str], find: Find
    ) -> tuple[str, ...]:
        del find  # There is no file.
        if not given and huggingface.is_folder(self.path):
            given = huggingface.read_details(self.path).labels
        if not given:
            raise errors.UserError(
                f"`init_checkpoint={self.path}` does not say what its {option} "
                f"are called. Give their names as `{option}`, or export the "
                "run as `run_dir`."
            )
        return tuple(given)

    def of_model(self) -> dict[str, Any]:
        return of_checkpoint(self.path)


def of_checkpoint(found: str) -> dict[str, Any]:
    """Return the facts of a checkpoint's run, or what is known beside it."""
    folder = scores.best_folder(run_folder.folder_of(found))
    if run_folder.is_run(folder):
        return run_folder.read(folder).facts
    facts: dict[str, Any] = {
        "projection_size": checkpoint_reader.read(found).projection_size
    }
    if modules := checkpoint_reader.modules_beside(found):
        facts["text_pooling"] = modules.text_pooling
        facts["max_seq_length"] = modules.max_seq_length
    return facts
