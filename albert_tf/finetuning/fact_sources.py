"""Where a task finds its `base.Facts`: in files, its run, or other models."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import configs, errors, options, scores
from albert_tf.finetuning import base, finetuning_options, registry
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    huggingface,
)
from albert_tf.training import run_folder


class RunSource(base.FactSource):
    """Finds the facts for a run: its own earlier ones, or a model's."""

    def __init__(
        self,
        kind: type[base.Task],
        settings: finetuning_options.FinetuningOptions,
        files: Mapping[str, str],
    ):
        """Store the places to look at; nothing is read.

        Args:
            files: The file of each split that has one.
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
        self, option: str, names: Sequence[str], find: base.FindLabels
    ) -> tuple[str, ...]:
        labels = tuple(names or self._find_labels(option, find))
        self._check_order(option, labels)
        return labels

    def run_facts(self) -> dict[str, Any]:
        folder = find_run(self._settings.output_dir)
        return facts_of_run(run_folder.read(folder)) if folder else {}

    def model_facts(self) -> dict[str, Any]:
        if find_run(self._settings.output_dir):
            return self.run_facts()
        path = self._settings.init.init_checkpoint
        return checkpoint_facts(checkpoint_files.find(path)) if path else {}

    def head_facts(self) -> dict[str, Any]:
        path = self._settings.init.init_checkpoint
        if not path or self._settings.new_head:
            return {}
        # Of several runs the best one.
        folder = run_folder.folder_of(configs.find_checkpoint(path))
        return self._head_facts_in(scores.best_folder(folder))

    def _head_facts_in(self, folder: str) -> dict[str, Any]:
        """Return the facts of the head in a run or a Hugging Face folder."""
        if run_folder.is_run(folder):
            run = run_folder.read(folder)
            kind = registry.find_class(str(run.options.get("task_name")))
            return facts_of_run(run) if kind.package == self._package else {}
        if not huggingface.is_folder(folder):
            return {}
        if self._label_variable not in checkpoint_reader.read(folder).shapes:
            return {}
        details = huggingface.read_details(folder)
        facts: dict[str, Any] = {"labels": details.labels}
        if details.is_regression:  # The head gives the numbers themselves.
            facts |= {"label_mean": 0.0, "label_deviation": 1.0}
        return facts

    @property
    def _label_variable(self) -> str:
        """The name of the head's variable with a value for each label."""
        module = importlib.import_module(f"{self._package}.model")
        (head,) = module.HEADS
        name: str = head.width_of
        return name

    def _find_labels(self, option: str, find: base.FindLabels) -> Sequence[str]:
        """Return the labels of the training file, else those of a model."""
        head_labels: Sequence[str] = self.head_facts().get("labels", ())
        if base.TRAIN not in self.files:
            labels: Sequence[str] = self.run_facts().get("labels", ())
            if labels or head_labels:
                return labels or head_labels
        path = self.train_file(
            f"The {option} are not known. Give `train_file`, or list them as "
            f"`{option}`."
        )
        labels = find(path)
        if head_labels and set(head_labels) != set(labels):
            init = self._settings.init.init_checkpoint
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model of other {option} "
                f"than {path}: {', '.join(head_labels)}. To train a new head "
                "for those of the file, add `new_head`."
            )
        return head_labels or labels

    def _check_order(self, option: str, labels: Sequence[str]) -> None:
        """Refuse a head with the labels of a new run in another order."""
        init = self._settings.init.init_checkpoint
        if not (init and labels) or find_run(self._settings.output_dir):
            return
        new = tuple(f"{scope}/" for scope in self._settings.init.new_scopes)
        head_labels = self.head_facts().get("labels", ())
        is_same = sorted(head_labels) == sorted(labels)
        is_reordered = is_same and [*head_labels] != [*labels]
        if is_reordered and not f"{self._label_variable}/".startswith(new):
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model with the {option} "
                f"{', '.join(head_labels)}, the task has them in the order "
                f"{', '.join(labels)}. To train a new head for these, add "
                "`new_head`."
            )


class CheckpointSource(base.FactSource):
    """Finds the facts of a checkpoint that is no run: beside its weights."""

    def __init__(self, path: str):
        super().__init__(None)
        self._path = path

    def labels(
        self, option: str, names: Sequence[str], find: base.FindLabels
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

    def model_facts(self) -> dict[str, Any]:
        return checkpoint_facts(self._path)


def facts_of_run(run: run_folder.Run) -> dict[str, Any]:
    """Return the facts of a run; earlier versions wrote them as options."""
    if "task_name" not in run.options:
        return run.facts
    kind = registry.find_class(run.options["task_name"])
    if run.facts:
        registry.read_facts(kind, run.options, run.facts)
        return run.facts
    task_options: Any = registry.select_options(kind.options_class, run.options)
    return kind.find_facts(task_options, base.FactSource(None)).to_dict()


def find_run(output_dir: str) -> str | None:
    """Return the folder of the run that is continued; the first of several.

    None for a start that was broken off before its first checkpoint.
    """
    folder = run_folder.find_first_run(output_dir)
    return folder if folder and run_folder.has_checkpoint(folder) else None


def checkpoint_facts(path: str) -> dict[str, Any]:
    """Return the facts of a checkpoint's run, else of the files beside it."""
    folder = scores.best_folder(run_folder.folder_of(path))
    if run_folder.is_run(folder):
        return facts_of_run(run_folder.read(folder))
    facts: dict[str, Any] = {
        "projection_size": checkpoint_reader.read(path).projection_size
    }
    if modules := checkpoint_reader.modules_beside(path):
        facts["text_pooling"] = modules.text_pooling
        facts["max_seq_length"] = modules.max_seq_length
        facts |= options.to_dict(modules.prompting)
    return facts
