"""What all kinds of tables have: columns, a part that is held out, facts."""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, rows
from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.tasks.table import data
from albert_tf.tasks.table.data import TableOptions
from albert_tf.tasks.text.task import TextTask
from albert_tf.text import tokenization


@dataclasses.dataclass(frozen=True)
class TableFacts(base.Facts):
    """What is predicted, and which part of the training file is held out."""

    dev_share: float = 0.0
    best_score: str = "accuracy"
    # Of numbers; without them the head gives the numbers themselves.
    label_mean: float | None = None
    label_deviation: float | None = None
    # Of the vectors that a computed head reads; named as of run_embeddings.
    text_pooling: str | None = None
    projection_size: int | None = None

    def __post_init__(self) -> None:
        pooling, size = self.text_pooling, self.projection_size
        if pooling not in (None, *TEXT_POOLINGS) or type(size or 0) is not int:
            raise errors.UserError(
                f"The vectors of the run are {pooling!r}, {size!r}, and no "
                "pooling and width: its folder is damaged. Run the task again."
            )


class Kind(TextTask):
    """A table of the user; what is predicted depends on the kind."""

    name = data.NAME
    options_class = TableOptions
    facts_class = TableFacts
    options: TableOptions
    facts: TableFacts

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: TableOptions,
        facts: TableFacts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        needed = {"text_columns": options.inputs}
        if not options.is_number:
            needed["labels"] = self.labels
        for name, value in needed.items():
            if not value:
                raise _missing(name)
        self.has_pairs = len(options.inputs) > 1
        texts = "pairs" if self.has_pairs else "single texts"
        self.kind = f"{options.kind} of {texts}"
        self.long = options.long
        self._stride = self.long.stride(max_seq_length)
        self.sequences_vary = options.long.is_divided
        self.key_metric = self.facts.best_score
        if self.facts.dev_share:
            self.parts = {base.HELD_OUT: base.TRAIN}
        self.eval_splits = (base.DEV, *self.parts)
        self.computes_head = options.computes_head
        facts = self.facts
        self.vectors = facts.text_pooling or "", facts.projection_size or 0

    @classmethod
    def find_facts(
        cls, options: TableOptions, source: base.FactSource
    ) -> TableFacts:
        if not options.inputs:
            raise _missing("text_columns")
        labels: Sequence[str] = ()
        if not options.is_number:
            find = functools.partial(data.find_labels, options=options)
            labels = source.labels("labels", options.names, find)
            none = options.none_label
            if none and none not in labels:
                labels = *labels, none
        share = options.dev_share
        if share is None:
            is_alone = (
                base.TRAIN in source.files and base.DEV not in source.files
            ) and not options.labels_file
            usual = data.DEV_SHARE if is_alone else 0.0
            share = source.run_facts().get("dev_share", usual)
        if options.split_by and not share and base.TRAIN in source.files:
            raise errors.UserError(
                f"`split_by={options.split_by}` decides which rows are held "
                "out, and none are. Leave it out, or give `dev_share`."
            )
        scale = options.label_mean, options.label_deviation
        if options.needs_scale and None in scale:
            scale = _find_scale(options, share, source)
        vectors = _find_vectors(options, source)
        return TableFacts(
            tuple(labels), share, options.key_metric, *scale, *vectors
        )

    @property
    def hub_refusal(self) -> str | None:  # type: ignore[override]
        if self.facts.text_pooling:
            return "has a head on vectors, which transformers lacks."
        if not self.long.is_divided:
            return None
        return (
            "was finetuned with `windows`. transformers would read only the "
            "beginning of a long text, and answer otherwise."
        )

    @property
    def settings(self) -> dict[str, Any]:
        options = self.options
        learnt = options.examples_per_label, bool(options.labels_file)
        return {
            **super().settings,
            "labels": list(self.labels),
            "columns": [list(options.inputs), options.label_column],
            "header": options.header,
            "dev_share": [
                *(self.facts.dev_share, options.split_seed),
                *filter(None, [options.split_by]),
            ],
            "kind": [options.kind, options.label_separator],
            **({"learnt": learnt} if any(learnt) else {}),
            # The same for `mean` and `max`.
            **({"window_stride": self._stride} if self.long.is_divided else {}),
        }

    @abc.abstractmethod
    def labels_of(self, table: Sequence[data.Row]) -> Sequence[Any]:
        """Return what examples have as their labels."""

    @abc.abstractmethod
    def check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        """Refuse examples of which nothing can be learnt.

        `examples` are those of `path` without the held-out ones.
        """

    def read(self, path: str, split: str) -> list[TextExample]:
        """Read a file strictly; see `rows.read_user_file`.

        Where `dev_share` is not 0, TRAIN is what is not HELD_OUT.
        """
        has_labels = split in (base.TRAIN, base.DEV, base.HELD_OUT)
        options = self.options
        if split == base.TRAIN:
            options = options.of_training
        table = data.read(path, options, needs_label=has_labels)
        rows.require_examples(table, path)
        labels = self.labels_of(table) if has_labels else [None] * len(table)
        examples = [
            TextExample(row.guid, row.texts, label)
            for row, label in zip(table, labels, strict=True)
        ]
        share = self.facts.dev_share
        if not (share and split == base.TRAIN):  # HELD_OUT comes.
            data.parse.cache_clear()
        if split in (base.TRAIN, base.HELD_OUT):
            examples = data.part_of(examples, table, self.options, share, split)
        if split == base.TRAIN and self.options.examples_per_label:
            examples = data.draw(examples, self.labels, self.options, path)
        if not examples:
            raise errors.UserError(
                f"{path} has no examples for {split}; equal texts, or values "
                "of `split_by`, stay together. Give a file that has more."
            )
        if split == base.TRAIN:
            self.check_training(examples, path)
            logging.info(
                "%s: %d of %d examples are learnt.",
                path,
                len(examples),
                len(table),
            )
        return examples

    def read_own(self, path: str) -> list[TextExample | rows.BadLine]:
        return data.read_own(path, self.options)

    def warn_of_overlap(
        self, learnt: base.Examples, examples: base.Examples, path: str
    ) -> None:
        keys, learnt_keys = (
            {data.key_of(example, self.options) for example in some}
            for some in (examples, self.texts_of(learnt))
        )
        if both := keys & learnt_keys:
            logging.warning(
                "%s: %d %s are in the training file, too. So the scores "
                "are better than those of new ones will be.",
                path,
                len(both),
                "queries" if self.options.query_column else "texts",
            )
        if not self.has_pairs or self.options.query_column:
            return
        sides = [{key[side] for key in learnt_keys} - {""} for side in (0, 1)]
        shared = sum(
            any(text in side for text, side in zip(key, sides, strict=True))
            for key in keys - learnt_keys
        )
        if shared:
            logging.warning(
                "%s: %d of %d pairs have a text of a pair that is learnt. The "
                "scores may be better than those of new texts will be. In one "
                "file, `split_by` a column that such pairs have in common "
                "keeps them together.",
                path,
                shared,
                len(keys),
            )

    def texts_of(self, learnt: base.Examples) -> Sequence[TextExample]:
        """Return the texts among training examples, one by one."""
        return learnt


