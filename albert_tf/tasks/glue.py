"""GLUE: one table of tasks, one reader, one packing of texts.

Source: the original's classifier_utils (processors and
convert_single_example); the file layouts are those of the GLUE download.
"""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from albert_tf import errors, files, records, tokenization
from albert_tf.tasks import base, glue_metrics, probabilities, text_files

if TYPE_CHECKING:
    import tf_keras as keras

    from albert_tf import modeling, objectives

# Examples that are featurized together.
_BATCH = 256
# Scores of STS-B.
_LOWEST, _HIGHEST = 0.0, 5.0


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts with a label.

    Attributes:
        guid: Names the example in prediction files.
        text_a: First text.
        text_b: Second text; empty if there is only one.
        label: Index of the right label, or the right number; None where it is
            not known.
    """

    guid: str
    text_a: str
    text_b: str = ""
    label: float | None = None


@dataclasses.dataclass(frozen=True)
class Split:
    """Where a split keeps its fields; columns count from 0.

    Attributes:
        file: Path below `--data_dir`.
        count: Columns that every row must have.
        text_a: Column of the first text.
        text_b: Column of the second text; None if there is one text only.
        label: Column of the label; None in files without labels.
        header: Whether the first row names the columns.
        skip_short: Whether rows with too few columns are left out and counted.
        submission: Name of the file for GLUE's leaderboard, if it has one.
        other_file: Another place where `file` may lie.
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


@dataclasses.dataclass(frozen=True)
class Layout:
    """One task: its labels, its files, its metrics.

    Attributes:
        labels: Label strings; the index is what the model predicts. Empty for
            a number from 0 to 5.
        splits: By name. Those whose names begin with `dev` are evaluated,
            those without labels are predicted; all but the first of either may
            be missing.
        metrics: See `glue_metrics.score`; the first chooses the checkpoint.
        official: How many of the metrics are GLUE's own.
    """

    labels: tuple[str, ...]
    splits: Mapping[str, Split]
    metrics: tuple[str, ...] = ("accuracy",)
    official: int = 1


# Columns of labels, in lower case, in files that may be taken for unlabelled.
_LABEL_COLUMNS = ("label", "quality")

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


