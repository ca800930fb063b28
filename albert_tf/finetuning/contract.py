"""What a finetuning task says; the engine does everything else.

The engine (finetune, predict, export, distill, ensemble, convert and
create_finetuning_data) asks these questions and never which task it has.
`base.Task` has the answers that most tasks give. No TensorFlow is imported;
what needs it is in modules of a task's `package`, loaded when they are needed.
"""

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from albert_tf.data import layouts, lengths
from albert_tf.text import tokenization
from albert_tf.training import confusion

Example = Any  # A dataclass of the task's own, with a `guid`.
Examples = Sequence[Example]
Outputs = Mapping[str, np.ndarray]  # One row for each record.
Answers = Sequence[Outputs]  # Of a signature of texts, for each batch.
Scores = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a run finds out before it starts and keeps in its folder, as JSON."""

    labels: tuple[str, ...] = ()  # In the order of the outputs.

    def to_dict(self) -> dict[str, Any]:
        pairs = vars(self).items()
        return {k: [*v] if isinstance(v, tuple) else v for k, v in pairs}


class Task(abc.ABC):
    """A task with its tokenizer, length, options and facts."""

    package: ClassVar[str] = ""  # Where `model` and `service` are.
    options_class: ClassVar[type]  # What users choose, among a run's options.
    facts_class: ClassVar[type[Facts]] = Facts
    name: str
    key_metric: str  # Chooses the best checkpoint; larger is better.
    has_pairs: bool = False
    eval_splits: tuple[str, ...] = (
        "dev",
    )  # Scored; the first has plain names.
    test_splits: tuple[str, ...] = ("test",)
    data_option: str = "predict_file"  # Or data_dir: see `sources`.
    reads_folders: bool = False  # Whether a split may be a folder.
    outputs_are_positions: bool = False  # Of the same records.
    output_widths: Mapping[str, int] = MappingProxyType({})  # With tokens.
    exit_options: tuple[str, ...] = ()  # Of exit_layers and exit_heads.
    sequences_at_once: int = 1  # Of an example.
    compares_by: str | None = None  # Option that needs several examples.
    shortest: int = lengths.SHORTEST  # Tokens of the shortest batches.
    labels: tuple[str, ...] = ()
    problem: str = ""  # label, labels, number, choice, or another.
    pooler: str = "reads"  # An export also keeps or drops it.
    taught_by: str | None = None  # Output of a SavedModel that teaches it.
    hub_refusal: str | None = None  # Why transformers cannot compute it.
    sequences_vary: bool = False  # Then `of_examples` pools outputs.
    kind: str = ""  # Of tasks of one name.
    tokenizer: tokenization.AnyTokenizer
    max_seq_length: int
    options: Any
    facts: Facts
    remarks: dict[str, list[str]] | None = (
        None  # None: they are logged at once.
    )

    # What a run finds out from options, a model, training data: `known.Known`.
    @classmethod
    def find_facts(cls, options: Any, known: Any) -> Facts: ...
    @classmethod
    def longest_of(cls, known: Any) -> int | None: ...  # Tokens in an export.

    # Files to examples to records. A bad line of a user's is a `BadLine`.
    @property
    def settings(self) -> dict[str, Any]: ...  # What features depend on.
    def sources(self, data_dir: str) -> dict[str, str]: ...  # By split.
    @abc.abstractmethod
    def read(self, path: str, split: str) -> list[Example]: ...
    def read_own(self, path: str) -> list[Example | Any]: ...
    @abc.abstractmethod
    def layout(self, split: str) -> layouts.Layout: ...
    @abc.abstractmethod
    def featurize(
        self, examples: Examples, split: str
    ) -> Iterator[Mapping[str, np.ndarray]]: ...
    def renumber(self, framed: Sequence[bytes], first: int) -> Any: ...

    # Outputs to results, in NumPy.
    def of_examples(self, outputs: Outputs, examples: Examples) -> Outputs: ...
    @abc.abstractmethod
    def score(self, outputs: Outputs, examples: Examples) -> Scores: ...
    def confusion(
        self, outputs: Outputs, examples: Examples
    ) -> confusion.Confusion | None: ...
    def remember(self, scores: Mapping[str, float]) -> None: ...
    @abc.abstractmethod
    def answers(
        self, outputs: Outputs, examples: Examples
    ) -> Iterator[dict[str, Any]]: ...
    def write_predictions(
        self, outputs: Outputs, examples: Examples, split: str, output_dir: str
    ) -> None: ...
    def combine(self, runs: Sequence[Outputs]) -> Outputs: ...
    @property
    def alike(self) -> dict[str, Any]: ...  # What a teacher must have, too.

    # Exports: the examples that one is asked, their texts, and scores.
    def asked(self, examples: Examples) -> Examples: ...
    def score_outputs(self, outputs: Outputs, examples: Examples) -> Scores: ...
    def texts(self, examples: Examples) -> dict[str, Any]: ...
    def score_answers(self, answers: Answers, examples: Examples) -> Scores: ...

    # With TensorFlow: a model, its objective; services by the class of head.
    def make_model(self, encoder: Any) -> Any: ...
    def objective(self) -> Any: ...
    def services(self) -> Mapping[type, Any]: ...