def _missing(name: str) -> errors.UserError:
    return errors.UserError(
        f"The task {data.NAME} needs `{name}`, which is not given."
    )


def _find_vectors(
    options: TableOptions, source: base.FactSource
) -> tuple[str | None, int | None]:
    """Return pooling and width of the vectors that a computed head reads."""
    facts = source.run_facts()
    if options.computes_head and not facts:
        facts = source.model_facts()
    pooling, size = facts.get("text_pooling"), facts.get("projection_size")
    if not (options.computes_head or pooling):
        return None, None
    if options.computes_head and facts.get("prompts"):
        logging.warning(
            "The vectors are those of texts without a prompt. The model has %s."
            " Write one into the file, and before each text that is asked.",
            facts["prompts"],
        )
    return pooling or "mean", size or 0


def _find_scale(
    options: TableOptions, share: float, source: base.FactSource
) -> tuple[float | None, float | None]:
    """Return mean and deviation: a model's, or those of what is learnt."""
    for facts in (source.run_facts(), source.head_facts()):
        if facts.get("label_deviation"):
            return facts["label_mean"], facts["label_deviation"]
    path = source.train_file(
        "The mean of the numbers is not known. Give `train_file`, or "
        "`label_mean` and `label_deviation`."
    )
    if not path:
        return None, None
    table = data.read(path, options)
    rows.require_examples(table, path)
    examples = [
        TextExample(row.guid, row.texts, row.labels[0]) for row in table
    ]
    learnt = data.part_of(examples, table, options, share, base.TRAIN)
    numbers = [example.label for example in learnt]
    return float(np.mean(numbers)), float(np.std(numbers))
