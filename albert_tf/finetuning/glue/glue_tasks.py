"""The GLUE tasks: labels, files, columns and metrics of each.

Source: the original's classifier_utils (processors); the files are those of the
GLUE download.
"""

import dataclasses
from collections.abc import Mapping

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

    def __post_init__(self) -> None:
        for name in ("text_a", "text_b", "label"):
            column = getattr(self, name)
            if column is not None and not 0 <= column < self.count:
                raise errors.UserError(
                    f"Split({self.file!r}): {name}={column} is no column. With "
                    f"count={self.count} they are 0 to {self.count - 1}."
                )


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
        for name in self.metrics:
            if name not in glue_metrics.NAMES:
                raise errors.UserError(
                    f"metrics={self.metrics}: there is no {name}. Allowed are "
                    f"{', '.join(glue_metrics.NAMES)}."
                )
        if self.metrics[:1] in [(), ("mse",)]:
            raise errors.UserError(
                f"metrics={self.metrics}: the first metric chooses the "
                "checkpoint with its largest value. Put another one than mse "
                "first."
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
_AX = Split(
    "AX/diagnostic.tsv",
    *(3, 1, 2, None),
    submission="AX.tsv",
    other_file="diagnostic/diagnostic.tsv",
)


def _single_splits(name: str, train: Split) -> dict[str, Split]:
    """Return the layout of CoLA and SST-2, whose test files have an index."""
    return {
        "train": train,
        "dev": dataclasses.replace(train, file=f"{name}/dev.tsv"),
        "test": Split(
            f"{name}/test.tsv", 2, 1, None, None, submission=f"{name}.tsv"
        ),
    }


def _pair_splits(name: str) -> dict[str, Split]:
    """Return the layout of RTE, QNLI and WNLI: index, two texts, label."""
    return {
        "train": Split(f"{name}/train.tsv", 4, 1, 2, 3),
        "dev": Split(f"{name}/dev.tsv", 4, 1, 2, 3),
        "test": Split(
            f"{name}/test.tsv", 3, 1, 2, None, submission=f"{name}.tsv"
        ),
    }


def _mnli_splits(kind: str, letters: str) -> dict[str, Split]:
    return {
        f"dev_{kind}": Split(f"MNLI/dev_{kind}.tsv", 16, 8, 9, 15),
        f"test_{kind}": Split(
            f"MNLI/test_{kind}.tsv",
            *(10, 8, 9, None),
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
        _single_splits("SST-2", Split("SST-2/train.tsv", 2, 0, None, 1)),
    ),
    "mrpc": TaskSpec(
        _BINARY,
        {
            "train": Split("MRPC/train.tsv", 5, 3, 4, 0),
            "dev": Split("MRPC/dev.tsv", 5, 3, 4, 0),
            "test": Split(
                "MRPC/test.tsv", 5, 3, 4, None, submission="MRPC.tsv"
            ),
        },
        ("accuracy", "f1"),
        official=2,
    ),
    "sts-b": TaskSpec(
        (),
        {
            "train": Split("STS-B/train.tsv", 10, 7, 8, 9),
            "dev": Split("STS-B/dev.tsv", 10, 7, 8, 9),
            "test": Split(
                "STS-B/test.tsv", 9, 7, 8, None, submission="STS-B.tsv"
            ),
        },
        ("pearson", "spearmanr", "mse"),
        official=2,
    ),
    "qqp": TaskSpec(
        _BINARY,
        {
            "train": Split("QQP/train.tsv", 6, 3, 4, 5, skip_short=True),
            "dev": Split("QQP/dev.tsv", 6, 3, 4, 5, skip_short=True),
            "test": Split("QQP/test.tsv", 3, 1, 2, None, submission="QQP.tsv"),
        },
        ("accuracy", "f1"),
        official=2,
    ),
    "mnli": TaskSpec(
        _MNLI,
        {
            "train": Split("MNLI/train.tsv", 12, 8, 9, 11),
            **_mnli_splits("matched", "m"),
            **_mnli_splits("mismatched", "mm"),
            "ax": _AX,
        },
    ),
    "qnli": TaskSpec(_ENTAILMENT, _pair_splits("QNLI")),
    "rte": TaskSpec(_ENTAILMENT, _pair_splits("RTE")),
    "wnli": TaskSpec(_BINARY, _pair_splits("WNLI")),
    # Predicted by a model that was finetuned for MNLI.
    "ax": TaskSpec(_MNLI, {"ax": _AX}),
}
