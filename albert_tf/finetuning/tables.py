"""A user's own table: options say which columns have texts and labels."""

import collections
import contextlib
import csv
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, ranges, rows
from albert_tf.common.options import checked, option, refuse_foreign, shown
from albert_tf.finetuning import base, held_out, probabilities, windows
from albert_tf.finetuning.glue import glue
from albert_tf.finetuning.glue.glue_data import TextExample
from albert_tf.text import tokenization

NAME = "table"
# The part of the training file that is not learnt.
HELD_OUT = "held_out"
# Between labels: no label holds it.
SEPARATOR = "\t"
NO_WEIGHTS, _BALANCED = "none", "balanced"
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
_LEAST_LABELS = 2
_LARGEST = 1e15  # Of numbers.
# Of the training file, where no other is given.
DEV_SHARE = 0.1
_TEXTS = "text", "text_pair"
_COMMA = ","
_SHOWN = 20  # Labels in a message.
_Read = list[TextExample | rows.BadLine]


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="labels",
    Data="text_columns label_column id_column header class_weights "
    "query_column ranking_loss ndcg_at regression multi_label "
    "label_separator label_thresholds dev_share",
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
    label_column: str | None = option(None, "Column of the label.")
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
        choices=(NO_WEIGHTS, _BALANCED),
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
    long: windows.WindowOptions = windows.WindowOptions()

    def __post_init__(self) -> None:
        columns = self.inputs
        named = [*columns, *filter(None, [self.label_column])]
        if len(columns) > len(_TEXTS) or len({*named}) < len(named):
            raise errors.UserError(
                f"`text_columns={self.text_columns}` must name one column, or "
                "two with a comma between them, none of them `label_column`; "
                "with `query_column` one. To use more, join them in the file."
            )
        base.check_labels("labels", self.labels, self.names, "commas")
        if self.label_separator == "":
            raise errors.UserError(
                "`label_separator` is empty. Give what stands between two "
                "labels."
            )
        if self.long.is_divided and len(columns) > 1:
            remedy = "" if self.query_column else "name one text column, or "
            raise errors.UserError(
                f"`windows={self.long.windows}` divides single texts only, not "
                "pairs, nor texts that are ranked for queries. To read the "
                f"beginning of each, {remedy}leave it out."
            )
        self._check_numbers()
        if self.best_score not in (None, *_SCORES[self.kind]):
            raise errors.UserError(
                f"`best_score={self.best_score}` is no score of such a table. "
                f"Use {' or '.join(_SCORES[self.kind])}."
            )

    def _check_numbers(self) -> None:
        if not self.needs_scale:
            scale = "label_mean", "label_deviation"
            refuse_foreign(self, scale, "regression")
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
        try:
            row = [self.text_columns or ""]
            texts = next(csv.reader(row, skipinitialspace=True), [])
        except csv.Error as error:
            raise errors.UserError(
                f"`text_columns={self.text_columns}` cannot be divided at its "
                f"commas ({error}). Put each name into quotation marks."
            ) from None
        return (*query, *texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels; none where they are not known."""
        if not self.labels:
            return ()
        separator = SEPARATOR if SEPARATOR in self.labels else _COMMA
        return tuple(map(str.strip, self.labels.split(separator)))


@dataclasses.dataclass(frozen=True)
class TableFacts(base.Facts):
    """What is predicted, and which part of the training file is held out."""

    dev_share: float = 0.0
    best_score: str = "accuracy"
    # The head gives numbers in units of the deviation from the mean.
    label_mean: float | None = None
    label_deviation: float | None = None

    @property
    def scale(self) -> tuple[float, float]:
        return self.label_mean or 0.0, self.label_deviation or 1.0


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row of a file; `labels` are as written, none where not needed."""

    where: str
    guid: Any  # See `rows.key_of`.
    texts: tuple[str, ...]
    labels: tuple[Any, ...]


def find_labels(path: str, options: TableOptions) -> tuple[str, ...]:
    """Return the labels of a training file, sorted; numbers by size."""
    rows = _rows(path, options, needs_label=True)
    counts = collections.Counter(x for row in rows for x in row.labels)
    total = len(rows)
    if len(counts) < _LEAST_LABELS:
        raise errors.UserError(
            f"{path} has {total} examples and these labels in the column "
            f"{options.label_column!r}: {', '.join(counts) or 'none'}. Two or "
            "more are needed."
        )
    if len(counts) > total / 2:
        logging.warning(
            "%s: %d examples have %d different labels. Is the column %r that "
            "of the labels? For numbers give `regression`.",
            path,
            total,
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
    if options.multi_label and all(len(row.labels) < 2 for row in rows):
        logging.warning(
            "%s: no text has two labels. Is `label_separator=%s` right?",
            path,
            options.label_separator or _COMMA,
        )
    try:
        return tuple(sorted(counts, key=int))
    except ValueError:
        return tuple(sorted(counts))


class TableTask(glue.TextTask):
    """One label for each row."""

    name = NAME
    options_class = TableOptions
    facts_class = TableFacts
    facts: TableFacts
    metrics: Sequence[str] = ("accuracy", "matthew_corr")

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: TableOptions,
        facts: TableFacts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        needed = {"text_columns": options.inputs}
        if not options.is_number:
            needed["labels"] = self.labels
        for name, value in needed.items():
            if not value:
                raise _missing(name)
        if len(self.labels) == _LEAST_LABELS:
            self.metrics = (*self.metrics, "f1")
        self.has_pairs = len(options.inputs) > 1
        texts = "pairs" if self.has_pairs else "single texts"
        self.kind = f"{options.kind} of {texts}"
        self.sequences_vary = options.long.is_divided
        self.key_metric = self.facts.best_score
        if self.facts.dev_share:
            self.parts = {HELD_OUT: base.TRAIN}
        self.eval_splits = (base.DEV, *self.parts)

    @classmethod
    def variant(cls, options: TableOptions) -> type[base.Task]:
        from albert_tf.finetuning import multi_label, ranking, regression

        kinds: dict[str, type[base.Task]] = {
            "label": TableTask,
            "labels": multi_label.MultiLabelTask,
            "number": regression.RegressionTask,
            "relevance": ranking.RankingTask,
        }
        return kinds[options.kind]

    @classmethod
    def find_facts(
        cls, options: TableOptions, known: base.KnownFile
    ) -> TableFacts:
        if not options.inputs:
            raise _missing("text_columns")
        find = functools.partial(find_labels, options=options)
        labels: Sequence[str] = ()
        if not options.is_number:
            labels = known.labels("labels", options.names, find)
        share = options.dev_share
        if share is None:
            is_alone = base.TRAIN in known.files and base.DEV not in known.files
            share = known.of_run().get("dev_share", DEV_SHARE * is_alone)
        scale = options.label_mean, options.label_deviation
        if options.needs_scale and None in scale:
            scale = _find_scale(options, share, known)
        return TableFacts(tuple(labels), share, options.key_metric, *scale)

    @property
    def about(self) -> dict[str, Any]:
        return {**super().about, "long": self.options.long}

    @property
    def hub_refusal(self) -> str | None:  # type: ignore[override]
        if not self.options.long.is_divided:
            return None
        return (
            "was finetuned with `windows`. transformers would read only the "
            "beginning of a long text, and answer otherwise."
        )

    @property
    def settings(self) -> dict[str, Any]:
        one = self.options
        stride = one.long.stride(self.max_seq_length)
        return {
            **super().settings,
            "labels": list(self.labels),
            "columns": [list(one.inputs), one.label_column],
            "header": one.header,
            "dev_share": [self.facts.dev_share, one.split_seed],
            "kind": [one.kind, one.label_separator],
            # The same for `mean` and `max`.
            **({"window_stride": stride} if one.long.is_divided else {}),
        }

    def pieces(self, examples: Sequence[TextExample]) -> list[Any]:
        if not self.options.long.is_divided:
            return super().pieces(examples)
        found = zip(examples, windows.divide(self, examples), strict=True)
        return [(example, ids, ()) for example, each in found for ids in each]

    def pool_records(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> base.Outputs:
        if not self.options.long.is_divided:
            return outputs
        found = windows.divide(self, examples)
        counts = list(map(len, found))
        how = self.options.long.windows
        return {"logits": windows.pool(outputs["logits"], counts, how)}

    def class_weights(
        self, learnt: Sequence[TextExample]
    ) -> Sequence[Any] | None:
        """Return the weight of each label, as scikit-learn's "balanced".

        Their mean over the training examples is 1. None without weights, and
        without training.
        """
        if self.options.class_weights == NO_WEIGHTS or not learnt:
            return None
        counts = self._count(learnt)
        return tuple((len(learnt) / len(counts) / counts).tolist())

    def read(self, path: str, split: str) -> list[TextExample]:
        """Read a file strictly; see `rows.read_own`.

        Where `dev_share` is not 0, TRAIN is what is not HELD_OUT.
        """
        is_known = split in (base.TRAIN, base.DEV, HELD_OUT)
        read = _rows(path, self.options, needs_label=is_known)
        rows.require_some(read, path)
        labels = self._labels(read) if is_known else [None] * len(read)
        examples = [
            TextExample(row.guid, row.texts, label)
            for row, label in zip(read, labels, strict=True)
        ]
        share = self.facts.dev_share
        if not (share and split == base.TRAIN):  # HELD_OUT comes.
            _parsed.cache_clear()
        if split in (base.TRAIN, HELD_OUT):
            examples = _part(examples, self.options, share, split)
        if not examples:
            raise errors.UserError(
                f"{path} has no examples for {split}; equal texts stay "
                "together. Give a file that has more."
            )
        if split == base.TRAIN:
            self._check_training(examples, path)
            logging.info(
                "%s: %d of %d examples are learnt.",
                path,
                len(examples),
                len(read),
            )
        return examples

    def warn_of_overlap(
        self, learnt: Sequence[Any], examples: Sequence[TextExample], path: str
    ) -> None:
        known = {_key(one, self.options) for one in flat(learnt)}
        both = known & {_key(one, self.options) for one in examples}
        if both:
            logging.warning(
                "%s: %d %s are in the training file, too. So the scores "
                "are better than those of new ones will be.",
                path,
                len(both),
                "queries" if self.options.query_column else "texts",
            )

    def _labels(self, read: Sequence[_Row]) -> Sequence[Any]:
        return [numbers[0] for numbers in self._numbers(read)]

    def _numbers(self, read: Sequence[_Row]) -> list[tuple[int, ...]]:
        number_of = {label: i for i, label in enumerate(self.labels)}
        wrong: dict[str, str] = {}  # Each with its first place.
        for row in read:
            for label in set(row.labels) - number_of.keys():
                wrong.setdefault(label, row.where)
        if wrong:
            (label, where), *others = wrong.items()
            known = ", ".join(map(repr, self.labels[:_SHOWN]))
            more = ", ..." * (len(self.labels) > _SHOWN)
            places = [f"{name!r} ({place})" for name, place in others]
            raise errors.UserError(
                f"{where}: the label {label!r} is not one of {known}{more}. "
                "Correct the row; or list all labels as `labels`, with tabs "
                "between them if one has a comma." + rows.and_others(places)
            )
        return [tuple(sorted({number_of[x] for x in r.labels})) for r in read]

    def _count(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return how many examples each label has, int64 [labels]."""
        numbers = [n for example in examples for n in numbers_of(example)]
        return np.bincount(numbers, minlength=len(self.labels))

    def _check_training(
        self, examples: Sequence[TextExample], path: str
    ) -> None:
        counts = self._count(examples)
        missing = [self.labels[i] for i in np.flatnonzero(counts == 0)]
        if missing and self.options.class_weights == _BALANCED:
            raise errors.UserError(
                f"`class_weights={_BALANCED}` cannot weigh the label "
                f"{missing[0]!r}, of which {path} has no example. Leave it out "
                "of `labels`."
            )
        if missing:
            logging.warning(
                "%s has no example of %s.", path, ", ".join(missing)
            )

    def read_own(self, path: str) -> _Read:
        """Read a user's texts, in the columns of the training file.

        Or, in a file without these, in `text` and `text_pair`, as exports have
        them.
        """
        one = self.options
        own = one.inputs, one.header
        usual = _TEXTS[: len(one.inputs)], True
        # A header must not be taken for a row.
        for names, header in (own, usual) if one.header else (usual, own):
            with contextlib.suppress(errors.UserError):
                items = _own(path, one, names, header=header)
                if any(isinstance(item, TextExample) for item in items):
                    return items
        return _own(path, one, one.inputs, header=one.header)

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        scores = super().score(outputs, examples)
        found = self.confusion(outputs, examples)
        if found:
            expected = np.array([example.label for example in examples])
            rows = probabilities.softmax(outputs["logits"])
            scores["macro_f1"] = found.macro_f1
            scores["auc"] = probabilities.area_under_curve(rows, expected)
        return scores


def flat(examples: Sequence[Any]) -> list[TextExample]:
    """Return examples one by one, where pairs of them are learnt."""
    pairs = (one if isinstance(one, tuple) else (one,) for one in examples)
    return [example for pair in pairs for example in pair]


def _missing(name: str) -> errors.UserError:
    return errors.UserError(
        f"The task {NAME} needs `{name}`, which is not given."
    )


def _key(example: TextExample, options: TableOptions) -> tuple[str, ...]:
    """Return what examples have in common that stay together."""
    return example.texts[:1] if options.query_column else example.texts


def _part(
    examples: Sequence[TextExample],
    options: TableOptions,
    share: float,
    split: str,
) -> list[TextExample]:
    """Return the examples of a training file that a split has."""
    if not share:
        return list(examples)
    labels = [(0,) if options.is_number else numbers_of(e) for e in examples]
    keys = [_key(example, options) for example in examples]
    chosen = held_out.choose(keys, labels, share, options.split_seed)
    return [
        example
        for example, is_held_out in zip(examples, chosen, strict=True)
        if is_held_out == (split == HELD_OUT)
    ]


def _find_scale(
    options: TableOptions, share: float, known: base.KnownFile
) -> tuple[float | None, float | None]:
    """Return mean and deviation: a model's, or those of what is learnt."""
    for facts in (known.of_run(), known.of_head()):
        if facts.get("label_deviation"):
            return facts["label_mean"], facts["label_deviation"]
    path = known.train_file(
        "The mean of the numbers is not known. Give `train_file`, or "
        "`label_mean` and `label_deviation`."
    )
    if not path:
        return None, None
    read = _rows(path, options, needs_label=True)
    rows.require_some(read, path)
    examples = [TextExample(row.guid, row.texts, row.labels[0]) for row in read]
    learnt = _part(examples, options, share, base.TRAIN)
    numbers = [example.label for example in learnt]
    return float(np.mean(numbers)), float(np.std(numbers))


def numbers_of(example: TextExample) -> tuple[int, ...]:
    label = example.label
    return label if isinstance(label, tuple) else (int(label or 0),)


def _own(
    path: str, options: TableOptions, wanted: Sequence[str], *, header: bool
) -> _Read:
    def parse(entry: rows.Row) -> list[TextExample]:
        guid = entry.values.get(options.id_column or "id", entry.guid)
        return [TextExample(guid, _texts(entry, wanted))]

    # New texts are read by commands that have no `--noheader`.
    is_named = None if header else False
    return list(rows.read_own(path, wanted, parse, header=is_named))


def _rows(path: str, options: TableOptions, *, needs_label: bool) -> list[_Row]:
    """Return the rows of a file; those of the last one are kept."""
    content = ""
    if files.exists(path) and not os.path.isdir(path):
        content = files.sha256(path)
    return _parsed(path, content, options, needs_label)


@functools.lru_cache(maxsize=1)
def _parsed(
    path: str, content: str, options: TableOptions, needs_label: bool
) -> list[_Row]:
    del content  # Tells files of one name apart.
    label, id_ = options.label_column, options.id_column
    wanted = [*options.inputs, *([label] if label and needs_label else [])]
    wanted += [id_] if id_ and not needs_label else []
    parse_labels: Callable[..., tuple[Any, ...]] = _label
    if options.multi_label:
        separator = options.label_separator or _COMMA
        parse_labels = functools.partial(_several, separator)
    if options.is_number:
        parse_labels = functools.partial(_number, bool(options.query_column))

    def parse(entry: rows.Row) -> list[_Row]:
        entry.require(wanted)
        values, where = entry.values, entry.where
        texts = _texts(entry, options.inputs)
        if options.query_column and not texts[0].strip():
            raise errors.UserError(
                f"{where}: the column {options.query_column!r} is empty. Texts "
                "are ranked for a query. Write it, or remove the row."
            )
        guid = rows.Place(entry.key)
        if id_ in wanted:
            guid = values[id_]
        labels: tuple[Any, ...] = ()
        if label in wanted:
            labels = parse_labels(values[label], label, where)
        return [_Row(where, guid, texts, labels)]

    items = rows.read_own(path, wanted, parse, header=options.header)
    read = list(rows.strictly(items))
    if read and not any(text.strip() for row in read for text in row.texts):
        raise errors.UserError(
            f"`text_columns={options.text_columns}` is empty in all "
            f"{len(read)} rows of {path}. Name others."
        )
    return read


def _texts(entry: rows.Row, names: Sequence[str]) -> tuple[str, ...]:
    # An empty cell of Parquet, or null.
    values = {k: "" if v is None else v for k, v in entry.values.items()}
    remedy = "Put it into quotation marks, or name another column."
    return dataclasses.replace(entry, values=values).texts(names, remedy)


def _several(
    separator: str, written: Any, name: str, where: str
) -> tuple[str, ...]:
    if written is None or isinstance(written, str):
        text = (written or "").strip()
        written = text.split(separator) if text else []
    labels = written if isinstance(written, list) else [written]
    found = [x for label in labels for x in _label(label, name, where)]
    return tuple(dict.fromkeys(found))


def _number(
    is_relevance: bool, written: Any, name: str, where: str
) -> tuple[float, ...]:
    """Return a number that records can hold."""
    is_number = not isinstance(written, bool)
    number = rows.number(written) if is_number else math.nan
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
    text = str(written).strip() if is_scalar else ""
    if not text or set(text) & {*"\t\n\r"}:
        raise errors.UserError(
            f"{where}: the column {name!r} holds {written!r}, which is no "
            "label. A label is one line of text. Correct the row, or remove it."
        )
    return (text,)
