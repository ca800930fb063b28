"""The records of a pretraining run: checked, and read in batches."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.common import errors
from albert_tf.data import (
    arrangements,
    drawing,
    inputs,
    layouts,
    manifests,
    packed_rows,
)
from albert_tf.text import tokenization
from albert_tf.training import pretraining_options, run_log

# Packing that leaves more rows than this share of instances is warned of.
_MAX_ROW_SHARE = 0.98
# Records of each file that are checked before anything else is done.
_NUM_CHECKED = 1000
# By mask level or task: options of the writer, one of which must be given.
_WRITTEN_WITH = {
    "phrase": ("phrase_file", "word_segmenter"),
    "entity": ("entity_file",),
    "dialogue": ("input_format=dialogues",),
}
_REMEDY = (
    "Use the model config that belongs to the records, copy the file again, or "
    "write the records again."
)


@dataclasses.dataclass(frozen=True)
class PretrainingData:
    """The records of a run.

    Attributes:
        manifests: Of all files that have one.
        drawer: Draws the masks and, of passages, segments and labels; None if
            the records hold them.
        seed: Of the order of examples, and of masks.
        pack: Whether short examples share a row in training.
    """

    train_paths: Sequence[str]
    eval_paths: Sequence[str]
    manifests: Sequence[manifests.Manifest]
    layout: layouts.Layout
    drawer: drawing.Drawer | None
    seed: int
    pack: bool = False

    @property
    def description(self) -> str:
        """One sentence on the data, for the run card."""
        total = sum(manifest.num_examples for manifest in self.manifests)
        shared = ""
        if self.pack:
            shared = f"; in training {self.examples_per_row:.2f} share a row"
        return (
            f"{len(self.train_paths)} file(s) for training, "
            f"{len(self.eval_paths)} for evaluation; {total:,} examples "
            f"in those with a manifest{shared}"
        )

    @functools.cached_property
    def examples_per_row(self) -> float:
        """Examples in a row of a training batch, on average over a pass."""
        if not self.pack:
            return 1.0
        with self.naming_damage():
            return inputs.count_examples(self.train_paths) / self._num_rows

    @functools.cached_property
    def _num_rows(self) -> int:
        """Rows that the training examples share, see `inputs.count_rows`."""
        logging.info("Reading all training examples to count packed rows.")
        return inputs.count_rows(self.train_paths, self._packing)

    @property
    def _packing(self) -> packed_rows.Packing:
        masks = self.drawer
        assert masks is None or isinstance(masks, drawing.Masks)
        return packed_rows.Packing(self.layout, masks)

    @property
    def unigram_baselines(self) -> dict[str, Any]:
        """Loss and accuracy of a model that knows only how frequent pieces are.

        The keys are values of `run_log.BASELINES`; the numbers are means over
        the examples. {} if some training records do not say it: they have no
        manifest, are of an earlier version or hold no masks.
        """
        names = run_log.BASELINES.values()
        distinct: list[manifests.Manifest] = []
        for path in self.train_paths:
            manifest = manifests.find(path)
            if manifest is None:
                return {}
            if manifest not in distinct:
                distinct.append(manifest)
        rows = [[m.summary.get(name) for name in names] for m in distinct]
        if not all(isinstance(v, (int, float)) for row in rows for v in row):
            return {}
        weights = [manifest.num_examples for manifest in distinct]
        means = np.average(np.array(rows, float), axis=0, weights=weights)
        return dict(zip(names, means.tolist(), strict=True))

    def training_batches(
        self, batch_size: int, first_step: int
    ) -> tf.data.Dataset:
        """Return endless batches for training, from that of a step on."""
        if self.pack:
            return inputs.packed_training_dataset(
                self.train_paths,
                self._packing,
                batch_size,
                seed=self.seed,
                num_rows=self._num_rows,
                first_step=first_step,
            )
        return inputs.training_dataset(
            self.train_paths,
            self.layout,
            batch_size,
            seed=self.seed,
            first_step=first_step,
            drawer=self.drawer,
        )

    def evaluation_batches(
        self, batch_size: int, max_batches: int
    ) -> tf.data.Dataset:
        """Return the first batches for evaluation, the same ones every time."""
        return inputs.evaluation_dataset(
            self.eval_paths,
            self.layout,
            batch_size,
            max_batches,
            seed=self.seed,
            drawer=self.drawer,
        )

    def warn_of_full_rows(self) -> None:
        """Warn where `pack_sequences` hardly reduces the number of rows."""
        if self.pack and 1 / self.examples_per_row > _MAX_ROW_SHARE:
            logging.warning(
                "`pack_sequences`: only %.2f examples share a row, because "
                "most are as long as a row. Without it training is as fast.",
                self.examples_per_row,
            )

    def naming_damage(self) -> contextlib.AbstractContextManager[None]:
        return inputs.naming_damage(self._paths, self.layout, _REMEDY)

    def check_first_records(self) -> None:
        """Refuse files whose first records are not what the model takes."""
        inputs.check_values(self._paths, self.layout, _REMEDY, _NUM_CHECKED)

    @property
    def _paths(self) -> list[str]:
        return list(dict.fromkeys([*self.train_paths, *self.eval_paths]))

    @property
    def vocab_hashes(self) -> dict[str, set[str]]:
        return manifests.vocab_hashes(self._paths)


def with_record_settings(
    vocabulary: tokenization.VocabularyOptions,
    records: Sequence[manifests.Manifest],
) -> tokenization.VocabularyOptions:
    """Return a vocabulary whose open settings are those of the records' text.

    A setting of the normalization is open where neither an option nor the file
    beside the vocabulary gives it, so always where no vocabulary is named.
    """
    resolved = vocabulary.resolved()
    record_options = records[0].options if records else {}
    values: dict[str, Any] = {
        name: record_options.get(name) if value is None else value
        for name, value in resolved.settings.items()
    }
    return dataclasses.replace(resolved, **values)


def check_normalization(
    vocabulary: tokenization.VocabularyOptions, manifest: manifests.Manifest
) -> None:
    """Refuse records whose text was normalized in another way than the run's.

    The run hands its settings on to finetuning and export.
    """
    for name, value in vocabulary.resolved().settings.items():
        if value is not None and manifest.options.get(name, value) != value:
            raise errors.UserError(
                f"`{name}={value}`, but the records "
                f"{', '.join(manifest.shards)} were written with the opposite. "
                "Set what the records have, or write them again."
            )


def check_labels(
    objective: str, manifest: manifests.Manifest, training_files: Sequence[str]
) -> None:
    """Refuse training records whose label is that of another objective.

    Passages have no label; those that cross documents suit no objective.

    To evaluate on other labels is allowed: how a model that was trained on nsp
    does on sop is a result (ALBERT Table 5).
    """
    purpose = manifest.sentence_objective
    shards = ", ".join(manifest.shards)
    if objective != "none" and manifest.options.get("cross_documents"):
        raise errors.UserError(
            f"`sentence_objective={objective}`, but the passages of {shards} "
            "go on behind the end of a document. Use "
            "`sentence_objective=none`, or write them again without "
            "`cross_documents`."
        )
    if manifest.kind == "passages" or objective in ("none", purpose):
        return
    if manifest in map(manifests.find, training_files):
        raise errors.UserError(
            f"`sentence_objective={objective}`, but the records {shards} were "
            f"written for {purpose}: their labels mean something else. Use "
            f"`sentence_objective={purpose}`, or none, or write them again."
        )
    logging.warning(
        "The labels of %s mean %s; the model is asked about %s.",
        shards,
        purpose,
        objective,
    )


def check_marks(
    recipe: pretraining_options.RecipeOptions, paths: Sequence[str]
) -> None:
    """Refuse records without the marks of phrases, entities or speakers."""
    levels, tasks = recipe.passages.mask_levels, recipe.sentence_objective
    requested = {
        f"mask_levels={levels}": [x.value for x in recipe.passages.levels],
        f"sentence_objective={tasks}": arrangements.parse(tasks),
    }
    marked_names = [
        (option, name)
        for option, names in requested.items()
        for name in names
        if name in _WRITTEN_WITH
    ]
    for path, (option, name) in itertools.product(paths, marked_names):
        manifest, allowed = manifests.find(path), _WRITTEN_WITH[name]
        if manifest and any(_was_written_with(manifest, n) for n in allowed):
            continue
        options = " or ".join(f"`{n}`" for n in allowed)
        raise errors.UserError(
            f"`{option}` has {name}, but the records {path} "
            f"were not written with {options}, or have no manifest that "
            "says so. Write them again with it."
        )


def _was_written_with(manifest: manifests.Manifest, option: str) -> bool:
    """Tell whether the writer had an option, NAME, or its value, NAME=VALUE."""
    name, _, value = option.partition("=")
    written = manifest.options.get(name)
    return written == value if value else written not in (None, "none")


def warn_of_lost_masks(manifest: manifests.Manifest) -> None:
    """Warn of records with fewer masked tokens than `masked_lm_prob` means."""
    intended = manifest.max_seq_length * manifest.options.get(
        "masked_lm_prob", 0.0
    )
    if manifest.has_masks and intended > manifest.max_predictions_per_seq + 1:
        logging.warning(
            "The records %s were to hide %.0f of %d pieces, but hold only "
            "%d predictions: fewer are hidden. Write them with a larger "
            "`max_predictions_per_seq`.",
            ", ".join(manifest.shards),
            intended,
            manifest.max_seq_length,
            manifest.max_predictions_per_seq,
        )
