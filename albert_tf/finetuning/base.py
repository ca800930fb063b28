"""The interface of a finetuning task, which the engine calls.

The engine (finetune, predict, export, distill, ensemble, convert and
create_finetuning_data) calls the methods of a `Task` and never asks which task
it is. A slice defines its task in its module `task`, which imports no
TensorFlow; code that needs TensorFlow is in the other modules of its `package`.
"""

import abc
import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from absl import logging

from albert_tf.common import errors, files, rows, strict_json
from albert_tf.data import layouts, lengths
from albert_tf.finetuning import probabilities
from albert_tf.text import tokenization
from albert_tf.training import confusion

# Splits that every task has; a task may have more.
TRAIN, DEV, TEST = "train", "dev", "test"
# The part of a training file that is not learnt, for tasks that divide it.
HELD_OUT = "held_out"
# A user's own file: the texts of a test split, without labels.
PREDICT = "predict"

Example = Any  # A dataclass of the task's own, with a `guid`.
Examples = Sequence[Example]
Outputs = Mapping[str, np.ndarray]  # One row for each record.
SignatureAnswers = Sequence[Outputs]  # Of a signature of texts, for each batch.
Scores = dict[str, float]
FindLabels = Callable[[str], Sequence[str]]  # In a training file.
# Messages, such as that texts were cut, with the ids of the examples.
Remarks = dict[str, list[str]]


@dataclasses.dataclass(frozen=True)
class Facts:
    """Values that a task derives from its data, kept in a run's folder."""

    labels: tuple[str, ...] = ()  # In the order of the outputs.

    def to_dict(self) -> dict[str, Any]:
        pairs = vars(self).items()
        return {k: [*v] if isinstance(v, tuple) else v for k, v in pairs}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Facts":
        names = [field.name for field in dataclasses.fields(cls)]
        present = {name: values[name] for name in names if name in values}
        labels = present.get("labels", ())
        if not isinstance(labels, list | tuple) or not all(
            isinstance(label, str) for label in labels
        ):
            raise errors.UserError(
                f"The labels of the run are {strict_json.brief(labels)}, not a "
                "list of texts: its folder is damaged. Run the task again."
            )
        return cls(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in present.items()
            }
        )


@dataclasses.dataclass(frozen=True)
class NameOptions:
    """The name of the task, for a class of several tasks."""

    task_name: str


