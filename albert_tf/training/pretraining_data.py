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
_HARDLY_FEWER = 0.98
# Records of each file that are looked at before anything else is done.
_LOOKED_AT = 1000
# Options of the writer that levels and tasks need, one of them.
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
        drawer: Draws the rest of the examples; None if records hold all.
        seed: Of the order of examples, and of masks.
        pack: Whether short examples share a row in training.
    """

    training: Sequence[str]
    evaluation: Sequence[str]
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
            f"{len(self.training)} file(s) for training, "
            f"{len(self.evaluation)} for evaluation; {total:,} examples in "
            f"those with a manifest{shared}"
        )

    @functools.cached_property
    def examples_per_row(self) -> float:
        """Examples in a row of a training batch, on average over a pass."""
        if not self.pack:
            return 1.0
        with self.naming_damage():
            return inputs.count_examples(self.training) / self._num_rows

    @functools.cached_property
    def _num_rows(self) -> int:
        """Rows that the training examples share, see `inputs.count_rows`."""
        logging.info("Reading all training examples to count packed rows.")
        return inputs.count_rows(self.training, self._packing)

    @property
    def _packing(self) -> packed_rows.Packing:
        masks = self.drawer
        assert masks is None or isinstance(masks, drawing.Masks)
        return packed_rows.Packing(self.layout, masks)

    @property
    def baselines(self) -> dict[str, Any]:
        """What a model reaches that knows only how frequent pieces are.

        The keys are those of `run_log.BASELINES`; the numbers are means over
        the examples. Nothing if some training records do not say it: they have
        no manifest, are of an earlier version or hold no masks.
        """
        names = run_log.BASELINES.values()
        written: list[manifests.Manifest] = []
        for path in self.training:
            manifest = manifests.find(path)
            if manifest is None:
                return {}
            if manifest not in written:
                written.append(manifest)
        rows = [[m.summary.get(name) for name in names] for m in written]
        if not all(isinstance(v, (int, float)) for row in rows for v in row):
            return {}
        weights = [manifest.num_examples for manifest in written]
        means = np.average(np.array(rows, float), axis=0, weights=weights)
        return dict(zip(names, means.tolist(), strict=True))

    def training_batches(
        self, batch_size: int, first_step: int
    ) -> tf.data.Dataset:
        """Return endless batches for training, from that of a step on."""
        if self.pack:
            return inputs.packed_training_dataset(
                self.training,
                self._packing,
                batch_size,
                seed=self.seed,
                num_rows=self._num_rows,
                first_step=first_step,
            )
        return inputs.training_dataset(
            self.training,
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
            self.evaluation,
            self.layout,
            batch_size,
            max_batches,
            seed=self.seed,
            drawer=self.drawer,
        )

    def warn_of_full_rows(self) -> None:
        if self.pack and 1 / self.examples_per_row > _HARDLY_FEWER:
            logging.warning(
                "`pack_sequences`: only %.2f examples share a row, because "
                "most are as long as a row. Without it training is as fast.",
                self.examples_per_row,
            )

    def naming_damage(self) -> contextlib.AbstractContextManager[None]:
        return inputs.naming_damage(self._paths, self.layout, _REMEDY)

    def check_first_records(self) -> None:
        """Refuse files whose first records are not what the model takes."""
        inputs.check_values(self._paths, self.layout, _REMEDY, _LOOKED_AT)

    @property
    def _paths(self) -> list[str]:
        return list(dict.fromkeys([*self.training, *self.evaluation]))

    @property
    def vocabularies(self) -> dict[str, set[str]]:
        return manifests.vocabularies(self._paths)


def with_settings(
    vocabulary: tokenization.VocabularyOptions,
    records: Sequence[manifests.Manifest],
) -> tokenization.VocabularyOptions:
    """Return the options with the settings of the records' text.

    They count where neither an option nor the file beside the vocabulary says
    anything, which is so if no vocabulary is named.
    """
    resolved = vocabulary.resolved()
    written = records[0].options if records else {}
    values: dict[str, Any] = {
        name: written.get(name) if value is None else value
        for name, value in resolved.settings.items()
    }
    return dataclasses.replace(resolved, **values)


def check_settings(
    vocabulary: tokenization.VocabularyOptions, manifest: manifests.Manifest
) -> None:
    """Refuse records whose text was normalized in another way than the run's.

    The run hands its settings on to finetuning and export.
    """
    for name, here in vocabulary.resolved().settings.items():
        if here is not None and manifest.options.get(name, here) != here:
            raise errors.UserError(
                f"`{name}={here}`, but the records "
                f"{', '.join(manifest.shards)} were written with the opposite. "
                "Set what the records have, or write them again."
            )


def check_labels(
    objective: str, manifest: manifests.Manifest, training_files: Sequence[str]
) -> None:
    """Refuse training records whose label means something else.

    Passages have none; those that cross documents serve no task.

    To evaluate on them is allowed: how a model that was trained on nsp does on
    sop is a result (ALBERT Table 5).
    """
    written = manifest.sentence_objective
    shards = ", ".join(manifest.shards)
    if objective != "none" and manifest.options.get("cross_documents"):
        raise errors.UserError(
            f"`sentence_objective={objective}`, but the passages of {shards} "
            "go on behind the end of a document. Use "
            "`sentence_objective=none`, or write them again without "
            "`cross_documents`."
        )
    if manifest.kind == "passages" or objective in ("none", written):
        return
    if manifest in map(manifests.find, training_files):
        raise errors.UserError(
            f"`sentence_objective={objective}`, but the records {shards} were "
            f"written for {written}: their labels mean something else. Use "
            f"`sentence_objective={written}`, or none, or write them again."
        )
    logging.warning(
        "The labels of %s mean %s; the model is asked about %s.",
        shards,
        written,
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
    marked = [
        (option, name)
        for option, names in requested.items()
        for name in names
        if name in _WRITTEN_WITH
    ]
    for path, (option, name) in itertools.product(paths, marked):
        manifest, needed = manifests.find(path), _WRITTEN_WITH[name]
        if manifest and any(_has(manifest, n) for n in needed):
            continue
        options = " or ".join(f"`{n}`" for n in needed)
        raise errors.UserError(
            f"`{option}` has {name}, but the records {path} "
            f"were not written with {options}, or have no manifest that "
            "says so. Write them again with it."
        )


def _has(manifest: manifests.Manifest, option: str) -> bool:
    """Tell whether an option was given, or had the value after a "="."""
    name, _, value = option.partition("=")
    written = manifest.options.get(name)
    return written == value if value else written not in (None, "none")


def warn_of_lost_masks(manifest: manifests.Manifest) -> None:
    """Warn of records that hold fewer predictions than they were to have."""
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
