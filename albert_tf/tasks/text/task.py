"""Texts or pairs of texts with a label or a number each.

A long text may be divided into windows: each is learnt with the label of its
text, so a long text is learnt as often as it has windows. Their outputs are
pooled when it is scored or predicted.

Source: the original's classifier_utils.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.common import ranges, rows
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts
from albert_tf.finetuning import base, metrics, overlaps, packing, probabilities
from albert_tf.finetuning.packing import TextExample
from albert_tf.tasks.text import portable
from albert_tf.text import tokenization
from albert_tf.training import confusion

FIRST, MEAN, MAX = "first", "mean", portable.MAX


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="windows window_stride")
class WindowOptions:
    """What is done with texts that are longer than a sequence."""

    windows: str = option(
        FIRST,
        "What is read of a text that is longer than --max_seq_length. first: "
        "its beginning. mean, max: all of it, in windows, of whose outputs "
        "for each label (logits) the mean or the largest counts. Scores and "
        "--class_weights count texts, not windows.",
        choices=(FIRST, MEAN, MAX),
    )
    window_stride: int | None = option(
        None,
        "Pieces from the start of one window to that of the next, at most a "
        "whole window. Default: half a window.",
        within=ranges.Range(1, 10**6),
        needs="windows=mean|max",
    )

    @property
    def is_divided(self) -> bool:
        return self.windows != FIRST

    def stride(self, max_seq_length: int) -> int:
        """Return the pieces from the start of one window to the next."""
        return self.window_stride or overlaps.stride(max_seq_length)


class TextTask(packing.PackedTask):
    """A task with one label or number for each text or pair of texts.

    Without labels it is one of numbers. A label that is not known becomes 0 in
    records, as in the original.
    """

    package = __package__
    exit_options: tuple[str, ...] = "exit_layers", "exit_heads"
    metrics: Sequence[str]  # See `metrics.score`.
    long = WindowOptions()
    # Pooling and width of the vectors that the head reads; "" for the pooler.
    vectors: tuple[str, int] = ("", 0)
    is_pairwise: bool = False  # Whether it learns which text is better.

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: Any,
        facts: base.Facts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        self.is_regression = not self.labels
        usual = "number" if self.is_regression else "label"
        self.problem = self.problem or usual
        self.taught_by = None if self.is_regression else "probabilities"

    @property
    def about(self) -> dict[str, Any]:
        """What a `TextService` needs to know."""
        return {
            "labels": self.labels,
            "pairs": self.has_pairs,
            "long": self.long,
        }

    @property
    def alike(self) -> dict[str, Any]:
        return {"labels": self.labels}

    @property
    def read_whole(self) -> str | None:
        return "text" if self.long.is_divided else None

    def class_weights(self, learnt: base.Examples) -> tuple[Any, ...] | None:
        """Return what each label counts in the loss; None: the same."""
        return None

    def objective(self, learnt: base.Examples = ()) -> Any:
        return self._part("model", "objective").objective(self, learnt)

    # Texts to records.

    def layout(self, split: str) -> layouts.Layout:
        del split  # The same for all.
        return layouts.classification_layout(
            self.max_seq_length,
            num_labels=len(self.labels),
            regression=self.is_regression,
        )

    def pieces(
        self, examples: Sequence[TextExample]
    ) -> list[tuple[TextExample, Sequence[int], Sequence[int]]]:
        if self.long.is_divided:
            windows = zip(examples, self.windows(examples), strict=True)
            return [(one, ids, ()) for one, each in windows for ids in each]
        others = ["".join(example.texts[1:]) for example in examples]
        first = self.tokenizer.encode_batch([e.texts[0] for e in examples])
        second = self.tokenizer.encode_batch(others)
        return list(zip(examples, first, second, strict=True))

    def windows(
        self, examples: Sequence[TextExample]
    ) -> list[list[Sequence[int]]]:
        """Return the pieces of each window of each text."""
        limit = self.max_seq_length - overlaps.NUM_SPECIAL
        stride = self.long.stride(self.max_seq_length)
        texts = [example.texts[0] for example in examples]
        return [
            portable.divide(ids, limit, stride)
            for ids in self.tokenizer.encode_batch(texts)
        ]

    def label_ids(self, examples: Sequence[TextExample]) -> np.ndarray:
        labels = [example.label or 0 for example in examples]
        if not self.is_regression:
            return np.array(labels, np.int64)
        mean, deviation = self.scale
        units = (np.array(labels, np.float64) - mean) / deviation
        return units.astype(np.float32)

    # Outputs to results.

    def pool_records(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> base.Outputs:
        if not self.long.is_divided:
            return outputs
        counts = list(map(len, self.windows(examples)))
        logits = portable.pool(outputs["logits"], counts, self.long.windows)
        return {"logits": logits}

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return the task's metrics, and for labels the `loss` too."""
        expected = np.array([example.label for example in examples])
        logits = outputs["logits"]
        if self.is_regression:
            return metrics.score(self.metrics, logits[:, 0], expected)
        scores = metrics.score(self.metrics, logits.argmax(-1), expected)
        return {**scores, "loss": probabilities.cross_entropy(logits, expected)}

    def confusion(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> confusion.Confusion | None:
        if self.is_regression:
            return None
        return confusion.Confusion.count(
            outputs["logits"].argmax(-1),
            np.array([example.label for example in examples]),
            self.labels,
        )

    def answers(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> Iterator[dict[str, Any]]:
        """Yield the label and all probabilities by label, or the number.

        A number is as the model gives it: it may lie outside of the `bounds`.
        """
        keys = (rows.key_of(example.guid) for example in examples)
        if self.is_regression:
            for key, (number,) in zip(keys, outputs["logits"], strict=True):
                yield {**key, "prediction": float(number)}
            return
        shares = self.shares(outputs["logits"])
        predictions = self.predictions(shares, examples)
        for key, row, prediction in zip(keys, shares, predictions, strict=True):
            chances = zip(self.labels, row.tolist(), strict=True)
            yield {
                **key,
                "prediction": prediction,
                "probabilities": dict(chances),
            }

    def shares(self, logits: np.ndarray) -> np.ndarray:
        """Return the probabilities of logits, float64 [examples, labels]."""
        return probabilities.softmax(logits)

    def logits_of(self, shares: np.ndarray) -> np.ndarray:
        """Return logits, less a constant, of probabilities."""
        return probabilities.safe_log(shares)

    def predictions(
        self, shares: np.ndarray, examples: Sequence[TextExample]
    ) -> list[Any]:
        """Return what is predicted for each example."""
        del examples
        return [self.labels[number] for number in shares.argmax(-1)]

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        if self.is_regression:
            return {"logits": np.mean([one["logits"] for one in runs], 0)}
        return super().combine(runs)

    # Exports.

    def texts(self, examples: Sequence[TextExample]) -> dict[str, Any]:
        names = ("text", "text_pair")[: 1 + self.has_pairs]
        texts = (example.texts[: len(names)] for example in examples)
        return dict(
            zip(names, map(list, zip(*texts, strict=True)), strict=True)
        )

    def score_answers(
        self, answers: base.SignatureAnswers, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return the scores of what the signature of an export answered."""
        if self.is_regression:
            logits = base.concatenate(answers, "score")[:, None]
        else:
            logits = self.logits_of(base.concatenate(answers, "probabilities"))
        return self.score({"logits": logits}, examples)


TASK = TextTask
