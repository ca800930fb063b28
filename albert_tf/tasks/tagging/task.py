"""Tags of words: entities, and parts of speech.

A word has the tag of its first piece. Words of a file are cut as those of texts
are, and the first piece of each part is learnt; the first part decides. A long
text is divided into overlapping windows; each piece counts in the window where
it has most context.

Source: Devlin et al., arXiv 1810.04805, section 5.3.
"""

import collections
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, imports, rows
from albert_tf.common.options import checked, option
from albert_tf.data import layouts
from albert_tf.finetuning import base, overlaps, packing
from albert_tf.tasks.tagging import data, portable
from albert_tf.tasks.tagging.data import TaggedText
from albert_tf.text import tokenization, words
from albert_tf.training import confusion

metrics = imports.later("seqeval.metrics")

NAME = "tagging"
SEPARATOR = "\t"
# Share of the words whose tags follow from what cleaning removes; more of them
# are worth a warning.
_MOST_LOST = 0.01
# The same for scores of a file's words, and of its texts.
_MOST_DIFFERENT = 0.01


@dataclasses.dataclass(frozen=True)
@checked
class TaggingOptions:
    """Which tags there are, and where files of columns have them."""

    tags: str | None = option(
        None,
        "All tags, in the order of the model's outputs, with tabs between "
        "them. Default: those of --train_file; without it, of the run or of "
        "the Hugging Face folder that is continued.",
        may_change=True,  # The facts may not.
    )
    columns: data.ColumnOptions = data.ColumnOptions()

    def __post_init__(self) -> None:
        base.check_labels("tags", self.tags, self.labels, "tabs")

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags; none where they are not known."""
        return tuple(self.tags.split(SEPARATOR)) if self.tags else ()


@dataclasses.dataclass(frozen=True)
@checked
class ExportOptions:
    """What albert_tf.export needs for a checkpoint that is no run."""

    tags: str | None = option(
        None,
        "Tags of --task=tagging, with tabs between them. Default: those of a "
        "Hugging Face folder.",
        needs="init_checkpoint",
    )


def lay_out(
    example: TaggedText,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
) -> portable.Layout:
    return portable.lay_out(
        example.text, example.words, tokenizer, max_seq_length
    )


class TaggingTask(base.Task):
    """Tags of words. An example is a text, its records are windows."""

    package = __package__
    command = "run_tagger"
    read_whole = "text"
    options_class = TaggingOptions
    export_options = ExportOptions
    name = NAME
    problem = "label"
    pooler = "drops"
    outputs_are_positions = True
    exit_options = "exit_layers", "exit_heads"

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: TaggingOptions,
        facts: base.Facts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        if max_seq_length <= overlaps.NUM_SPECIAL:
            raise errors.UserError(
                f"`max_seq_length={max_seq_length}` leaves no tokens beside "
                f"{overlaps.NUM_SPECIAL} special ones. Use more."
            )
        self.output_widths = {"logits": max_seq_length}

    @classmethod
    def find_facts(cls, options: TaggingOptions, source: Any) -> base.Facts:
        def find(path: str) -> Sequence[str]:
            return data.labels_of(data.read(path, options.columns), path)

        return base.Facts(source.labels("tags", options.labels, find))

    @property
    def has_entities(self) -> bool:
        return portable.are_entities(self.labels)

    @property
    def key_metric(self) -> str:  # type: ignore[override]
        """F1 of entities; of other tags the share that is right."""
        return "f1" if self.has_entities else "accuracy"

    @property
    def settings(self) -> dict[str, Any]:
        columns = dataclasses.asdict(self.options.columns)
        learnt = {"tags": list(self.labels), "learnt": "parts of words"}
        return {**super().settings, **learnt, **columns}

    def read(self, path: str, split: str) -> list[TaggedText]:
        examples = data.read(
            path,
            self.options.columns,
            data.bio_of(self.labels) if self.labels else None,
            needs_tags=split != base.TEST,
        )
        if split == base.TRAIN:
            parts = [example.cut()[0] for example in examples]
            used = {tag for example in parts for tag in example.tags or ()}
            missing = sorted(used - {*self.labels})
            if missing and self.labels:
                raise errors.UserError(
                    f"{path} has the tags {', '.join(missing)}, in BIO, which "
                    "are not among those to learn. Name all as `tags`; a head "
                    "of others needs `new_head`."
                )
            counts = collections.Counter(
                label
                for example in examples
                for label, _, _ in portable.entities(example.tags or ())
            )
            single = sorted(k for k, count in counts.items() if count == 1)
            if single:
                logging.warning(
                    "%s has only one example of %s, too few to learn from.",
                    path,
                    ", ".join(single),
                )
            _warn_of_cleaning(self.tokenizer, examples, path)
        return examples

    def read_own(self, path: str) -> list[TaggedText | rows.BadLine]:
        return data.read_own(path)

    def layout(self, split: str) -> layouts.Layout:
        num_labels = None if split == base.PREDICT else len(self.labels)
        return tagging_layout(self.max_seq_length, num_labels)

    def featurize(
        self, examples: Sequence[TaggedText], split: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the windows of all texts.

        Example, max_seq_length 6, [CLS] 2, [SEP] 3, a text of the pieces 11 and
        12, which are one word with the tag number 4:
            input_ids = [2, 11, 12, 3, 0, 0], label_ids = [0, 5, 0, 0, 0, 0]
        """
        numbers = {label: i for i, label in enumerate(self.labels, 1)}
        pairs: list[packing.Pair] = []
        rows, lost = [], []
        for example in examples:
            parts, begins = example.cut()
            laid = lay_out(parts, self.tokenizer, self.max_seq_length)
            own = laid.first >= 0
            word = np.cumsum(begins) - 1
            if len(np.setdiff1d(word, word[own | laid.goes_on])):
                lost.append(str(example.guid))
            labels = np.zeros(len(laid.ids), np.int64)
            if example.tags is not None and parts.tags is not None:
                of_parts = np.array([numbers.get(t, 0) for t in parts.tags])
                of_words = np.array([numbers.get(t, 0) for t in example.tags])
                # The first part that has a piece has the tag of the word.
                _, first = np.unique(word[own], return_index=True)
                leading = np.flatnonzero(own)[first]
                of_parts[leading] = of_words[word[leading]]
                labels[laid.first[own]] = of_parts[own]
            spans = zip(laid.windows, laid.counts, strict=True)
            for (begin, length), counts in spans:
                part = slice(begin, begin + length)
                pairs.append((laid.ids[part], ()))
                row = np.zeros(self.max_seq_length, np.int64)
                row[1 : length + 1] = np.where(counts, labels[part], 0)
                rows.append(row)
        self.remark(
            "examples have words of which cleaning leaves nothing.", lost
        )
        label_ids = np.array(rows, np.int64).reshape(-1, self.max_seq_length)
        values = {
            **packing.pack(pairs, self.tokenizer, self.max_seq_length),
            "label_ids": label_ids,
            "is_real_example": np.ones(len(rows), np.int64),
        }
        yield {f.name: values[f.name] for f in self.layout(split)}

    def score(
        self, outputs: base.Outputs, examples: Sequence[TaggedText]
    ) -> dict[str, float]:
        """Return `accuracy` of words, and `precision`, `recall`, `f1`.

        The last three are for entities only, over all types: see seqeval. A
        warning says if the same sentences as texts have others.
        """
        scores = self.score_tags(self._found(outputs, examples), examples)
        texts = [data.TaggedText.of_text(e.guid, e.text) for e in examples]
        spans = [
            [(s["start"], s["end"], s["label"]) for s in answer["spans"]]
            for answer in self.answers(outputs, texts)
        ]
        key, of_text = self.key_metric, self._score_spans(spans, examples)
        if abs(scores[key] - of_text[key]) > _MOST_DIFFERENT:
            logging.warning(
                "%s is %.3f for the words of the file, but %.3f for the same "
                "sentences as texts, which are cut into other words: see "
                "docs/tagging.md.",
                key,
                scores[key],
                of_text[key],
            )
        return scores

    def score_tags(
        self, tags: Sequence[Sequence[str]], examples: Sequence[TaggedText]
    ) -> dict[str, float]:
        expected = [list(example.tags or ()) for example in examples]
        found = list(map(list, tags))
        scores = {"accuracy": float(metrics.accuracy_score(expected, found))}
        if self.has_entities:
            for name in ("precision", "recall", "f1"):
                compute = getattr(metrics, f"{name}_score")
                value = compute(expected, found, zero_division=0)
                scores[name] = float(value)
        return scores

    def confusion(
        self, outputs: base.Outputs, examples: Sequence[TaggedText]
    ) -> confusion.Confusion | None:
        """Count words by their tags, or whole entities by their types.

        None where entities are neither there nor predicted.
        """
        expected = [example.tags or () for example in examples]
        found = self._found(outputs, examples)
        if not self.has_entities:
            tags = [tag for tags in (*found, *expected) for tag in tags]
            labels, numbers = np.unique(tags, return_inverse=True)
            given, right = np.split(numbers, 2)
            return confusion.Confusion.count(given, right, labels.tolist())
        there, predicted = (
            {
                (number, *entity)
                for number, one in enumerate(tags)
                for entity in portable.entities(one)
            }
            for tags in (expected, found)
        )
        every = sorted(there | predicted)
        if not every:
            return None
        types = sorted({label for _, label, _, _ in every})
        counts = np.zeros([len(types), 2, 2], np.int64)
        for entity in every:
            kind = types.index(entity[1])
            counts[kind, int(entity in there), int(entity in predicted)] += 1
        return confusion.Confusion(tuple(types), counts)

    def answers(
        self, outputs: base.Outputs, examples: Sequence[TaggedText]
    ) -> Iterator[dict[str, Any]]:
        """Yield the `text` of each example, and its `spans`.

        Each span has `start` and `end`, characters of the text, `label`,
        `score`, the mean probability of the tags of its words, and its `text`.
        """
        tags = self._tags(outputs, examples)
        for example, of_words in zip(examples, tags, strict=True):
            spans = portable.spans(example.text, example.words, of_words)
            if example.joined:
                spans = words.snap(spans, example.joined)
            key = rows.key_of(example.guid)
            yield {**key, "text": example.text, "spans": spans}

    def write_predictions(
        self,
        outputs: base.Outputs,
        examples: Sequence[TaggedText],
        split: str,
        output_dir: str,
    ) -> None:
        """Write `SPLIT_predictions.jsonl`, and tags as columns.

        `SPLIT_predictions.tsv` has the words, their tags if they are known, and
        the predicted ones, which conlleval takes with `-d`.
        """
        super().write_predictions(outputs, examples, split, output_dir)
        blocks = []
        tags = self._found(outputs, examples)
        for example, found in zip(examples, tags, strict=True):
            known = [] if example.tags is None else [example.tags]
            rows = zip(example.texts, *known, found, strict=True)
            blocks.append("".join("\t".join(row) + "\n" for row in rows))
        path = os.path.join(output_dir, f"{split}_predictions.tsv")
        files.write_text(path, "\n".join(blocks))

    def _found(
        self, outputs: base.Outputs, examples: Sequence[TaggedText]
    ) -> list[list[str]]:
        words = self._tags(outputs, examples)
        return [[tag for tag, _ in one] for one in words]

    def _tags(
        self, outputs: base.Outputs, examples: Sequence[TaggedText]
    ) -> Iterator[list[portable.Word]]:
        rows = iter(outputs["logits"])
        for example in examples:
            laid = lay_out(example, self.tokenizer, self.max_seq_length)
            logits = itertools.islice(rows, len(laid.windows))
            yield portable.decode(laid, logits, self.labels)

    @property
    def alike(self) -> dict[str, Any]:
        return {"labels": self.labels}

    def texts(self, examples: Sequence[TaggedText]) -> dict[str, Any]:
        return {"text": [example.text for example in examples]}

    def score_answers(
        self, answers: base.SignatureAnswers, examples: Sequence[TaggedText]
    ) -> dict[str, float]:
        names = "span_start", "span_end", "span_label"
        rows = (
            [one[name][row, :count] for name in names]
            for one in answers
            for row, count in enumerate(one["num_spans"])
        )
        spans = [
            [*zip(starts, ends, map(bytes.decode, labels), strict=True)]
            for starts, ends, labels in rows
        ]
        return self._score_spans(spans, examples)

    def _score_spans(
        self,
        spans: Sequence[Sequence[tuple[int, int, str]]],
        examples: Sequence[TaggedText],
    ) -> dict[str, float]:
        """Return the same scores for spans of texts, which must fit exactly."""
        tags = []
        for example, found in zip(examples, spans, strict=True):
            edges = {edge for word in example.words for edge in word}
            if self.has_entities:  # A span with a part of a word is wrong.
                found = [
                    (start, end, label if {start, end} <= edges else "?")
                    for start, end, label in found
                ]
            ours = data.with_spans(example, found)[0].tags or ()
            if not self.has_entities:  # Tags have no prefixes.
                ours = tuple(tag.removeprefix("B-") for tag in ours)
            tags.append(ours)
        return self.score_tags(tags, examples)


