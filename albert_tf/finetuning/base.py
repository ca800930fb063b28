"""What most finetuning tasks answer to the questions of `contract`.

Tasks import no TensorFlow, for create_finetuning_data.
"""

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, strict_json
from albert_tf.finetuning import contract, probabilities, text_files
from albert_tf.finetuning.contract import Example, Facts, Outputs
from albert_tf.text import tokenization
from albert_tf.training import confusion

# Splits that every task has; a task may have more.
TRAIN, DEV, TEST = "train", "dev", "test"
# A user's own file: the texts of a test split, without labels.
PREDICT = "predict"

Find = Callable[[str], Sequence[str]]  # The labels in a training file.
# What happened to examples while they became features, and their names.
Remarks = dict[str, list[str]]


class Task(contract.Task):
    """A task whose splits are files, and whose outputs are `logits`."""

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: Any = None,
        facts: Facts | None = None,
    ):
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.options = options
        self.facts = facts or self.facts_class()
        self.labels = self.facts.labels

    @property
    def settings(self) -> dict[str, Any]:
        """The options that the features depend on, without the vocabulary."""
        return {"task_name": self.name, "max_seq_length": self.max_seq_length}

    @classmethod
    def find_facts(cls, options: Any, known: Any) -> Facts:
        del options, known  # There is nothing to find.
        return cls.facts_class()

    @classmethod
    def longest_of(cls, known: Any) -> int | None:
        return None

    # Text to records.

    def read_own(self, path: str) -> list[Example | text_files.BadLine]:
        """Read a user's own file; a bad line becomes a `BadLine`.

        By default `read` reads it, as `PREDICT`.
        """
        return self.read(path, PREDICT)

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

    def confusion(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> confusion.Confusion | None:
        """Return how often each label is taken for which; None without."""
        return None

    def remember(self, scores: Mapping[str, float]) -> None:
        """Keep what new examples need from an earlier result of `score`."""
        del scores

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

    @property
    def alike(self) -> dict[str, Any]:
        return {}

    # Exports.

    def asked(self, examples: Sequence[Example]) -> Sequence[Example]:
        return examples

    def score_outputs(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        return self.score(self.of_examples(outputs, examples), examples)

    # With TensorFlow.

    def make_model(self, encoder: Any) -> Any:
        """Put the head of the task, with new weights, on an encoder."""
        return self._part("model", "make_model").make(self, encoder)

    def objective(self) -> Any:
        return self._part("model", "objective").objective(self)

    def services(self) -> Mapping[type, Any]:
        return self._part("service", "services").SERVICES  # type: ignore

    def _part(self, name: str, method: str) -> Any:
        if not self.package:
            raise TypeError(
                f"The task {self.name} has no {name}. Override `{method}`."
            )
        return importlib.import_module(f"{self.package}.{name}")


@dataclasses.dataclass(frozen=True)
class KnownFile:
    """The same for a file alone; None: of another split than training."""

    path: str | None

    def labels(
        self, option: str, given: Sequence[str], find: Find
    ) -> tuple[str, ...]:
        del option
        return tuple(given or (find(self.path) if self.path else ()))

    def of_model(self) -> dict[str, Any]:
        return {}


def joined(answers: contract.Answers, name: str) -> np.ndarray:
    """Return one output of all batches."""
    return np.concatenate([one[name] for one in answers])


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
