"""The interface of a finetuning task.

A task says how examples are read, how they become records, and how a model's
outputs are scored and written. Its head is in `task_models`. Everything else is
the same for all tasks. They import no TensorFlow, for create_finetuning_data.
"""

import abc
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, strict_json
from albert_tf.data import layouts, lengths
from albert_tf.finetuning import probabilities, text_files
from albert_tf.text import tokenization
from albert_tf.training import confusion

# Splits that every task has; a task may have more.
TRAIN, DEV, TEST = "train", "dev", "test"
# A user's own file: the texts of a test split, without labels.
PREDICT = "predict"

# Whatever `Task.read` returns; each task has a dataclass of its own, whose repr
# tells examples apart.
Example = Any
# What happened to examples while they became features, and their names.
Remarks = dict[str, list[str]]
# One array for each output of the model, one row for each record.
Outputs = Mapping[str, np.ndarray]


class Task(abc.ABC):
    """One finetuning task, with its tokenizer and its lengths.

    Attributes:
        key_metric: The score that chooses the best checkpoint; larger is
            better.
        has_pairs: Whether sequences have a second segment.
        eval_splits: Splits with labels that are scored after each checkpoint.
            The scores of the first one have the plain names.
        reads_folders: Whether a split may be a folder.
        outputs_are_positions: Whether outputs are positions in the records.
            Then only outputs for the same records can be averaged.
        output_widths: Size of the second axis of outputs with a value for each
            token, by name.
        exit_options: Those of `exit_layers` and `exit_heads` that its head can
            do.
        sequences_at_once: Sequences of an example that go through the encoder
            together.
        compares_by: Option, with its value, by which an example to learn is
            told from the others of its batch, so that there must be others.
        shortest: Tokens of the shortest batches, where padding is cut.
        max_seq_length: Tokens S of a sequence, special ones included.
        remarks: What `remark` has collected; None: it logs at once.
    """

    name: str
    key_metric: str
    has_pairs: bool = False
    eval_splits: tuple[str, ...] = (DEV,)
    test_splits: tuple[str, ...] = (TEST,)
    reads_folders: bool = False
    outputs_are_positions: bool = False
    output_widths: Mapping[str, int] = MappingProxyType({})
    exit_options: tuple[str, ...] = ()
    sequences_at_once: int = 1
    compares_by: str | None = None
    shortest: int = lengths.SHORTEST

    def __init__(
        self, tokenizer: tokenization.AnyTokenizer, max_seq_length: int
    ):
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.remarks: Remarks | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The options that the features depend on, without the vocabulary."""
        return {"task_name": self.name, "max_seq_length": self.max_seq_length}

    # Text to records.

    @abc.abstractmethod
    def read(self, path: str, split: str) -> list[Example]:
        """Read the file (RACE: the folder) of a split."""

    def read_own(self, path: str) -> list[Example | text_files.BadLine]:
        """Read a user's own file; a bad line becomes a `BadLine`.

        By default `read` reads it, as `PREDICT`.
        """
        return self.read(path, PREDICT)

    @abc.abstractmethod
    def layout(self, split: str) -> layouts.Layout:
        """Return the features that are read from the records of a split."""

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Example], split: str
    ) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the values of records, in order, in batches of any size.

        The records of an example follow from it alone: files are made from
        blocks of examples, in several processes.

        Yields:
            By the names of `layout`, arrays [records, *shape].
        """

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
        """Give records that have a number their number in the whole file.

        `framed` are those of a block; `first` records stand before them.
        """
        return framed

    def remark(self, what: str, names: Sequence[str]) -> None:
        """Report that something was cut or left out, if `names` are given.

        `what` ends a sentence that begins with their number.
        """
        if names and self.remarks is None:
            log_remarks({what: list(names)})
        elif names and self.remarks is not None:
            self.remarks.setdefault(what, []).extend(names)

    # Outputs to results. `outputs` has one row for each record of `examples`;
    # where `of_examples` pools them, one for each example.

    def of_examples(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> Outputs:
        """Pool the outputs of several records of an example."""
        return outputs

    @abc.abstractmethod
    def score(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        """Return the official metrics; `key_metric` is among them."""

    def confusion(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> confusion.Confusion | None:
        """Return how often each label is taken for which; None without."""
        return None

    def remember(self, scores: Mapping[str, float]) -> None:
        """Keep what new examples need from an earlier result of `score`."""
        del scores

    @abc.abstractmethod
    def answers(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> Iterator[dict[str, Any]]:
        """Yield what is predicted for each example, ready for JSON.

        Yields:
            `id`, `prediction`, and probabilities or scores.
        """

    def write_predictions(
        self,
        outputs: Outputs,
        examples: Sequence[Example],
        split: str,
        output_dir: str,
    ) -> None:
        """Write the prediction files of a split, under their official names.

        By default `SPLIT_predictions.jsonl`: see `answers`.
        """
        answers = self.answers(outputs, examples)
        text = "".join(strict_json.dumps(answer) + "\n" for answer in answers)
        path = os.path.join(output_dir, f"{split}_predictions.jsonl")
        files.write_text(path, text)

    def combine(self, runs: Sequence[Outputs]) -> Outputs:
        """Average what several models say about the same records.

        By default the probabilities of classes. Source: ALBERT §4.9.
        """
        logits = [outputs["logits"] for outputs in runs]
        return {"logits": probabilities.average(logits)}


def check_labels(
    option: str, written: str | None, labels: Sequence[str], separators: str
) -> None:
    is_odd = len(set(labels)) < max(2, len(labels)) or not all(labels)
    if labels and is_odd:
        raise errors.UserError(
            f"`{option}={written}` must be two {option} or more, none empty "
            f"and none twice, with {separators} between them. Leave it out "
            "with `train_file`."
        )


def log_remarks(remarks: Remarks) -> None:
    for what, names in remarks.items():
        shown = ", ".join(map(str, names[:3])) + ", ..." * (len(names) > 3)
        logging.warning("%d %s (%s)", len(names), what, shown)