class Task(abc.ABC):
    """A task with its tokenizer, length, options and facts.

    By default its splits are files, and its outputs are `logits`.
    """

    package: ClassVar[str] = ""  # Where `model` and `service` are.
    command: ClassVar[str] = "run_classifier"  # It trains the task.
    # What users choose, among a run's options.
    options_class: ClassVar[type] = NameOptions
    # Those that features depend on, and those that an export may have.
    data_options: ClassVar[type | None] = None  # Default: options_class.
    export_options: ClassVar[type | None] = None
    facts_class: ClassVar[type[Facts]] = Facts
    name: str = ""  # Of a class of several tasks their options tell it.
    key_metric: str  # Chooses the best checkpoint; larger is better.
    has_pairs: bool = False
    eval_splits: tuple[str, ...] = (DEV,)  # Scored; the first has plain names.
    test_splits: tuple[str, ...] = (TEST,)
    # Splits that are a part of the file of another one, which has the rest.
    parts: Mapping[str, str] = MappingProxyType({})
    data_option: str = "predict_file"  # Or data_dir: see `sources`.
    reads_folders: bool = False  # Whether a split may be a folder.
    outputs_are_positions: bool = False  # Of the same records.
    output_widths: Mapping[str, int] = MappingProxyType({})  # With tokens.
    exit_options: tuple[str, ...] = ()  # Of exit_layers and exit_heads.
    sequences_at_once: int = 1  # Of an example.
    num_predictions: int = 0  # Masked tokens of an example, while it is learnt.
    compares_by: str | None = None  # Option that needs several examples.
    shortest: int = lengths.SHORTEST  # Tokens of the shortest batches.
    problem: str = ""  # label, labels, number, choice, or another.
    pooler: str = "reads"  # An export also keeps or drops it.
    taught_by: str | None = None  # Output of a SavedModel that teaches it.
    teacher_reads_alike: bool = False  # Its records, of other examples.
    # Mean and deviation of numbers, which are learnt in units of them.
    scale: tuple[float, float] = (0.0, 1.0)
    hub_refusal: str | None = None  # Why transformers cannot compute it.
    computes_head: bool = False  # Instead of training: see `compute_head`.
    sequences_vary: bool = False  # Then `pool_records` pools outputs.
    kind: str = ""  # Of tasks of one name.
    remarks: Remarks | None = None  # None: they are logged at once.

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
        self.facts = facts or self.find_facts(options, FactSource(None))
        self.labels = self.facts.labels

    @property
    def settings(self) -> dict[str, Any]:
        """The options that the features depend on, without the vocabulary."""
        return {"task_name": self.name, "max_seq_length": self.max_seq_length}

    @classmethod
    def variant(cls, options: Any) -> "type[Task]":
        """Return the subclass for these options, if a task has several."""
        return cls

    @classmethod
    def find_facts(cls, options: Any, source: "FactSource") -> Facts:
        del options, source  # There is nothing to find.
        return cls.facts_class()

    @classmethod
    def longest_of(cls, source: "FactSource") -> int | None:
        return None

    @classmethod
    def check_export(
        cls, given: Mapping[str, Any], run: Mapping[str, Any]
    ) -> None:
        """Refuse options of an export that contradict each other.

        Args:
            run: The options of the run; none for any other checkpoint.
        """
        del given, run  # By default none do.

    def check_config(self, hidden_size: int) -> None:
        """Refuse options that do not fit the width of an encoder."""
        del hidden_size  # By default all do.

    # Text to records.

    def sources(self, data_dir: str) -> dict[str, str]:
        """Return the file of each split in a folder, if the task has one."""
        raise errors.UserError(
            f"`task_name={self.name}`: its class {type(self).__name__} has no "
            "method sources(data_dir), which names the file of each split. "
            "Add it as in docs/own_task.md."
        )

    @abc.abstractmethod
    def read(self, path: str, split: str) -> list[Example]:
        """Read the examples of a split; a line without one is an error."""

    def read_own(self, path: str) -> list[Example | rows.BadLine]:
        """Read a user's own file; a bad line becomes a `BadLine`.

        By default `read` reads it, as `PREDICT`.
        """
        return self.read(path, PREDICT)

    def for_teacher(self, examples: Examples) -> Examples:
        """Return training examples as a teacher reads them."""
        return examples

    def warn_of_overlap(
        self, learnt: Examples, examples: Examples, path: str
    ) -> None:
        """Warn if examples of an evaluation file are in the training file."""
        del learnt, examples, path  # Most tasks say nothing.

    @abc.abstractmethod
    def layout(self, split: str) -> layouts.Layout:
        """Return the features of the records of a split."""

    @abc.abstractmethod
    def featurize(
        self, examples: Examples, split: str
    ) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the records of examples, in their order."""

    def renumber(self, framed: Sequence[bytes], first: int) -> Sequence[bytes]:
        """Set the number of records that have one to that in the whole file.

        `framed` are the records of a block; `first` records stand before them.
        """
        return framed

    def remark(self, message: str, names: Sequence[str]) -> None:
        """Warn that texts were cut or left out, if `names` has any examples.

        `message` continues a sentence that begins with their number.
        """
        if names and self.remarks is None:
            log_remarks({message: list(names)})
        elif names and self.remarks is not None:
            self.remarks.setdefault(message, []).extend(names)

    # Outputs to results. `outputs` has one row for each record of `examples`;
    # where `pool_records` pools them, one for each example.

    def pool_records(self, outputs: Outputs, examples: Examples) -> Outputs:
        """Pool the outputs of several records of an example."""
        return outputs

    @abc.abstractmethod
    def score(self, outputs: Outputs, examples: Examples) -> Scores:
        """Return the scores of a split, `key_metric` among them."""

    def confusion(
        self, outputs: Outputs, examples: Examples
    ) -> confusion.Confusion | None:
        """Return the confusion matrix; None for a task without labels."""
        return None

    def remember(self, scores: Mapping[str, float]) -> None:
        """Keep values of an earlier `score` that answers need: thresholds."""
        del scores

    @abc.abstractmethod
    def answers(
        self, outputs: Outputs, examples: Examples
    ) -> Iterator[dict[str, Any]]:
        """Yield the prediction for each example, as a JSON object."""

    def write_predictions(
        self, outputs: Outputs, examples: Examples, split: str, output_dir: str
    ) -> None:
        """Write the prediction files of a split, under their official names.

        By default `SPLIT_predictions.jsonl`: see `answers`.
        """
        answers = self.answers(outputs, examples)
        text = "".join(strict_json.dumps(answer) + "\n" for answer in answers)
        path = os.path.join(output_dir, f"{split}_predictions.jsonl")
        files.write_text(path, text)

    def combine(self, runs: Sequence[Outputs]) -> Outputs:
        """Average the outputs of several models for the same records.

        By default the probabilities of classes. Source: ALBERT §4.9.
        """
        logits = [outputs["logits"] for outputs in runs]
        return {"logits": probabilities.average(logits)}

    @property
    def read_whole(self) -> str | None:
        """The text that windows are laid over, among those of `texts`."""
        return None

    @property
    def alike(self) -> dict[str, Any]:
        return {}

    # Exports.

    def asked(self, examples: Examples) -> Examples:
        return examples

    def score_outputs(self, outputs: Outputs, examples: Examples) -> Scores:
        return self.score(self.pool_records(outputs, examples), examples)

    def texts(self, examples: Examples) -> dict[str, Any]:
        """Return the inputs of `serving_default` that ask about examples."""
        raise NotImplementedError

    def score_answers(
        self, answers: SignatureAnswers, examples: Examples
    ) -> Scores:
        """Return the scores of the answers of a signature of texts."""
        raise NotImplementedError

    # With TensorFlow.

    def make_model(self, encoder: Any) -> Any:
        """Put the head of the task, with new weights, on an encoder."""
        return self._part("model", "make_model").make(self, encoder)

    def objective(self, learnt: Examples = ()) -> Any:
        """Return loss and metrics of training on the examples `learnt`."""
        del learnt  # Only weights of labels depend on them.
        return self._part("model", "objective").objective(self)

    def start_head(self, model: Any, learnt: Examples) -> None:
        """Set values that a new head begins with, beside random ones."""
        del model, learnt

    def compute_head(
        self, records: Callable[[str], Outputs]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the head's weights [labels, width] and bias [labels].

        `records` gives `vector` [n, width] and `label_ids` [n] of a split.
        """
        raise NotImplementedError

    def services(self) -> Mapping[type, Any]:
        """Return functions that make a service, by the class of the head."""
        if not self.package:
            return {}
        services: Mapping[type, Any] = self._part(
            "service", "services"
        ).SERVICES
        return services

    def _part(self, name: str, method: str) -> Any:
        if not self.package:
            raise TypeError(
                f"The task {self.name} has no {name}. Override `{method}`."
            )
        return importlib.import_module(f"{self.package}.{name}")