# The leaderboard's order. A module named by --task_module may add its own.
TASKS: dict[str, Layout] = {
    "cola": Layout(
        _BINARY,
        _single_splits(
            "CoLA", Split("CoLA/train.tsv", 4, 3, None, 1, header=False)
        ),
        ("matthew_corr", "accuracy"),
    ),
    "sst-2": Layout(
        _BINARY,
        _single_splits("SST-2", Split("SST-2/train.tsv", 2, 0, None, 1)),
    ),
    "mrpc": Layout(
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
    "sts-b": Layout(
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
    "qqp": Layout(
        _BINARY,
        {
            "train": Split("QQP/train.tsv", 6, 3, 4, 5, skip_short=True),
            "dev": Split("QQP/dev.tsv", 6, 3, 4, 5, skip_short=True),
            "test": Split("QQP/test.tsv", 3, 1, 2, None, submission="QQP.tsv"),
        },
        ("accuracy", "f1"),
        official=2,
    ),
    "mnli": Layout(
        _MNLI,
        {
            "train": Split("MNLI/train.tsv", 12, 8, 9, 11),
            **_mnli_splits("matched", "m"),
            **_mnli_splits("mismatched", "mm"),
            "ax": _AX,
        },
    ),
    "qnli": Layout(_ENTAILMENT, _pair_splits("QNLI")),
    "rte": Layout(_ENTAILMENT, _pair_splits("RTE")),
    "wnli": Layout(_BINARY, _pair_splits("WNLI")),
    # Predicted by a model that was finetuned for MNLI.
    "ax": Layout(_MNLI, {"ax": _AX}),
}


class GlueTask(base.Task):
    """A task with one label or number for each text or pair of texts.

    Attributes:
        labels: Label strings in the order of the logits; empty for a number.
    """

    def __init__(
        self,
        name: str,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
    ):
        """Look up a task of `TASKS` by its name, in any case.

        Raises:
            errors.UserError: There is no such task.
        """
        super().__init__(tokenizer, max_seq_length)
        self.name = name.lower()
        if self.name not in TASKS:
            raise errors.UserError(
                f"--task_name={name} is not known. Allowed are "
                f"{', '.join(sorted(TASKS))}, and those of --task_module."
            )
        self._layout = TASKS[self.name]
        self.labels = self._layout.labels
        self.key_metric = self._layout.metrics[0]
        splits = self._layout.splits
        self.eval_splits = tuple(s for s in splits if s.startswith(base.DEV))
        self.test_splits = tuple(s for s in splits if splits[s].label is None)

    @property
    def settings(self) -> dict[str, Any]:
        """See `base.Task.settings`; labels and columns decide too."""
        columns = {
            name: [split.text_a, split.text_b, split.label, split.header]
            for name, split in self._layout.splits.items()
        }
        labels = list(self.labels)
        return {**super().settings, "labels": labels, "columns": columns}

    @property
    def is_regression(self) -> bool:
        """Whether a number is predicted rather than a label."""
        return not self.labels

    @property
    def has_pairs(self) -> bool:
        """Whether an example has two texts."""
        splits = self._layout.splits.values()
        return any(split.text_b is not None for split in splits)

    def sources(self, data_dir: str) -> dict[str, str]:
        """Return the path of each split, such as `DATA_DIR/RTE/dev.tsv`.

        Those that may be missing, and are, have none.
        """
        needed = {base.TRAIN, *self.eval_splits[:1], *self.test_splits[:1]}
        paths = {}
        for name, split in self._layout.splits.items():
            places = [split.file, *filter(None, [split.other_file])]
            found = [os.path.join(data_dir, place) for place in places]
            there = [path for path in found if files.exists(path)]
            if there or name in needed:
                paths[name] = (there or found)[0]
        return paths

    def read(self, path: str, split: str) -> list[Example]:
        """Read a split; rows are strict, and quotes are ordinary characters.

        DIFFERS: the original skips rows of QQP that are too short in silence;
        here they are counted and reported. It lower-cases labels; here they
        keep their case.

        Raises:
            errors.UserError: The file is missing, empty or not UTF-8, a row has
                another number of columns, its header is missing, or a label is
                unknown.
        """
        if split == base.PREDICT:
            examples = list(text_files.strictly(self.read_own(path)))
        else:
            examples = list(self._read_official(path, split))
        if not examples:
            raise errors.UserError(
                f"{path} has no examples. Give a file that has some."
            )
        return examples

    def _read_official(self, path: str, split: str) -> Iterator[Example]:
        columns = self._layout.splits.get(split)
        if columns is None:
            raise errors.UserError(
                f"The task {self.name} has no {split} split. It has "
                f"{', '.join(self._layout.splits)}."
            )
        if not files.exists(path):
            raise errors.UserError(
                f"--data_dir has no {columns.file} (looked for {path}). Give "
                "the folder that holds the GLUE task folders."
            )
        short = []
        rows = text_files.read_rows(path)
        for number, (where, fields) in enumerate(rows, 1):
            if number <= columns.header:
                self._check_header(fields, columns, where)
                continue
            if columns.skip_short and len(fields) < columns.count:
                short.append(number)
                continue
            yield self._parse(fields, columns, where, f"{split}-{number}")
        if short:
            logging.warning(
                "%s: left out %d row(s) with fewer than %d columns, lines %s",
                path,
                len(short),
                columns.count,
                ", ".join(map(str, short[:20])) + " ..." * (len(short) > 20),
            )

    def _check_header(
        self, fields: list[str], columns: Split, where: str
    ) -> None:
        """Refuse a first row that is no header, or that of other rows.

        Labelled rows may lie in the place of those that are to be predicted: in
        SST-2 and MRPC both have the same number of columns.

        Raises:
            errors.UserError: It has another number of columns, a label or an
                index instead of its name, or it names labels in a file that is
                to be predicted.
        """
        _check_count(fields, columns, where)
        column = 0 if columns.label is None else columns.label
        value = fields[column].strip()
        if self._is_value(value, columns):
            raise errors.UserError(
                f"{where}: column {column + 1} holds {value!r}, so this is an "
                "example and the header is missing. Put a row with the names "
                f"of the {columns.count} columns before it."
            )
        if columns.label is not None:
            return
        for split in self._layout.splits.values():
            if split.label is None or split.count != columns.count:
                continue
            name = fields[split.label].strip()
            if name.lower() in _LABEL_COLUMNS:
                raise errors.UserError(
                    f"{where}: the column {name!r} holds labels, and this file "
                    "is to be predicted. Give the official test file."
                )

    def _is_value(self, written: str, columns: Split) -> bool:
        """Tell whether this is a label (without labels: an index), no name."""
        if columns.label is None:
            return written.isdecimal()
        if not self.is_regression:
            return written in self.labels
        try:
            float(written)
        except ValueError:
            return False
        return True

    def _parse(
        self, fields: list[str], columns: Split, where: str, guid: str
    ) -> Example:
        _check_count(fields, columns, where)
        label = None
        if columns.label is None:
            guid = fields[0]
        else:
            label = self._parse_label(fields[columns.label].strip(), where)
        text_b = "" if columns.text_b is None else fields[columns.text_b]
        return Example(guid, fields[columns.text_a], text_b, label)

    def _parse_label(self, written: str, where: str) -> float:
        if self.is_regression:
            try:
                number = float(written)
            except ValueError:
                number = math.nan
            if not _LOWEST <= number <= _HIGHEST:
                raise errors.UserError(
                    f"{where}: the label {written!r} is not a number from "
                    f"{_LOWEST:g} to {_HIGHEST:g}. Correct the row."
                )
            return number
        if written not in self.labels:
            raise errors.UserError(
                f"{where}: the label {written!r} is not one of "
                f"{', '.join(self.labels)}. Correct the row."
            )
        return self.labels.index(written)

    def read_own(self, path: str) -> list[Example | text_files.BadLine]:
        """Read a user's texts: TSV with a header, or JSON objects.

        Their names are `text`, `text_pair` where the task has pairs, and, if
        wanted, `id`; without it examples have the numbers 0, 1, and so on.

        Raises:
            errors.UserError: See `text_files.read_own`.
        """
        return list(
            text_files.read_own(path, self._own_example, (".tsv", ".txt"))
        )

    def _own_example(
        self, where: str, number: int, values: Mapping[str, Any]
    ) -> Iterator[Example]:
        wanted = ["text", "text_pair"] if self.has_pairs else ["text"]
        for name in wanted:
            if not isinstance(values.get(name), str):
                raise errors.UserError(
                    f"{where} has no text {name!r}; there are "
                    f"{', '.join(values) or 'none'}. {self.name} needs "
                    f"{' and '.join(wanted)}: as columns that the first "
                    "row of a TSV file names, or as keys of JSON objects."
                )
        texts = [values[name] for name in wanted]
        yield Example(str(values.get("id", number)), *texts)

    def layout(self, split: str) -> records.Layout:
        """Return the layout of a classification or regression record."""
        del split  # The same for all.
        return records.classification_layout(
            self.max_seq_length, regression=self.is_regression
        )

    def featurize(
        self, examples: Sequence[Example], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield one record for each example.

        A label that is not known becomes 0, as in the original.
        """
        del split
        kind = np.float32 if self.is_regression else np.int64
        cut: list[str] = []
        for start in range(0, len(examples), _BATCH):
            part = examples[start : start + _BATCH]
            pairs = list(
                zip(
                    self.tokenizer.encode_batch([e.text_a for e in part]),
                    self.tokenizer.encode_batch([e.text_b for e in part]),
                    strict=True,
                )
            )
            cut += [
                example.guid
                for example, texts in zip(part, pairs, strict=True)
                if sum(map(len, texts)) > room(texts[1], self.max_seq_length)
            ]
            packed = [
                pack(first, second, self.tokenizer, self.max_seq_length)
                for first, second in pairs
            ]
            yield {
                **{name: np.stack([p[name] for p in packed]) for name in _IDS},
                "label_ids": np.array([e.label or 0 for e in part], kind),
                "is_real_example": np.ones(len(part), np.int64),
            }
        self.remark(
            f"examples are longer than --max_seq_length={self.max_seq_length} "
            "and cut.",
            cut,
        )

    @property
    def objective(self) -> "objectives.Objective":
        """Cross-entropy, or the squared error of a number."""
        from albert_tf.heads import classification

        if self.is_regression:
            return classification.REGRESSION_OBJECTIVE
        return classification.OBJECTIVE

    def make_model(self, encoder: "modeling.AlbertModel") -> "keras.Model":
        """Put a new classifier on an encoder."""
        from albert_tf.heads import classification

        return classification.AlbertClassifier(encoder, len(self.labels) or 1)

    def score(
        self, outputs: base.Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        """Return the task's metrics, and for labels the `loss` too."""
        expected = np.array([example.label for example in examples])
        logits = outputs["logits"]
        if self.is_regression:
            numbers = logits[:, 0]
            return glue_metrics.score(self._layout.metrics, numbers, expected)
        scores = glue_metrics.score(
            self._layout.metrics, logits.argmax(-1), expected
        )
        return {**scores, "loss": probabilities.cross_entropy(logits, expected)}

    def answers(
        self, outputs: base.Outputs, examples: Sequence[Example]
    ) -> Iterator[dict[str, Any]]:
        """Yield the label and all probabilities by label, or the number.

        A number is as the model gives it: it may lie outside of 0 to 5.
        """
        logits = outputs["logits"]
        if self.is_regression:
            for example, number in zip(examples, logits[:, 0], strict=True):
                yield {"id": example.guid, "prediction": float(number)}
            return
        rows = probabilities.softmax(logits)
        for example, row in zip(examples, rows, strict=True):
            yield {
                "id": example.guid,
                "prediction": self.labels[row.argmax()],
                "probabilities": dict(
                    zip(self.labels, row.tolist(), strict=True)
                ),
            }

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[Example],
        split: str,
        output_dir: str,
    ) -> None:
        """Write what is predicted for a split, in three layouts.

        `SPLIT_results.tsv` holds the probabilities (STS-B: the number) and
        `submit_results.tsv`, for the first split, the labels: both as in the
        original. The file of the leaderboard (such as `RTE.tsv`) holds the
        labels under its own name; numbers in it are cut off at 0 and 5.
        """
        answers = list(self.answers(outputs, examples))
        if self.is_regression:
            rows = [str(answer["prediction"]) for answer in answers]
        else:
            rows = [
                "\t".join(str(p) for p in answer["probabilities"].values())
                for answer in answers
            ]
        _write_lines(output_dir, f"{split}_results.tsv", rows)
        header = "index\tprediction"
        lines = [f"{a['id']}\t{a['prediction']}" for a in answers]
        if split == self.test_splits[0]:
            _write_lines(output_dir, "submit_results.tsv", [header, *lines])
        submission = self._layout.splits[split].submission
        if self.is_regression:
            lines = [
                f"{a['id']}\t{min(max(a['prediction'], _LOWEST), _HIGHEST)}"
                for a in answers
            ]
        if submission:
            _write_lines(output_dir, submission, [header, *lines])

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Average probabilities, or numbers."""
        logits = [outputs["logits"] for outputs in runs]
        if self.is_regression:
            return {"logits": np.mean(logits, 0)}
        return {"logits": probabilities.average(logits)}


_IDS = ("input_ids", "input_mask", "segment_ids")


def _check_count(fields: list[str], columns: Split, where: str) -> None:
    if len(fields) != columns.count:
        raise errors.UserError(
            f"{where}: {len(fields)} columns instead of {columns.count}. "
            "Columns are separated by one tab each; texts may not hold tabs."
        )


def _write_lines(folder: str, name: str, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    files.write_text(os.path.join(folder, name), text)


def room(second: Sequence[int], max_seq_length: int) -> int:
    """Return how many pieces fit beside `[CLS]` and `[SEP]`."""
    return max_seq_length - (3 if second else 2)


def pack(
    first: Sequence[int],
    second: Sequence[int],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Build `[CLS] first [SEP] second [SEP]`, cut and padded to full length.

    While the two are too long, the last piece of the longer one goes; of the
    second when they are equal. Without a second text: `[CLS] first [SEP]`.

    Example, max_seq_length 8, [CLS] 2, [SEP] 3:
        first  = [11, 12, 13], second = [21, 22, 23]
        input_ids   = [2, 11, 12, 13, 3, 21, 22, 3]
        input_mask  = [1,  1,  1,  1, 1,  1,  1, 1]
        segment_ids = [0,  0,  0,  0, 0,  1,  1, 1]

    Source: original release, classifier_utils.convert_single_example.

    Args:
        first: Piece ids of the first text.
        second: Piece ids of the second text; may be empty.
        tokenizer: Gives the special ids.
        max_seq_length: Length S of the result, special tokens included.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int64 [S], padded with 0.
    """
    first, second = list(first), list(second)
    limit = room(second, max_seq_length)
    while len(first) + len(second) > limit:
        (first if len(first) > len(second) else second).pop()
    front = [tokenizer.cls_id, *first, tokenizer.sep_id]
    back = [*second, tokenizer.sep_id] if second else []
    packed = np.zeros([3, max_seq_length], np.int64)
    packed[0, : len(front) + len(back)] = front + back
    packed[1, : len(front) + len(back)] = 1
    packed[2, len(front) : len(front) + len(back)] = 1
    names = ("input_ids", "input_mask", "segment_ids")
    return dict(zip(names, packed, strict=True))
