"""The GLUE tasks: labels, files, columns and metrics of each.

Source: the original's classifier_utils (processors); the files are those of the
GLUE download.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import errors
from albert_tf.finetuning import metrics as glue_metrics


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
        if type(self.count) is not int:
            raise errors.UserError(
                f"Split({self.file!r}): count={self.count!r} must be a number."
            )
        for name, column in {**self.roles, "id_column": self.id_column}.items():
            if column not in range(self.count):
                raise errors.UserError(
                    f"Split({self.file!r}): {name}={column} is no column. With "
                    f"count={self.count} they are 0 to {self.count - 1}."
                )
        if self.columns and len(self.columns) != self.count:
            raise errors.UserError(
                f"Split({self.file!r}): columns={self.columns} are not "
                f"{self.count}, as count={self.count} says."
            )
        if len(set(self.roles.values())) < len(self.roles):
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
        metrics: See `metrics.score`; the first chooses the checkpoint
            with its largest value, so it is none of an error.
        official: How many of the metrics are GLUE's own.
        bounds: The smallest and the largest number, without `labels`.
    """

    labels: tuple[str, ...]
    splits: Mapping[str, Split]
    metrics: tuple[str, ...] = ("accuracy",)
    official: int = 1
    bounds: tuple[float, float] = (0.0, 5.0)

    def __post_init__(self) -> None:
        labels, metrics, bounds = self.labels, self.metrics, self.bounds
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
        if any(not n or n != n.strip() or set(n) & {*"\t\n\r"} for n in labels):
            raise errors.UserError(
                f"labels={labels!r}: each must fit into a column. Write them "
                "without spaces at their ends, tabs and line ends."
            )
        is_pair = isinstance(bounds, (tuple, list)) and len(bounds) == 2
        if not (
            is_pair
            and all(isinstance(number, (int, float)) for number in bounds)
            and -math.inf < bounds[0] < bounds[1] < math.inf
        ):
            raise errors.UserError(
                f"bounds={bounds!r} must be two numbers, the smaller one first."
            )
        # F1 is that of the second of two classes.
        allowed = glue_metrics.CLASS_METRICS[: 3 if len(labels) == 2 else 2]
        if not labels:
            allowed = glue_metrics.NUMBER_METRICS
        is_list = isinstance(metrics, (tuple, list))
        if not is_list or not all(name in allowed for name in metrics):
            raise errors.UserError(
                f"metrics={metrics!r} do not go with labels={labels!r}. "
                f"Allowed is a tuple of {', '.join(allowed)}."
            )
        if not metrics or metrics[0] in glue_metrics.ERRORS:
            raise errors.UserError(
                f"metrics={metrics!r}: the first metric chooses the checkpoint "
                "with its largest value. Put another one than "
                f"{' or '.join(glue_metrics.ERRORS)} first."
            )
        self._check_splits()

    def _check_splits(self) -> None:
        is_dict = isinstance(self.splits, Mapping)
        if not is_dict or any(
            not isinstance(split, Split) for split in self.splits.values()
        ):
            raise errors.UserError(
                f"splits={self.splits!r} must be a dict of Splits by name."
            )
        if len({split.text_b is None for split in self.splits.values()}) > 1:
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
        return not self.labels

    @property
    def has_pairs(self) -> bool:
        return any(split.text_b is not None for split in self.splits.values())


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI = ("contradiction", "entailment", "neutral")
_PAIR = "sentence1", "sentence2"
_MRPC = ("#1 ID", "#2 ID", "#1 String", "#2 String")
_STS_B = "index genre filename year old_index source1 source2".split()
_MNLI_COLUMNS = [
    *"index promptID pairID genre".split(),
    *"sentence1_binary_parse sentence2_binary_parse".split(),
    *"sentence1_parse sentence2_parse sentence1 sentence2".split(),
]


def _split(
    file: str,
    columns: Sequence[str],
    texts: Sequence[str],
    label: str | None,
    **more: Any,
) -> Split:
    """Describe an official file by the names of its columns."""
    at = {name: column for column, name in enumerate(columns)}
    first, *second = (at[name] for name in texts)
    return Split(
        file,
        len(columns),
        first,
        second[0] if second else None,
        None if label is None else at[label],
        columns=tuple(columns),
        **more,
    )


