"""Where a task finds its facts: in files, in its run, in other models."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import configs, errors, scores
from albert_tf.finetuning import base, finetuning_options, registry
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    huggingface,
)
from albert_tf.training import run_folder


class Known(base.KnownFile):
    """Where a run finds its facts."""

    def __init__(
        self,
        kind: type[base.Task],
        settings: finetuning_options.FinetuningOptions,
        files: Mapping[str, str],
    ):
        """Remember where to look.

        Args:
            files: That of each split, as far as they are known.
        """
        super().__init__(None)
        self.files = files
        self._package = kind.package
        self._settings = settings

    def train_file(self, missing: str) -> str:
        if base.TRAIN not in self.files:
            raise errors.UserError(missing)
        return self.files[base.TRAIN]

    def labels(
        self, option: str, names: Sequence[str], find: base.Find
    ) -> tuple[str, ...]:
        labels = tuple(names or self._choose(option, find))
        self._check_order(option, labels)
        return labels

    def of_run(self) -> dict[str, Any]:
        folder = started(self._settings.output_dir)
        return facts_of(run_folder.read(folder)) if folder else {}

    def of_model(self) -> dict[str, Any]:
        if started(self._settings.output_dir):
            return self.of_run()
        path = self._settings.init.init_checkpoint
        return of_checkpoint(checkpoint_files.find(path)) if path else {}

    def of_head(self) -> dict[str, Any]:
        path = self._settings.init.init_checkpoint
        if not path or self._settings.new_head:
            return {}
        # Of several runs the best one.
        folder = run_folder.folder_of(configs.find_checkpoint(path))
        return self._of_head_in(scores.best_folder(folder))

    def _of_head_in(self, folder: str) -> dict[str, Any]:
        if run_folder.is_run(folder):
            run = run_folder.read(folder)
            kind = registry.kind_of(str(run.options.get("task_name")))
            is_same = kind.package == self._package
            return facts_of(run) if is_same else {}
        if not huggingface.is_folder(folder):
            return {}
        if self._width_of not in checkpoint_reader.read(folder).shapes:
            return {}
        details = huggingface.read_details(folder)
        facts: dict[str, Any] = {"labels": details.labels}
        if details.is_regression:  # The head gives the numbers themselves.
            facts |= {"label_mean": 0.0, "label_deviation": 1.0}
        return facts

    @property
    def _width_of(self) -> str:
        """The variable of the head with a value for each label."""
        module = importlib.import_module(f"{self._package}.model")
        (head,) = module.HEADS
        name: str = head.width_of
        return name

    def _choose(self, option: str, find: base.Find) -> Sequence[str]:
        """Return the labels of the training file, else those of a model."""
        of_head: Sequence[str] = self.of_head().get("labels", ())
        if base.TRAIN not in self.files:
            labels: Sequence[str] = self.of_run().get("labels", ()) or of_head
            if labels:
                return labels
        path = self.train_file(
            f"The {option} are not known. Give `train_file`, or list them as "
            f"`{option}`."
        )
        labels = find(path)
        if of_head and set(of_head) != set(labels):
            init = self._settings.init.init_checkpoint
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model of other {option} "
                f"than {path}: {', '.join(of_head)}. To train a new head for "
                "those of the file, add `new_head`."
            )
        return of_head or labels

    def _check_order(self, option: str, labels: Sequence[str]) -> None:
        """Refuse a head that has the labels of a new run in another order."""
        init = self._settings.init.init_checkpoint
        if not (init and labels) or started(self._settings.output_dir):
            return
        new = tuple(f"{scope}/" for scope in self._settings.init.new_scopes)
        of_head = self.of_head().get("labels", ())
        is_turned = [*of_head] != [*labels] and sorted(of_head) == sorted(
            labels
        )
        if is_turned and not f"{self._width_of}/".startswith(new):
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model with the {option} "
                f"{', '.join(of_head)}, the task has them in the order "
                f"{', '.join(labels)}. To train a new head for these, add "
                "`new_head`."
            )


class KnownCheckpoint(base.KnownFile):
    """Where a checkpoint that is no run has its facts, without its data."""

    def __init__(self, path: str):
        super().__init__(None)
        self._path = path

    def labels(
        self, option: str, names: Sequence[str], find: base.Find
    ) -> tuple[str, ...]:
        del find  # There is no file.
        if not names and huggingface.is_folder(self._path):
            names = huggingface.read_details(self._path).labels
        if not names:
            raise errors.UserError(
                f"`init_checkpoint={self._path}` does not say what its "
                f"{option} are called. Give their names as `{option}`, or "
                "export the run as `run_dir`."
            )
        return tuple(names)

    def of_model(self) -> dict[str, Any]:
        return of_checkpoint(self._path)


def facts_of(run: run_folder.Run) -> dict[str, Any]:
    """Return the facts of a run; those of earlier versions are options."""
    if "task_name" not in run.options:
        return run.facts
    kind = registry.kind_of(run.options["task_name"])
    if run.facts:
        registry.read_facts(kind, run.options, run.facts)
        return run.facts
    task_options: Any = registry.own_options(kind.options_class, run.options)
    return kind.find_facts(task_options, base.KnownFile(None)).to_dict()


def started(output_dir: str) -> str | None:
    """Return the folder of the run that goes on, or of the first of several.

    None for a start that was broken off before its first checkpoint.
    """
    folder = run_folder.find_first_run(output_dir)
    return folder if folder and run_folder.has_checkpoint(folder) else None


def of_checkpoint(path: str) -> dict[str, Any]:
    """Return the facts of a checkpoint's run, or what is known beside it."""
    folder = scores.best_folder(run_folder.folder_of(path))
    if run_folder.is_run(folder):
        return facts_of(run_folder.read(folder))
    facts: dict[str, Any] = {
        "projection_size": checkpoint_reader.read(path).projection_size
    }
    if modules := checkpoint_reader.modules_beside(path):
        facts["text_pooling"] = modules.text_pooling
        facts["max_seq_length"] = modules.max_seq_length
    return facts