class FactSource:
    """Where a task finds its `Facts`: here in a training file, without a run.

    Args:
        path: The training file; None if the data are of another split.
    """

    def __init__(self, path: str | None):
        self.files: Mapping[str, str] = {TRAIN: path} if path else {}

    def train_file(self, missing: str) -> str | None:
        """Return the training file; a run without one ends with a message."""
        del missing  # There is no run.
        return self.files.get(TRAIN)

    def labels(
        self, option: str, names: Sequence[str], find: FindLabels
    ) -> tuple[str, ...]:
        """Return `names`, else the labels of the training file or the model.

        Args:
            option: The name of their option.
            find: From the path of a training file to its labels.
        """
        path = self.train_file(f"The {option} are not known.")
        return tuple(names or (find(path) if path else ()))

    def run_facts(self) -> dict[str, Any]:
        """Return the facts of the run that is continued; none of a new one."""
        return {}

    def model_facts(self) -> dict[str, Any]:
        """Return the facts of the continued run, else of the checkpoint."""
        return {}

    def head_facts(self) -> dict[str, Any]:
        """Return the facts of the head that a new run starts from.

        None of a new head, nor of one that belongs to another kind of model.
        """
        return {}


def concatenate(answers: SignatureAnswers, name: str) -> np.ndarray:
    """Return one output of all batches as one array."""
    return np.concatenate([batch[name] for batch in answers])


def check_labels(
    option: str, written: str | None, labels: Sequence[str], separators: str
) -> None:
    is_invalid = len(set(labels)) < max(2, len(labels)) or not all(labels)
    if labels and is_invalid:
        raise errors.UserError(
            f"`{option}={written}` must be two {option} or more, none empty "
            f"and none twice, with {separators} between them. Leave it out "
            "with `train_file`."
        )


def log_remarks(remarks: Remarks) -> None:
    for message, names in remarks.items():
        shown = ", ".join(map(str, names[:3])) + ", ..." * (len(names) > 3)
        logging.warning("%d %s (%s)", len(names), message, shown)
