"""Files of tables: options say which columns have texts and labels."""

import collections
import contextlib
import csv
import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, ranges, rows
from albert_tf.common.options import checked, option, refuse_unused, shown
from albert_tf.finetuning import base
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.table import held_out
from albert_tf.tasks.text.task import WindowOptions

NAME = "table"
# Between labels: no label holds it.
SEPARATOR = "\t"
NO_WEIGHTS, BALANCED = "none", "balanced"
# Thresholds of probabilities: one for all labels, or one for each.
ONE, EACH = "one", "each"
# What a ranking learns from: each text by itself, or two of one query.
POINTWISE, PAIRWISE = "pointwise", "pairwise"
# That can choose the best checkpoint, by what is predicted; the first is the
# default.
_SCORES = {
    "label": ("accuracy", "macro_f1", "matthew_corr", "auc"),
    "labels": ("micro_f1", "macro_f1", "accuracy", "auc"),
    "number": ("pearson", "spearmanr"),
    "relevance": ("ndcg", "mrr"),
}
LEAST_LABELS = 2
_LARGEST = 1e15  # Of numbers.
# Of the training file, where no other is given.
DEV_SHARE = 0.1
TEXTS = "text", "text_pair"
_COMMA = ","
# A list of labels in a cell of text: quoted ones, or numbers.
_ITEM = re.compile(r"""'[^'\\]*'|"[^"\\]*"|-?\d+""")
_LIST = re.compile(
    rf"\[\s*+(?:(?:{_ITEM.pattern})\s*+"
    rf"(?:,\s*+(?:{_ITEM.pattern})\s*+)*+(?:,\s*+)?)?\]"
)


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="labels",
    Data="text_columns label_column id_column header class_weights "
    "query_column ranking_loss ndcg_at regression multi_label "
    "label_separator label_thresholds dev_share split_by",
    Training="best_score",
)
class TableOptions:
    """Columns and labels of a table."""

    text_columns: str | None = option(
        None,
        "Column of the text in --train_file and the others; or of two texts, "
        "with a comma between the names. A name with a comma, or that begins "
        "with a blank, stands in quotation marks, as in CSV. With --noheader "
        "their numbers, from 1.",
        repeated=True,
    )
    label_column: str | None = option(
        None,
        "Column of the label. With --multi_label several columns, divided as "
        "in --text_columns, are labels, each 1 where a text has it, else 0.",
    )
    id_column: str | None = option(
        None,
        "Column of what predictions are named by. Default: the number of the "
        "line.",
        may_change=True,
    )
    header: bool = option(
        True, "Whether the first row of a table names its columns."
    )
    labels: str | None = option(
        None,
        "All labels, in the order of the model's outputs, with commas between "
        "them; or with tabs, if a label holds a comma. Default: those of "
        "--train_file, sorted; without it, of the run that is continued.",
        may_change=True,  # The facts may not; so with others below.
    )
    class_weights: str = option(
        NO_WEIGHTS,
        "Weights of examples in the loss. balanced: all labels count the same "
        "in total, however many examples they have.",
        choices=(NO_WEIGHTS, BALANCED),
    )
    best_score: str | None = option(
        None,
        "Score of the development part that chooses the best checkpoint. "
        "Default: accuracy; with --multi_label micro_f1; with --regression "
        "pearson; with --query_column ndcg.",
        choices=tuple(dict.fromkeys(sum(_SCORES.values(), ()))),
        may_change=True,
    )
    query_column: str | None = option(
        None,
        "Column of the query, where texts are ranked for queries: "
        "--label_column is then the relevance of the text, a number from 0.",
    )
    ranking_loss: str | None = option(
        None,
        "What is learnt with --query_column. pairwise: which of two texts of a "
        "query is more relevant. pointwise: the relevance, as a number. "
        "Default: pairwise.",
        choices=(POINTWISE, PAIRWISE),
        needs="query_column",
    )
    pairs_per_text: int | None = option(
        None,
        "Less relevant texts of the query that each text is paired with, drawn "
        "at random, at most; pairwise only. Default: 4.",
        within=ranges.Range(1, 1000),
        needs="query_column",
    )
    ndcg_at: int | None = option(
        None,
        "Places from the top that the score ndcg looks at, with "
        "--query_column. Default: 10.",
        within=ranges.Range(1, 10**6),
        may_change=True,
        needs="query_column",
    )
    regression: bool = option(
        False, "Whether the label is a number that is predicted as such."
    )
    label_mean: float | None = option(
        None,
        "What a new model predicts, with --regression. Default: the mean of "
        "the examples that are learnt.",
        within=ranges.Range(-_LARGEST, _LARGEST),
        may_change=True,
    )
    label_deviation: float | None = option(
        None,
        "Unit of the errors that are learnt from, with --regression. Default: "
        "the standard deviation of these examples.",
        within=ranges.Range(above=0, high=_LARGEST),
        may_change=True,
    )
    multi_label: bool = option(
        False, "Whether a text may have several labels, or none."
    )
    label_separator: str | None = option(
        None,
        "What stands between the labels of a text, with --multi_label. "
        "Default: a comma. JSON and Parquet may have lists instead.",
        needs="multi_label",
    )
    label_thresholds: str | None = option(
        None,
        "With --multi_label a text gets the labels whose probability is above "
        "a threshold. one: the one with the best micro F1 on the development "
        "part. each: each label has its own, with its best F1. Default: one.",
        choices=(ONE, EACH),
        needs="multi_label",
    )
    dev_share: float | None = option(
        None,
        "Share of --train_file that is split off and not learnt: of each "
        "label as much, equal texts together. Default: that of the run that "
        "is continued; else 0.1 without --dev_file, and 0 with it.",
        within=ranges.Range(0, 0.9),
        may_change=True,
    )
    split_seed: int = option(
        12345, "Seed of that choice.", within=ranges.Range(0, 2**31 - 1)
    )
    split_by: str | None = option(
        None,
        "Column, such as that of an author, whose equal values stay together "
        "in that choice. Default: equal texts do; with --query_column, equal "
        "queries.",
    )
    few_shot: bool = option(
        False,
        "Keep the encoder, and compute a head from the vectors of a few "
        "examples of each label: a logistic regression.",
        needs="text_columns",
    )
    examples_per_label: int | None = option(
        None,
        "Draw so many of each label, by --split_seed, and learn no others.",
        within=ranges.Range(1, 10**6),
        needs="text_columns",
    )
    labels_file: str | None = option(
        None,
        "Table with the columns label and text that describes the labels, by "
        "one row each or several, instead of --train_file. A text gets the "
        "label of the closest vector.",
        may_change=True,
        needs="text_columns",
    )
    none_label: str | None = option(
        None,
        "One more label, of texts that are close to no description.",
        needs="labels_file",
    )
    none_threshold: float | None = option(
        None,
        "Cosine from which on a text is close to a label. Default: that with "
        "the most right answers in --dev_file.",
        within=ranges.Range(-1, 1),
        needs="none_label",
    )
    long: WindowOptions = WindowOptions()

    def __post_init__(self) -> None:
        columns = self.inputs
        named = [*columns, *self.label_columns]
        if twice := [name for name in named if named.count(name) > 1]:
            raise errors.UserError(
                f"`text_columns={self.text_columns}` and "
                f"`label_column={self.label_column}` name {twice[0]!r} twice. "
                "Name each column once."
            )
        if len(columns) > len(TEXTS):
            raise errors.UserError(
                f"`text_columns={self.text_columns}` must name one column, or "
                "two with a comma between them; with `query_column` one. To "
                "use more, join them in the file."
            )
        base.check_labels("labels", self.labels, self.names, "commas")
        if self.label_separator == "":
            raise errors.UserError(
                "`label_separator` is empty. Give what stands between two "
                "labels."
            )
        if self.label_separator and len(self.label_columns) > 1:
            raise errors.UserError(
                f"`label_separator={self.label_separator}` divides the labels "
                f"of one column, but `label_column={self.label_column}` names "
                "several, of 0 and 1. Leave it out."
            )
        if self.long.is_divided and len(columns) > 1:
            remedy = "" if self.query_column else "name one text column, or "
            raise errors.UserError(
                f"`windows={self.long.windows}` divides single texts only, not "
                "pairs, nor texts that are ranked for queries. To read the "
                f"beginning of each, {remedy}leave it out."
            )
        self._check_numbers()
        self._check_examples()
        if self.best_score not in (None, *_SCORES[self.kind]):
            raise errors.UserError(
                f"`best_score={self.best_score}` is no score of such a table. "
                f"Use {' or '.join(_SCORES[self.kind])}."
            )

    def _check_examples(self) -> None:
        names = "few_shot", "examples_per_label", "labels_file"
        given = [name for name in names if getattr(self, name)]
        if given and self.kind != "label":
            raise errors.UserError(
                f"`{given[0]}={getattr(self, given[0])}` is for tables whose "
                "texts have one label each. Leave it out."
            )
        if self.computes_head and self.long.is_divided:
            raise errors.UserError(
                f"`windows={self.long.windows}` needs a head that is trained. "
                "Leave it out, with `few_shot` or `labels_file`."
            )
        for name in (*names[:2], "dev_share", "class_weights"):
            is_given = getattr(self, name) not in (None, False, 0, NO_WEIGHTS)
            if self.labels_file and is_given:
                raise errors.UserError(
                    f"`{name}={getattr(self, name)}` is about examples, in "
                    "whose place `labels_file` stands. Leave one of them out."
                )
        if self.labels_file and len(self.inputs) > 1:
            raise errors.UserError(
                f"`text_columns={self.text_columns}` names two columns, but a "
                "description is one text. Name one, or leave `labels_file` out."
            )

    def _check_numbers(self) -> None:
        if not self.needs_scale:
            scale = "label_mean", "label_deviation"
            refuse_unused(self, scale, "regression")
        weights = self.class_weights
        for name, is_wrong in (
            ("regression", self.regression and self.query_column),
            ("multi_label", self.multi_label),
            ("labels", self.labels),
            ("class_weights", weights != NO_WEIGHTS),
        ):
            if is_wrong and self.is_number:
                other = "query_column" if self.query_column else "regression"
                raise errors.UserError(
                    f"`{name}={getattr(self, name)}` does not go with "
                    f"`{other}`: a number is predicted. Leave one of them out."
                )
        if (self.label_mean is None) != (self.label_deviation is None):
            raise errors.UserError(
                "`label_mean` and `label_deviation` belong together. Give "
                "both, or none."
            )

    @property
    def kind(self) -> str:
        """What is predicted: `label`, `labels`, `number` or `relevance`."""
        if self.query_column:
            return "relevance"
        if self.regression:
            return "number"
        return "labels" if self.multi_label else "label"

    @property
    def computes_head(self) -> bool:
        """Whether the head is computed from vectors, not trained."""
        return self.few_shot or bool(self.labels_file)

    @property
    def of_training(self) -> "TableOptions":
        """The columns of the training file; those of descriptions are fixed."""
        if not self.labels_file:
            return self
        return TableOptions(text_columns="text", label_column="label")

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "relevance")

    @property
    def needs_scale(self) -> bool:
        """Whether it learns a number of the column."""
        return self.is_number and (
            self.regression or self.ranking_loss == POINTWISE
        )

    @property
    def key_metric(self) -> str:
        return self.best_score or _SCORES[self.kind][0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the texts; a query is the first one."""
        query = (self.query_column,) if self.query_column else ()
        return (*query, *self._divide("text_columns"))

    @property
    def label_columns(self) -> Sequence[str]:
        if self.multi_label:
            return self._divide("label_column")
        return [self.label_column] if self.label_column else []

    def _divide(self, name: str) -> list[str]:
        try:
            row = [getattr(self, name) or ""]
            return next(csv.reader(row, skipinitialspace=True), [])
        except csv.Error as error:
            raise errors.UserError(
                f"`{name}={getattr(self, name)}` cannot be divided at its "
                f"commas ({error}). Put each name into quotation marks."
            ) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The labels; none where they are not known."""
        if not self.labels:
            return ()
        separator = SEPARATOR if SEPARATOR in self.labels else _COMMA
        return tuple(map(str.strip, self.labels.split(separator)))


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a file; `labels` are as written, none where not needed.

    `group` is what the column of `split_by` has, if it is there.
    """

    where: str
    guid: Any  # See `rows.key_of`.
    texts: tuple[str, ...]
    labels: tuple[Any, ...]
    group: Any = None


def find_labels(path: str, options: TableOptions) -> tuple[str, ...]:
    """Return the labels of a training file, sorted; numbers by size.

    Those that are columns have the order of these.
    """
    are_described = bool(options.labels_file)
    options = options.of_training
    table = read(path, options)
    columns = options.label_columns
    counts = collections.Counter(x for row in table for x in row.labels)
    are_columns = len(columns) > 1
    unused = [name for name in columns if name not in counts]
    if unused and are_columns:
        raise errors.UserError(
            f"{path}: no text has the label of the column {unused[0]!r}. Add "
            "examples, or leave it out of `label_column`."
        )
    if len(counts) < LEAST_LABELS:
        raise errors.UserError(
            f"{path} has {len(table)} examples and these labels in the column "
            f"{options.label_column!r}: {', '.join(counts) or 'none'}. Two or "
            "more are needed."
        )
    if not are_described:
        _warn_of_labels(path, table, counts, options)
    if are_columns:
        return tuple(columns)
    try:
        return tuple(sorted(counts, key=int))
    except ValueError:
        return tuple(sorted(counts))


def _warn_of_labels(
    path: str,
    table: Sequence[Row],
    counts: collections.Counter[str],
    options: TableOptions,
) -> None:
    """Warn of labels, with how many examples each, that may be a mistake."""
    if len(counts) > len(table) / 2:
        logging.warning(
            "%s: %d examples have %d different labels. Is the column %r that "
            "of the labels? For numbers give `regression`.",
            path,
            len(table),
            len(counts),
            options.label_column,
        )
    single = [label for label, count in counts.items() if count == 1]
    if single:
        logging.warning(
            "%s: %d labels have one example each, such as %r. None of these "
            "can be both learnt and tested.",
            path,
            len(single),
            single[0],
        )
    folded = collections.Counter(map(str.casefold, counts))
    alike = [label for label in counts if folded[label.casefold()] > 1]
    if alike:
        logging.warning(
            "%s: %d labels differ only in case, such as %r. Are they one?",
            *(path, len(alike), sorted(alike, key=str.casefold)[:2]),
        )
    are_single = all(len(row.labels) < 2 for row in table)
    if options.multi_label and len(options.label_columns) < 2 and are_single:
        logging.warning(
            "%s: no text has two labels. Is `label_separator=%s` right?",
            path,
            options.label_separator or _COMMA,
        )


def read_own(
    path: str, options: TableOptions
) -> list[TextExample | rows.BadLine]:
    """Read a user's texts, in the columns of the training file.

    Or, in a file without these, in `text` and `text_pair`, as exports have
    them.
    """
    own = options.inputs, options.header
    usual = TEXTS[: len(options.inputs)], True
    # A header must not be taken for a row.
    for names, header in (own, usual) if options.header else (usual, own):
        with contextlib.suppress(errors.UserError):
            items = _texts_of(path, options, names, header=header)
            if any(isinstance(item, TextExample) for item in items):
                return items
    return _texts_of(path, options, options.inputs, header=options.header)


def _texts_of(
    path: str, options: TableOptions, wanted: Sequence[str], *, header: bool
) -> list[TextExample | rows.BadLine]:
    def parse(entry: rows.Row) -> list[TextExample]:
        guid = entry.id_of(options.id_column or "id")
        return [TextExample(guid, _texts(entry, wanted))]

    # New texts are read by commands that have no `--noheader`.
    is_named = None if header else False
    return list(rows.read_user_file(path, wanted, parse, header=is_named))


def read(
    path: str, options: TableOptions, *, needs_label: bool = True
) -> list[Row]:
    """Return the rows of a file; those of the last one are kept."""
    content = ""
    if files.exists(path) and not os.path.isdir(path):
        content = files.sha256(path)
    return parse(path, content, options, needs_label)


@functools.lru_cache(maxsize=1)
def parse(
    path: str, content: str, options: TableOptions, needs_label: bool
) -> list[Row]:
    del content  # Tells files of one name apart.
    id_ = options.id_column
    columns = options.label_columns if needs_label else []
    wanted = [*options.inputs, *columns]
    wanted += [id_] if id_ and not needs_label else []
    parse_labels: Callable[..., tuple[Any, ...]] = _label
    if options.multi_label:
        separator = options.label_separator or _COMMA
        parse_labels = functools.partial(_several, separator)
    if options.is_number:
        parse_labels = functools.partial(_number, bool(options.query_column))

    def parse_row(entry: rows.Row) -> list[Row]:
        entry.require(wanted)
        values, where = entry.values, entry.where
        texts = _texts(entry, options.inputs)
        if options.query_column and not texts[0].strip():
            raise errors.UserError(
                f"{where}: the column {options.query_column!r} is empty. Texts "
                "are ranked for a query. Write it, or remove the row."
            )
        guid = rows.LineKey(entry.key)
        if id_ and id_ in wanted:
            guid = entry.id_of(id_)
        labels: tuple[Any, ...] = ()
        if len(columns) > 1:
            labels = tuple(x for x in columns if _has(values[x], x, where))
        elif columns:
            labels = parse_labels(values[columns[0]], columns[0], where)
        group = values.get(options.split_by) if options.split_by else None
        return [Row(where, guid, texts, labels, group)]

    items = rows.read_user_file(path, wanted, parse_row, header=options.header)
    table = list(rows.raise_bad_lines(items))
    if table and not any(text.strip() for row in table for text in row.texts):
        raise errors.UserError(
            f"`text_columns={options.text_columns}` is empty in all "
            f"{len(table)} rows of {path}. Name others."
        )
    return table


def _texts(entry: rows.Row, names: Sequence[str]) -> tuple[str, ...]:
    values = entry.values
    if "row" in entry.key:  # Of Parquet, where empty cells are null.
        values = {k: "" if v is None else v for k, v in values.items()}
    remedy = "Put it into quotation marks, or name another column."
    return dataclasses.replace(entry, values=values).texts(names, remedy)


def _has(written: Any, name: str, where: str) -> bool:
    """Tell whether a text has the label that is the column of a cell."""
    lowered = str(written).lower()
    number = rows.to_number({"true": 1, "false": 0}.get(lowered, written))
    if number not in (0, 1):
        raise errors.UserError(
            f"{where}: the column {name!r} holds {written!r}. Where several "
            "columns are labels, each holds 1 or 0. Correct the row."
        )
    return number == 1


def _several(
    separator: str, written: Any, name: str, where: str
) -> tuple[str, ...]:
    """Return the labels of a cell: those of a list, or between separators."""
    text = written.strip() if isinstance(written, str) else ""
    if text.startswith("["):
        written = _items(text, separator, name, where)
    elif written is None or isinstance(written, str):
        parts = text.split(separator) if text else []
        written = list(dict.fromkeys(map(str.strip, parts)))
    cells = written if isinstance(written, list) else [written]
    labels = [label for cell in cells for label in _label(cell, name, where)]
    for label, count in collections.Counter(labels).items():
        if count > 1:
            raise errors.UserError(
                f"{where}: the list in the column {name!r} has {label!r} "
                f"{count} times. It must name each label of the text once. "
                "Are these numbers of yes and no for all labels? Write the "
                "names of those that the text has."
            )
    return tuple(labels)


def _items(text: str, separator: str, name: str, where: str) -> list[str]:
    """Return what is in a list as Python or JSON write it."""
    if not _LIST.fullmatch(text):
        raise errors.UserError(
            f"{where}: the column {name!r} holds {text!r}, which begins as a "
            "list and is none. Write ['one', 'other'], or the labels with "
            f"{separator!r} between them."
        )
    items = _ITEM.findall(text)
    return [item[1:-1] if item[0] in "'\"" else item for item in items]


def _number(
    is_relevance: bool, written: Any, name: str, where: str
) -> tuple[float, ...]:
    """Return a number that records can hold."""
    is_number = not isinstance(written, bool)
    number = rows.to_number(written) if is_number else math.nan
    if not abs(number) <= _LARGEST:
        raise errors.UserError(
            f"{where}: the column {name!r} holds {written!r}, which is no "
            f"number from {-_LARGEST:g} to {_LARGEST:g}. Write numbers such as "
            "3.5 or 1e6; correct the row, or remove it."
        )
    if is_relevance and number < 0:
        raise errors.UserError(
            f"{where}: the column {name!r} holds {written!r}. A relevance is "
            "0, for a text that does not belong to the query, or more. "
            "Correct the row."
        )
    return (number,)


def _label(written: Any, name: str, where: str) -> tuple[str, ...]:
    """Return a label as text: numbers and truth values of JSON as there."""
    if isinstance(written, float) and written.is_integer():
        written = int(written)  # pandas makes them of a column with gaps.
    is_scalar = isinstance(written, str | int)  # Truth values are numbers.
    text = rows.strip_invisible(str(written)) if is_scalar else ""
    if not text or set(text) & {*"\t\n\r"}:
        raise errors.UserError(
            f"{where}: the column {name!r} holds {written!r}, which is no "
            "label. A label is one line of text. Correct the row, or remove it."
        )
    return (text,)


def numbers_of(example: TextExample) -> tuple[int, ...]:
    label = example.label
    return label if isinstance(label, tuple) else (int(label or 0),)


def key_of(example: TextExample, options: TableOptions) -> tuple[str, ...]:
    """Return what examples have in common that stay together."""
    return example.texts[:1] if options.query_column else example.texts


def _group_of(row: Row, column: str) -> str:
    """Return what a row has in the column of `split_by`."""
    if row.group in (None, ""):
        raise errors.UserError(
            f"{row.where} has no value in the column `split_by={column}`, or "
            "no such column. Name one that all rows have."
        )
    return str(row.group)


def part_of(
    examples: Sequence[TextExample],
    table: Sequence[Row],
    options: TableOptions,
    share: float,
    split: str,
) -> list[TextExample]:
    """Return the examples of a training file that a split has.

    Args:
        table: The rows of all examples.
    """
    if not share:
        return list(examples)
    labels = [(0,) if options.is_number else numbers_of(e) for e in examples]
    keys: list[tuple[str, ...]]
    if options.split_by:
        keys = [(_group_of(row, options.split_by),) for row in table]
    else:
        keys = [key_of(example, options) for example in examples]
    chosen = held_out.choose(keys, labels, share, options.split_seed)
    return [
        example
        for example, is_held_out in zip(examples, chosen, strict=True)
        if is_held_out == (split == base.HELD_OUT)
    ]


def draw(
    examples: Sequence[TextExample],
    labels: Sequence[str],
    options: TableOptions,
    path: str,
) -> list[TextExample]:
    """Return `examples_per_label` examples of each label, in their order."""
    count = options.examples_per_label or 0
    order = np.random.default_rng(options.split_seed).permutation(len(examples))
    chosen: list[int] = []
    for number, label in enumerate(labels):
        members = [i for i in order.tolist() if examples[i].label == number]
        if len(members) < count:
            raise errors.UserError(
                f"`examples_per_label={count}`: {path} has {len(members)} of "
                f"the label {label!r} that `dev_share` does not hold out."
            )
        chosen += members[:count]
    return [examples[index] for index in sorted(chosen)]
