"""A part of answer.py, copied beside it: choices among options, as RACE's."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import probabilities

_GAP = re.compile("_(?: *_)*")  # As in `race_data`.


class Task:
    """How requests become pieces, and outputs for these answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._options = about["max_seq_length"], about["options"]
        self._tokenizer = tokenizer

    def lay_out(
        self, article: str, question: str, options: list[str]
    ) -> tuple[list[tuple[list[int], list[int]]], Any]:
        """Return the pieces of each option, and what the answer needs."""
        clean, encode = self._tokenizer.clean, self._tokenizer.encode
        parts, given = _GAP.split(clean(question)), encode(article)
        truncated, rows = False, []
        for option in map(clean, filter(None, options)):
            choice = encode(
                option.join(parts) if parts[1:] else f"{parts[0]} {option}"
            )
            kept = choice[-self._options["max_qa_length"] :]
            limit = self._longest - 3 - len(kept)
            truncated |= len(kept) < len(choice) or len(given) > limit
            rows.append((given[:limit], kept))
        return rows, ([*map(bool, options)], truncated)

    def conclude(
        self, rest: Any, found: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each option."""
        is_real, truncated = rest
        chances = np.zeros(self._options["num_options"])
        logits = np.array([outputs["logits"] for outputs in found])
        chances[np.flatnonzero(is_real)] = probabilities.softmax(logits)
        choice = chances.argmax()
        return {
            "choice": choice,
            "label": string.ascii_uppercase[choice],
            "probabilities": chances,
            "truncated": truncated,
        }