def _splits(
    folder: str,
    columns: Sequence[str],
    texts: Sequence[str] = _PAIR,
    label: str = "label",
    test_columns: Sequence[str] = (),
    **more: Any,
) -> dict[str, Split]:
    """Return train, dev and test, which has an id for the label."""
    files = {
        split: f"{folder}/{split}.tsv" for split in ("train", "dev", "test")
    }
    test = test_columns or [name for name in columns if name != label]
    return {
        "train": _split(files["train"], columns, texts, label, **more),
        "dev": _split(files["dev"], columns, texts, label, **more),
        "test": _split(
            files["test"], test, texts, None, submission=f"{folder}.tsv"
        ),
    }


def _cola(split: str) -> Split:
    return Split(f"CoLA/{split}.tsv", 4, 3, None, 1, header=False)


def _mnli_splits(kind: str, letters: str) -> dict[str, Split]:
    labels = [*(f"label{number}" for number in range(1, 6)), "gold_label"]
    dev, test = f"dev_{kind}", f"test_{kind}"
    columns = [*_MNLI_COLUMNS, *labels]
    return {
        dev: _split(f"MNLI/{dev}.tsv", columns, _PAIR, "gold_label"),
        test: _split(
            f"MNLI/{test}.tsv",
            _MNLI_COLUMNS,
            _PAIR,
            None,
            submission=f"MNLI-{letters}.tsv",
        ),
    }


_AX = _split(
    "AX/diagnostic.tsv",
    ("index", *_PAIR),
    _PAIR,
    None,
    submission="AX.tsv",
    other_file="diagnostic/diagnostic.tsv",
)
_SINGLE_TEST = ("index", "sentence")

# The leaderboard's order. A module named by `task_module` may add its own.
TASKS: dict[str, TaskSpec] = {
    "cola": TaskSpec(
        _BINARY,
        {
            "train": _cola("train"),
            "dev": _cola("dev"),
            "test": _split(
                "CoLA/test.tsv",
                _SINGLE_TEST,
                ("sentence",),
                None,
                submission="CoLA.tsv",
            ),
        },
        ("matthew_corr", "accuracy"),
    ),
    "sst-2": TaskSpec(
        _BINARY,
        _splits(
            "SST-2",
            ("sentence", "label"),
            ("sentence",),
            test_columns=_SINGLE_TEST,
        ),
    ),
    "mrpc": TaskSpec(
        _BINARY,
        _splits(
            "MRPC",
            ("Quality", *_MRPC),
            _MRPC[2:],
            "Quality",
            test_columns=("index", *_MRPC),
        ),
        ("accuracy", "f1"),
        official=2,
    ),
    "sts-b": TaskSpec(
        (),
        _splits("STS-B", (*_STS_B, *_PAIR, "score"), label="score"),
        ("pearson", "spearmanr", "mse"),
        official=2,
    ),
    "qqp": TaskSpec(
        _BINARY,
        _splits(
            "QQP",
            "id qid1 qid2 question1 question2 is_duplicate".split(),
            ("question1", "question2"),
            "is_duplicate",
            test_columns=("id", "question1", "question2"),
            skip_short=True,
        ),
        ("accuracy", "f1"),
        official=2,
    ),
    "mnli": TaskSpec(
        _MNLI,
        {
            "train": _split(
                "MNLI/train.tsv",
                (*_MNLI_COLUMNS, "label1", "gold_label"),
                _PAIR,
                "gold_label",
            ),
            **_mnli_splits("matched", "m"),
            **_mnli_splits("mismatched", "mm"),
            "ax": _AX,
        },
    ),
    "qnli": TaskSpec(
        _ENTAILMENT,
        _splits(
            "QNLI",
            ("index", "question", "sentence", "label"),
            ("question", "sentence"),
        ),
    ),
    "rte": TaskSpec(_ENTAILMENT, _splits("RTE", ("index", *_PAIR, "label"))),
    "wnli": TaskSpec(_BINARY, _splits("WNLI", ("index", *_PAIR, "label"))),
    # Predicted by a model that was finetuned for MNLI.
    "ax": TaskSpec(_MNLI, {"ax": _AX}),
}


def find(name: str) -> TaskSpec | None:
    """Return a task by its name, in small or large letters."""
    by_name = {task.lower(): spec for task, spec in TASKS.items()}
    return by_name.get(name.lower())
