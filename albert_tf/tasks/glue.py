"""GLUE tasks that classify: one table, one reader.

Source: original-release's classifier_utils (processors and
convert_single_example); the file layouts are those of the GLUE download.
"""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from albert_tf import errors, files, modeling, objectives, records, tokenization
from albert_tf.heads import classification
from albert_tf.tasks import base, glue_metrics


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where a split keeps its fields; columns count from 0, -1 is the last.

    Attributes:
        count: Columns that every row must have.
        text_a: Column of the first text.
        text_b: Column of the second text; None if there is one text only.
        label: Column of the label; None in test files.
        header: Whether the first row names the columns.
        file: Name of the file.
    """

    file: str
    count: int
    text_a: int
    text_b: int | None
    label: int | None
    header: bool = True


@dataclasses.dataclass(frozen=True)
class Layout:
    """Folder, files and labels of one GLUE task."""

    folder: str
    labels: tuple[str, ...]
    splits: dict[str, Columns]
    metric: str = "accuracy"


_ENTAILMENT = ("entailment", "not_entailment")


def _pair_splits(count: int) -> dict[str, Columns]:
    """Return the layout of RTE, QNLI and WNLI: index, two texts, label."""
    return {
        "train": Columns("train.tsv", count, 1, 2, 3),
        "dev": Columns("dev.tsv", count, 1, 2, 3),
        "test": Columns("test.tsv", count - 1, 1, 2, None),
    }


TASKS = {
    "cola": Layout(
        "CoLA",
        ("0", "1"),
        {
            "train": Columns("train.tsv", 4, 3, None, 1, header=False),
            "dev": Columns("dev.tsv", 4, 3, None, 1, header=False),
            "test": Columns("test.tsv", 2, 1, None, None),
        },
        metric="matthew_corr",
    ),
    "mrpc": Layout(
        "MRPC",
        ("0", "1"),
        {
            "train": Columns("train.tsv", 5, 3, 4, 0),
            "dev": Columns("dev.tsv", 5, 3, 4, 0),
            "test": Columns("test.tsv", 5, 3, 4, None),
        },
    ),
    "qnli": Layout("QNLI", _ENTAILMENT, _pair_splits(4)),
    "rte": Layout("RTE", _ENTAILMENT, _pair_splits(4)),
    "sst-2": Layout(
        "SST-2",
        ("0", "1"),
        {
            "train": Columns("train.tsv", 2, 0, None, 1),
            "dev": Columns("dev.tsv", 2, 0, None, 1),
            "test": Columns("test.tsv", 2, 1, None, None),
        },
    ),
    "wnli": Layout("WNLI", ("0", "1"), _pair_splits(4)),
}


class GlueTask(base.Task):
    """A GLUE task with one label per row."""

    def __init__(self, name: str):
        """Look up a task of `TASKS` by its name, in any case.

        Raises:
            errors.UserError: There is no such task.
        """
        self.name = name.lower()
        if self.name not in TASKS:
            raise errors.UserError(
                f"--task_name={name} is not known. Allowed are "
                f"{', '.join(sorted(TASKS))}."
            )
        self._layout = TASKS[self.name]
        self.labels = self._layout.labels
        self.key_metric = self._layout.metric
        self.objective: objectives.Objective = classification.OBJECTIVE

    @property
    def has_pairs(self) -> bool:
        """Whether an example has two texts."""
        return self._layout.splits["train"].text_b is not None

    def source(self, data_dir: str, split: str) -> str:
        """Return the path of a split, such as `DATA_DIR/RTE/dev.tsv`."""
        columns = self._layout.splits[split]
        return os.path.join(data_dir, self._layout.folder, columns.file)

    def read(self, data_dir: str, split: str) -> list[base.Example]:
        """Read a split; rows are strict, and quotes are ordinary characters.

        Raises:
            errors.UserError: The file is missing, empty or not UTF-8, a row has
                another number of columns, or a label is unknown.
        """
        path = self.source(data_dir, split)
        if not files.exists(path):
            raise errors.UserError(
                f"--data_dir={data_dir} has no {self._layout.folder}/"
                f"{os.path.basename(path)} (looked for {path}). Give the "
                "folder that holds the GLUE task folders."
            )
        columns = self._layout.splits[split]
        try:
            text = files.read_bytes(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise errors.UserError(
                f"{path} is not UTF-8 (byte {error.start}). Convert it first."
            ) from None
        # Only line feeds end a row: texts may hold other line separators.
        rows = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        examples = [
            self._parse(
                row.split("\t"), columns, f"{path}, line {number}", split
            )
            for number, row in enumerate(rows, 1)
            if number > columns.header and text
        ]
        if not examples:
            raise errors.UserError(
                f"{path} has no examples. Give the official file of the task."
            )
        return examples

    def _parse(
        self, fields: list[str], columns: Columns, where: str, split: str
    ) -> base.Example:
        if len(fields) != columns.count:
            raise errors.UserError(
                f"{where}: {len(fields)} columns instead of {columns.count}. "
                "Columns are separated by one tab each; texts may not hold "
                "tabs."
            )
        label = None
        if columns.label is not None:
            written = fields[columns.label].strip()
            if written not in self.labels:
                raise errors.UserError(
                    f"{where}: the label {written!r} is not one of "
                    f"{', '.join(self.labels)}. Correct the row."
                )
            label = self.labels.index(written)
        number = where.rsplit(" ", 1)[1]
        guid = fields[0] if split == "test" else f"{split}-{number}"
        text_b = "" if columns.text_b is None else fields[columns.text_b]
        return base.Example(guid, fields[columns.text_a], text_b, label)

    def layout(self, max_seq_length: int) -> records.Layout:
        """Return the layout of a classification record."""
        return records.classification_layout(max_seq_length, regression=False)

    def featurize(
        self,
        examples: Sequence[base.Example],
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
    ) -> list[dict[str, np.ndarray]]:
        """Turn examples into the values of records, in order.

        A label that is not known becomes 0, as in the original.
        """
        firsts = tokenizer.encode_batch([e.text_a for e in examples])
        seconds = tokenizer.encode_batch([e.text_b for e in examples])
        return [
            {
                **pack(first, second, tokenizer, max_seq_length),
                "label_ids": np.array(example.label or 0, np.int64),
                "is_real_example": np.array(1, np.int64),
            }
            for first, second, example in zip(
                firsts, seconds, examples, strict=True
            )
        ]

    def make_model(self, encoder: modeling.AlbertModel) -> keras.Model:
        """Put a new classifier on an encoder."""
        return classification.AlbertClassifier(encoder, len(self.labels))

    def score(
        self, outputs: dict[str, np.ndarray], examples: Sequence[base.Example]
    ) -> dict[str, float]:
        """Return accuracy and the task's own metric."""
        predicted = outputs["logits"].argmax(-1)
        expected = np.array([example.label for example in examples])
        return glue_metrics.score(self.key_metric, predicted, expected)

    def write_predictions(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence[base.Example],
        output_dir: str,
    ) -> None:
        """Write `test_results.tsv` (probabilities) and `submit_results.tsv`."""
        shifted = outputs["logits"] - outputs["logits"].max(-1, keepdims=True)
        odds = np.exp(shifted)
        probabilities = odds / odds.sum(-1, keepdims=True)
        rows = ["\t".join(str(p) for p in row) for row in probabilities]
        files.write_text(
            os.path.join(output_dir, "test_results.tsv"),
            "".join(f"{row}\n" for row in rows),
        )
        lines = ["index\tprediction"] + [
            f"{example.guid}\t{self.labels[best]}"
            for example, best in zip(
                examples, probabilities.argmax(-1), strict=True
            )
        ]
        files.write_text(
            os.path.join(output_dir, "submit_results.tsv"),
            "".join(f"{line}\n" for line in lines),
        )


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
    room = max_seq_length - (3 if second else 2)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    front = [tokenizer.cls_id, *first, tokenizer.sep_id]
    back = [*second, tokenizer.sep_id] if second else []
    packed = np.zeros([3, max_seq_length], np.int64)
    packed[0, : len(front) + len(back)] = front + back
    packed[1, : len(front) + len(back)] = 1
    packed[2, len(front) : len(front) + len(back)] = 1
    names = ("input_ids", "input_mask", "segment_ids")
    return dict(zip(names, packed, strict=True))
