"""What a finetuning task answers.

How examples are read, how they become records, which head is trained, how its
outputs are scored and written. Everything else (feature files, batches, steps,
checkpoints, several runs, ensembles) is the same for all tasks.

Tasks are shared with `data_prep/create_finetuning_data.py`, whose processes
load no TensorFlow. So this package imports numpy at the top, and the head,
which needs Keras, inside `make_model` and `objective` only.
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from albert_tf import records, tokenization
from albert_tf.tasks import text_files

if TYPE_CHECKING:
    import tf_keras as keras

    from albert_tf import modeling, objectives

# Splits that every task knows; a task may have others beside them.
TRAIN, DEV, TEST = "train", "dev", "test"
# A user's own file: the texts of a test split, without labels.
PREDICT = "predict"

# Whatever `Task.read` returns; each task has a dataclass of its own.
Example = Any
# What happened to examples while they became features, and their names.
Remarks = dict[str, list[str]]
# One array for each output of the model, one row for each record.
Outputs = Mapping[str, np.ndarray]


class Task(abc.ABC):
    """One finetuning task, with its tokenizer and its lengths.

    Attributes:
        name: Value of `--task_name`.
        key_metric: The score that chooses the best checkpoint; larger is
            better.
        eval_splits: Splits with labels that are scored after each checkpoint.
            The scores of the first one have the plain names.
        test_splits: Splits whose predictions are written.
        outputs_are_places: Whether outputs speak of places in the records, so
            that only those for the same records can be averaged.
        tokenizer: Cuts texts into ids.
        max_seq_length: Tokens S of a sequence, special ones included.
        remarks: Where `remark` collects; None where it tells at once.
    """

    name: str
    key_metric: str
    eval_splits: tuple[str, ...] = (DEV,)
    test_splits: tuple[str, ...] = (TEST,)
    outputs_are_places: bool = False

    def __init__(
        self, tokenizer: tokenization.AnyTokenizer, max_seq_length: int
    ):
        """Keep what turns texts into ids."""
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.remarks: Remarks | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The options that features follow from, beside the vocabulary."""
        return {"task_name": self.name, "max_seq_length": self.max_seq_length}

    # Text to records.

    @abc.abstractmethod
    def read(self, path: str, split: str) -> list[Example]:
        """Read the file (RACE: the folder) of a split, in its order.

        Args:
            path: Where the split lies.
            split: One of the task's splits, or `PREDICT`: a user's own file,
                without labels.

        Raises:
            errors.UserError: It is missing or not in the official layout; the
                message names file and line, or the id of the example.
        """

    def read_own(self, path: str) -> list[Example | text_files.BadLine]:
        """Read a user's own file; what cannot be answered stays in its place.

        By default nothing does: the file is read strictly.

        Raises:
            errors.UserError: The file is missing, or no line can be read.
        """
        return self.read(path, PREDICT)

    @abc.abstractmethod
    def layout(self, split: str) -> records.Layout:
        """Return the features that are read from the records of a split."""

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Example], split: str
    ) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the values of records, in order, in batches of any size.

        The records of an example follow from it alone: files are made from
        blocks of examples, in several processes.

        Yields:
            By the names of `layout`, arrays [records, *shape]. An example may
            have several records.
        """

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
        """Give records that count themselves their place in the whole file.

        Args:
            framed: Records of a block of examples, framed for a TFRecord file.
            first: How many records stand before them.
        """
        del first
        return framed

    def remark(self, what: str, names: Sequence[str]) -> None:
        """Say that something was cut or left out.

        Args:
            what: The end of a sentence, such as "questions are cut."
            names: Of the examples that it happened to; with none it did not.
        """
        if names and self.remarks is None:
            tell({what: list(names)})
        elif names and self.remarks is not None:
            self.remarks.setdefault(what, []).extend(names)

    # The model.

    @property
    def sequences_at_once(self) -> int:
        """Sequences of an example that go through the encoder together."""
        return 1

    @property
    def starts_at_once(self) -> int:
        """Starts of answers that are followed in predicting; mostly 0."""
        return 0

    @property
    @abc.abstractmethod
    def objective(self) -> "objectives.Objective":
        """What the head is trained for."""

    @abc.abstractmethod
    def make_model(self, encoder: "modeling.AlbertModel") -> "keras.Model":
        """Put a new head on an encoder."""

    # Outputs to results. `outputs` has one row for each record of `examples`.

    @abc.abstractmethod
    def score(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        """Return the official metrics; `key_metric` is among them."""

    def remember(self, scores: Mapping[str, float]) -> None:
        """Take what new examples need from an earlier result of `score`."""
        del scores

    @abc.abstractmethod
    def answers(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> Iterator[dict[str, Any]]:
        """Yield what is predicted for each example, ready for JSON.

        Yields:
            `id`, `prediction`, and how sure the model is.
        """

    @abc.abstractmethod
    def write_predictions(
        self,
        outputs: Outputs,
        examples: Sequence[Example],
        split: str,
        output_dir: str,
    ) -> None:
        """Write the prediction files of a split, under their official names."""

    @abc.abstractmethod
    def combine(self, runs: Sequence[Outputs]) -> Outputs:
        """Average the outputs of several models for the same examples.

        Source: ALBERT §4.9.

        Args:
            runs: From each model, for the same records.

        Returns:
            Outputs that `score`, `answers` and `write_predictions` take.
        """


def tell(remarks: Remarks) -> None:
    """Write remarks to the log, each with the number of examples."""
    for what, names in remarks.items():
        shown = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
        logging.warning("%d %s (%s)", len(names), what, shown)
