"""What a finetuning task answers.

Four small answers: how examples are read, how one becomes the features of a
record, which head is trained, how its outputs are scored. Everything else
(records, batches, steps, checkpoints) is the same for all tasks.
"""

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from albert_tf import modeling, objectives, records, tokenization

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Example:
    """One example of a task, before tokenization.

    Attributes:
        guid: Names the example in prediction files.
        text_a: First text.
        text_b: Second text; empty if there is only one.
        label: Index of the right label; None where it is not known.
    """

    guid: str
    text_a: str
    text_b: str
    label: int | None


class Task(abc.ABC):
    """One finetuning task.

    Attributes:
        name: Value of `--task_name`.
        labels: Label strings; the index is what the model predicts.
        key_metric: The score that chooses the best checkpoint.
        objective: What the head is trained for.
    """

    name: str
    labels: tuple[str, ...]
    key_metric: str
    objective: objectives.Objective

    @abc.abstractmethod
    def source(self, data_dir: str, split: str) -> str:
        """Return the path of the file that holds a split."""

    @abc.abstractmethod
    def read(self, data_dir: str, split: str) -> list[Example]:
        """Read a split in file order.

        Raises:
            errors.UserError: The file is missing or not in the official layout.
        """

    @abc.abstractmethod
    def layout(self, max_seq_length: int) -> records.Layout:
        """Return the layout of the task's records."""

    @abc.abstractmethod
    def featurize(
        self,
        examples: Sequence[Example],
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
    ) -> list[dict[str, np.ndarray]]:
        """Turn examples into the values of records, in order."""

    @abc.abstractmethod
    def make_model(self, encoder: modeling.AlbertModel) -> keras.Model:
        """Put a new head on an encoder."""

    @abc.abstractmethod
    def score(
        self, outputs: dict[str, np.ndarray], examples: Sequence[Example]
    ) -> dict[str, float]:
        """Return the official metrics for the outputs of all examples."""

    @abc.abstractmethod
    def write_predictions(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence[Example],
        output_dir: str,
    ) -> None:
        """Write the prediction files of a test split."""
