"""The data of finetuning: from the files of a task to batches."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors, files
from albert_tf.data import inputs, layouts, length_groups, lengths
from albert_tf.finetuning import (
    base,
    features,
    finetuning_options,
    saved_outputs,
    teacher_signal,
)
from albert_tf.model.losses import objectives
from albert_tf.training import distribution, run_folder


class RunData:
    """The splits that a command reads: examples, features, batches."""

    def __init__(
        self,
        settings: finetuning_options.FinetuningOptions,
        task: base.Task,
        sources: Mapping[str, str],
        strategy: tf.distribute.Strategy,
        teacher: teacher_signal.TeacherSignal | None = None,
    ):
        self.task = task
        self.sources = sources
        self._settings = settings
        self._strategy = strategy
        self._teacher = teacher if settings.do_train else None
        self._outputs: saved_outputs.Targets | None = None
        self._features: dict[str, features.FeatureFile] = {}
        self._contents: dict[str, str] = {}
        self._batches: dict[str, tf.data.Dataset] = {}
        self.eval_splits = self._available(
            settings.do_eval, task.eval_splits, "do_eval"
        )
        self.test_splits = self._available(
            settings.do_predict, task.test_splits, "do_predict"
        )
        split_names = dict.fromkeys((*self.eval_splits, *self.test_splits))
        if settings.do_train and not settings.train_feature_file:
            splits = self._available(True, (base.TRAIN,), "do_train")
            split_names = {**dict.fromkeys(splits), **split_names}
        self.examples: dict[str, list[base.Example]] = {}
        for split in split_names:
            path = sources[split]
            if path not in self._contents:  # Files may change after this.
                self._contents[path] = features.data_sha256(task, path)
            self.examples[split] = task.read(path, split)
        if learnt := self.examples.get(base.TRAIN):
            for split in self.eval_splits:
                task.warn_of_overlap(
                    learnt, self.examples[split], sources[split]
                )
        if self._teacher and settings.train_feature_file:
            raise errors.UserError(
                f"`train_feature_file={settings.train_feature_file}` holds "
                "records without the text that a teacher is asked for. Leave "
                "it out."
            )
        if self._teacher:
            self._teacher.prepare(
                task, self.examples[base.TRAIN], settings.trainer.precision
            )

    def feature_key(self, split: str) -> dict[str, Any]:
        """Return the key of `features.describe` for a split."""
        content = self._contents[self.sources[split]]
        return features.describe(self.task, content, split)

    def _available(
        self, is_wanted: bool, splits: Sequence[str], option_name: str
    ) -> tuple[str, ...]:
        if not is_wanted:
            return ()
        available = tuple(s for s in splits if s in self.sources)
        # A user who names files knows which ones are missing.
        if available and self.task.data_option == "data_dir":
            for split in (s for s in splits if s not in available):
                logging.warning("Without %s: it has no file.", split)
        if not available:
            raise errors.UserError(
                f"`{option_name}` is set, but the task {self.task.name} has no "
                f"file for it{': ' if splits else ''}{', '.join(splits)}. Give "
                f"one, or leave `{option_name}` out."
            )
        return available

    def make_features(
        self, settings: finetuning_options.FinetuningOptions
    ) -> None:
        """Make the feature files of all splits, or find those made before."""
        option = "cached_dir" if settings.cached_dir else "output_dir"
        folder = distribution.worker_folder(
            self._strategy, getattr(settings, option)
        )
        task, source = self.task, self.sources.get(base.TRAIN)
        feature_file = None
        if settings.do_train and settings.train_feature_file:
            feature_file = features.open_prepared(
                task,
                settings.train_feature_file,
                source and features.data_sha256(task, source),
                base.TRAIN,
                "train_feature_file",
            )
        files.make_folder(folder, option)
        if feature_file:
            self._features[base.TRAIN] = features.shuffle(
                feature_file, task, folder
            )
        if self._teacher:
            self._outputs = self._teacher.outputs(
                self.examples[base.TRAIN], folder
            )
        for split, examples in self.examples.items():
            if split in self._features:
                continue
            key, complete = self.feature_key(split), []
            if split == base.TRAIN:
                if self._outputs:
                    key["added"] = self._outputs.key
                    complete = [self._outputs.add_to_records]
                name = features.name(task.name, key)
                run_folder.check_same_data(settings.output_dir, name)
            self._features[split] = features.open_or_make(
                task, key, folder, examples, *complete
            )

    def start(self, model: keras.Model) -> None:
        """Give a model that is not trained yet what the data says of it."""
        self.task.start_head(model, self.examples.get(base.TRAIN, ()))
        if self._teacher:
            self._teacher.start(model)

    @property
    def objective(self) -> objectives.Objective:
        objective = self.task.objective(self.examples.get(base.TRAIN, ()))
        if self._teacher and self._outputs:
            return self._teacher.objective(objective, self._outputs.names)
        return objective

    @property
    def training_key(self) -> str:
        """The name of the file of training features, with their hash."""
        return os.path.basename(self._features[base.TRAIN].path)

    @property
    def description(self) -> str:
        counts = (
            f"{file.num_records:,} {split}"
            for split, file in self._features.items()
        )
        return f"{self.task.name}: {', '.join(counts)} records"

    def steps(self) -> tuple[int, int]:
        settings = self._settings
        if not settings.do_train or self.task.computes_head:
            return 1, 0  # Of no schedule; nothing is trained.
        return settings.length.steps(
            self._features[base.TRAIN].num_records, settings.train_batch_size
        )

    def training_batches(self, seed: int, first_step: int) -> tf.data.Dataset:
        """Return endless batches, starting with that of `first_step`."""
        shortest = self._shortest(base.TRAIN)
        records = (
            [self._features[base.TRAIN].path],
            self._layout(base.TRAIN),
            self._settings.train_batch_size,
        )
        if shortest is None:
            return inputs.training_dataset(
                *records, seed=seed, first_step=first_step
            )
        grouping = length_groups.Grouping(
            shortest, mixes_equal=self.task.compares_by is not None
        )
        return inputs.grouped_training_dataset(
            *records, seed=seed, grouping=grouping, first_step=first_step
        )

    def _layout(self, split: str) -> layouts.Layout:
        """Return the layout of a split, limited to the ids of the model."""
        config = self._settings.read_config()
        layout = self.task.layout(split)
        if split == base.TRAIN and self._outputs:
            layout += self._outputs.layout
        return layouts.for_model(
            layout, config.vocab_size, config.type_vocab_size
        )

    def _shortest(self, split: str) -> int | None:
        """Return the length of the shortest batches; None: all are equal.

        On TPUs every shape takes minutes to compile.
        """
        is_tpu = isinstance(self._strategy, tf.distribute.TPUStrategy)
        layout = self.task.layout(split)
        if self._settings.pad_to_max or is_tpu:
            return None
        return self.task.shortest if lengths.sequence_features(layout) else None

    def naming_damage(
        self, split: str
    ) -> contextlib.AbstractContextManager[None]:
        path = self._features[split].path
        return inputs.naming_damage(
            [path],
            self._layout(split),
            f"Remove it and {path}{features.KEY_ENDING}, and start the same "
            "command again: it is made again. If its numbers are right, use "
            "the config of a model that knows them.",
        )

    def all_batches(self, split: str) -> tf.data.Dataset:
        """Return all records of a split in batches.

        They are in file order, or have a feature `record_number`.
        """
        if split not in self._batches:  # Its graphs take a second.
            self._batches[split] = self._read_batches(split)
        return self._batches[split]

    def _read_batches(self, split: str) -> tf.data.Dataset:
        settings = self._settings
        size = settings.predict_batch_size
        if split in self.eval_splits:
            size = settings.eval_batch_size
        records = [self._features[split].path], self._layout(split), size
        shortest = self._shortest(split)
        if shortest is None:
            return inputs.evaluation_dataset(*records)
        return inputs.grouped_evaluation_dataset(*records, shortest)