def tagging_layout(
    max_seq_length: int, num_labels: int | None
) -> layouts.Layout:
    """Return the features of a window over a text whose words have tags.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` [S], padded with 0; unless
        `num_labels` is None, `label_ids` [S], the number of the tag, from 1, at
        the first piece of each part of a word, 0 elsewhere; `is_real_example`
        scalar.
    """
    sequence = (max_seq_length,)
    labels: layouts.Layout = ()
    if num_labels is not None:
        feature = layouts.Feature
        labels = (feature("label_ids", sequence, "int64", 0, 0, num_labels),)
    return (*layouts.sequences(sequence), *labels, layouts.REAL)


TASK = TaggingTask


def _warn_of_cleaning(
    tokenizer: tokenization.AnyTokenizer,
    examples: Sequence[TaggedText],
    path: str,
) -> None:
    """Say so where words that cleaning makes equal have different tags."""
    counts: dict[str, dict[str, collections.Counter[str]]] = {}
    for example in examples:
        pairs = zip(example.texts, example.tags or (), strict=True)
        for word, tag in pairs:
            same = counts.setdefault(tokenizer.clean(word), {})
            kind = tag[2:] or tag if tag[1:2] == "-" else tag
            same.setdefault(word, collections.Counter())[kind] += 1
    lost = 0
    for same in counts.values():
        usual = _usual(sum(same.values(), collections.Counter()))
        lost += sum(c.total() for c in same.values() if _usual(c) != usual)
    total = sum(len(example.words) for example in examples)
    if lost > _MOST_LOST * total:
        logging.warning(
            "%s: %d of %d words become equal to words that mostly have another "
            "tag, since the vocabulary lower-cases or removes accents. A cased "
            "vocabulary would tell them apart.",
            path,
            lost,
            total,
        )


def _usual(counts: collections.Counter[str]) -> str:
    return counts.most_common(1)[0][0]
