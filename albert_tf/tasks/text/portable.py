"""From texts to windows, and from the model's outputs to answers.

The task decodes by this file, and exports for other runtimes have a copy of it:
no TensorFlow and nothing but portable files is imported.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import overlaps, probabilities

MAX = "max"
EVEN = 0.5  # Threshold of a probability where none was chosen.


def divide(ids: Sequence[int], limit: int, stride: int) -> list[Sequence[int]]:
    """Return the pieces of each window of a text; there is one at least."""
    windows = overlaps.split(len(ids), limit, stride) or ((0, 0),)
    return [ids[begin : begin + length] for begin, length in windows]


def pool(outputs: np.ndarray, counts: Sequence[int], how: str) -> np.ndarray:
    """Return the mean or the largest outputs of the windows of each text.

    Example:
        pool([[0, 1], [4, 3], [5, 5]], [2, 1], "mean") = [[2, 2], [5, 5]]
    """
    sizes = np.array(counts, np.int64)
    starts = sizes.cumsum() - sizes
    if how == MAX:
        return np.maximum.reduceat(outputs, starts)
    sums = np.add.reduceat(outputs, starts)
    return np.asarray(sums / sizes.astype(outputs.dtype)[:, None])


class Decoder:
    """What answer.py asks: texts to pieces, and outputs to answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._about, self._options = about, about["options"]
        self._encode = tokenizer.encode

    def lay_out(self, *texts: str) -> tuple[list[Any], bool]:
        """Return the pieces of each window of a text; if some are cut."""
        is_divided = "windows" in self._options
        longest = self._about["max_seq_length"]
        enough = None if is_divided else longest
        pieces = [self._encode(text, enough) for text in texts]
        limit = longest - 2 - any(pieces[1:])
        if not is_divided:
            return [pieces], sum(map(len, pieces)) > limit
        stride = self._options["window_stride"]
        return [[part] for part in divide(pieces[0], limit, stride)], False

    def conclude(
        self, truncated: bool, outputs: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each window."""
        kind, (of_text, *_) = self._about["service"], outputs
        if how := self._options.get("windows"):
            logits = np.stack([each["logits"] for each in outputs])
            of_text = {"logits": pool(logits, [len(outputs)], how)[0]}
        if kind == "RegressionService":
            return {"score": of_text["logits"][0], "truncated": truncated}
        if how:
            is_one = kind == "ClassifierService"
            shares = probabilities.softmax if is_one else probabilities.sigmoid
            of_text = {"probabilities": shares(of_text["logits"])}
        labels, chances = self._about["labels"], of_text["probabilities"]
        answer = {**of_text, "labels": labels, "truncated": truncated}
        if kind == "ClassifierService":
            return {**answer, "label": labels[chances.argmax()]}
        limits = [self._options["thresholds"][label] for label in labels]
        is_given = chances > np.array(limits, np.float32)
        return {**answer, "predicted": [*itertools.compress(labels, is_given)]}
