"""The GLUE tasks: labels, files, columns and metrics of each.

Source: the original's classifier_utils (processors); the files are those of the
GLUE download.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from albert_tf.common import errors
from albert_tf.finetuning.glue import glue_metrics


@dataclasses.dataclass(frozen=True)
class Split:
    """File and columns of a split; columns count from 0.

    Attributes:
        file: Path below `data_dir`.
        count: Columns that every row must have.
        text_b: Column of the second text; None if there is one text only.
        label: Column of the label; None in files without labels.
        header: Whether the first row names the columns.
        skip_short: Whether rows with too few columns are left out and counted.
        submission: Name of the file for GLUE's leaderboard, if it has one.
        other_file: Another path where `file` may be.
        columns: The official names of all columns. By them the others are found
            where a header has another order. Without them the first row must
            have the names that another split's has.
        id_column: Column of the id, in files without labels.
    """

    file: str
    count: int
    text_a: int
    text_b: int | None
    label: int | None
    header: bool = True
    skip_short: bool = False
    submission: str = ""
    other_file: str = ""
    columns: tuple[str, ...] = ()
    id_column: int = 0

    def __post_init__(self) -> None:
        names = {column: name for name, column in self.roles.items()}
        for column, name in names.items():
            if column not in range(self.count):
                raise errors.UserError(
                    f"Split({self.file!r}): {name}={column} is no column. With "
                    f"count={self.count} they are 0 to {self.count - 1}."
                )
        if len(names) < len(self.roles):
            raise errors.UserError(
                f"Split({self.file!r}): {self.roles} names a column twice. "
                "Texts and label are in columns of their own."
            )

    @property
    def roles(self) -> dict[str, int]:
        """The columns of texts and label by the names of these fields."""
        columns = {
            "text_a": self.text_a,
            "text_b": self.text_b,
            "label": self.label,
        }
        return {k: v for k, v in columns.items() if v is not None}


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """One task: its labels, its files, its metrics.

    Attributes:
        labels: Label strings; the index is what the model predicts. Empty for
            a number.
        splits: By name. Those whose names begin with `dev` are evaluated,
            those without labels are predicted; all but the first of either may
            be missing.
        metrics: See `glue_metrics.score`; the first chooses the checkpoint
            with its largest value, so it cannot be `mse`.
        official: How many of the metrics are GLUE's own.
        bounds: The smallest and the largest number, without `labels`.
    """

    labels: tuple[str, ...]
    splits: Mapping[str, Split]
    metrics: tuple[str, ...] = ("accuracy",)
    official: int = 1
    bounds: tuple[float, float] = (0.0, 5.0)

    def __post_init__(self) -> None:
        self._check_labels()
        self._check_metrics()
        self._check_splits()

    def _check_labels(self) -> None:
        labels = self.labels
        is_list = isinstance(labels, (tuple, list))
        if not is_list or not all(isinstance(label, str) for label in labels):
            raise errors.UserError(
                f"labels={labels!r} must be a tuple of texts. Write them as in "
                '("0", "1"), with commas between them.'
            )
        if len(labels) == 1 or len(set(labels)) < len(labels):
            raise errors.UserError(
                f"labels={labels!r}: there must be two or more, each once; or "
                "none, where a number is predicted."
            )
        for label in labels:
            if (
                label != label.strip()
                or not label
                or set(label) & set("\t\n\r")
            ):
                raise errors.UserError(
                    f"labels={labels!r}: {label!r} cannot stand in a column. "
                    "Write it without spaces at its ends, tabs and line ends."
                )
        numbers = [n for n in self.bounds if isinstance(n, (int, float))]
        if (
            len(numbers) != 2
            or not -math.inf < numbers[0] < numbers[1] < math.inf
        ):
            raise errors.UserError(
                f"bounds={self.bounds!r} must be two numbers, the smaller one "
                "first."
            )

    def _check_metrics(self) -> None:
        names = self.metrics
        allowed = glue_metrics.OF_CLASSES
        if self.is_regression:
            allowed = glue_metrics.OF_NUMBERS
        elif len(self.labels) > 2:
            allowed = tuple(name for name in allowed if name != "f1")
        if isinstance(names, str) or not set(names) <= set(allowed):
            raise errors.UserError(
                f"metrics={names!r} do not go with labels={self.labels!r}. "
                f"Allowed is a tuple of {', '.join(allowed)}."
            )
        if tuple(names[:1]) in [(), ("mse",)]:
            raise errors.UserError(
                f"metrics={names!r}: the first metric chooses the "
                "checkpoint with its largest value. Put another one than mse "
                "first."
            )

    def _check_splits(self) -> None:
        pairs = {split.text_b is None for split in self.splits.values()}
        if len(pairs) > 1:
            raise errors.UserError(
                "Some splits have a text_b and some have none. A task has one "
                "text or two in all of its files."
            )
        for name, split in self.splits.items():
            if split.label is None and name.startswith(("train", "dev")):
                raise errors.UserError(
                    f"The split {name!r} has label=None, but its labels are "
                    "needed. Name their column."
                )

    @property
    def is_regression(self) -> bool:
        """Whether a number is predicted rather than a label."""
        return not self.labels

    @property
    def has_pairs(self) -> bool:
        """Whether an example has two texts."""
        return any(split.text_b is not None for split in self.splits.values())


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI = ("contradiction", "entailment", "neutral")
_PAIR = ("index", "sentence1", "sentence2")
_MRPC = ("#1 ID", "#2 ID", "#1 String", "#2 String")
_STS_B = (
    "index",
    "genre",
    "filename",
    "year",
    "old_index",
    "source1",
    "source2",
    "sentence1",
    "sentence2",
)
_MNLI_COLUMNS = (
    "index",
    "promptID",
    "pairID",
    "genre",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
    "sentence2_parse",
    "sentence1",
    "sentence2",
)
_MNLI_LABELS = tuple(f"label{number}" for number in range(1, 6))


def _split(
    file: str,
    columns: tuple[str, ...],
    *texts: str,
    label: str | None,
    **more: Any,
) -> Split:
    """Describe an official file by the names of its columns."""
    return Split(
        file,
        len(columns),
        columns.index(texts[0]),
        columns.index(texts[1]) if texts[1:] else None,
        None if label is None else columns.index(label),
        columns=columns,
        **more,
    )


_AX = _split(
    "AX/diagnostic.tsv",
    _PAIR,
    *_PAIR[1:],
    label=None,
    submission="AX.tsv",
    other_file="diagnostic/diagnostic.tsv",
)


def _single_splits(name: str, train: Split) -> dict[str, Split]:
    """Return the layout of CoLA and SST-2, whose test files have an index."""
    return {
        "train": train,
        "dev": dataclasses.replace(train, file=f"{name}/dev.tsv"),
        "test": _split(
            f"{name}/test.tsv",
            ("index", "sentence"),
            "sentence",
            label=None,
            submission=f"{name}.tsv",
        ),
    }


def _pair_splits(
    name: str,
    columns: tuple[str, ...],
    texts: tuple[str, str],
    label: str = "label",
    test_columns: tuple[str, ...] = (),
) -> dict[str, Split]:
    """Return the layout of a task with two texts, by the names of columns.

    The first one is the id of test files, which have no labels.
    """
    return {
        **{
            split: _split(
                f"{name}/{split}.tsv", (*columns, label), *texts, label=label
            )
            for split in ("train", "dev")
        },
        "test": _split(
            f"{name}/test.tsv",
            test_columns or columns,
            *texts,
            label=None,
            submission=f"{name}.tsv",
        ),
    }


def _mnli_splits(kind: str, letters: str) -> dict[str, Split]:
    return {
        f"dev_{kind}": _split(
            f"MNLI/dev_{kind}.tsv",
            (*_MNLI_COLUMNS, *_MNLI_LABELS, "gold_label"),
            *_PAIR[1:],
            label="gold_label",
        ),
        f"test_{kind}": _split(
            f"MNLI/test_{kind}.tsv",
            _MNLI_COLUMNS,
            *_PAIR[1:],
            label=None,
            submission=f"MNLI-{letters}.tsv",
        ),
    }


# The leaderboard's order. A module named by `task_module` may add its own.
TASKS: dict[str, TaskSpec] = {
    "cola": TaskSpec(
        _BINARY,
        _single_splits(
            "CoLA", Split("CoLA/train.tsv", 4, 3, None, 1, header=False)
        ),
        ("matthew_corr", "accuracy"),
    ),
    "sst-2": TaskSpec(
        _BINARY,
        _single_splits(
            "SST-2",
            _split(
                "SST-2/train.tsv",
                ("sentence", "label"),
                "sentence",
                label="label",
            ),
        ),
    ),
    "mrpc": TaskSpec(
        _BINARY,
        {
            **{
                split: _split(
                    f"MRPC/{split}.tsv",
                    ("Quality", *_MRPC),
                    *_MRPC[2:],
                    label="Quality",
                )
                for split in ("train", "dev")
            },
            "test": _split(
                "MRPC/test.tsv",
                ("index", *_MRPC),
                *_MRPC[2:],
                label=None,
                submission="MRPC.tsv",
            ),
        },
        ("accuracy", "f1"),
        official=2,
    ),
    "sts-b": TaskSpec(
        (),
        _pair_splits("STS-B", _STS_B, ("sentence1", "sentence2"), "score"),
        ("pearson", "spearmanr", "mse"),
        official=2,
    ),
    "qqp": TaskSpec(
        _BINARY,
        {
            name: dataclasses.replace(split, skip_short=split.label is not None)
            for name, split in _pair_splits(
                "QQP",
                ("id", "qid1", "qid2", "question1", "question2"),
                ("question1", "question2"),
                "is_duplicate",
                ("id", "question1", "question2"),
            ).items()
        },
        ("accuracy", "f1"),
        official=2,
    ),
    "mnli": TaskSpec(
        _MNLI,
        {
            "train": _split(
                "MNLI/train.tsv",
                (*_MNLI_COLUMNS, "label1", "gold_label"),
                *_PAIR[1:],
                label="gold_label",
            ),
            **_mnli_splits("matched", "m"),
            **_mnli_splits("mismatched", "mm"),
            "ax": _AX,
        },
    ),
    "qnli": TaskSpec(
        _ENTAILMENT,
        _pair_splits(
            "QNLI", ("index", "question", "sentence"), ("question", "sentence")
        ),
    ),
    "rte": TaskSpec(_ENTAILMENT, _pair_splits("RTE", _PAIR, _PAIR[1:])),
    "wnli": TaskSpec(_BINARY, _pair_splits("WNLI", _PAIR, _PAIR[1:])),
    # Predicted by a model that was finetuned for MNLI.
    "ax": TaskSpec(_MNLI, {"ax": _AX}),
}
