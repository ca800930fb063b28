"""Files of texts that belong together, for vectors of texts."""

import dataclasses
import math
from typing import Any

from albert_tf.common import errors
from albert_tf.finetuning import text_files

SCORED, PAIRS, TRIPLETS = "scored", "pairs", "triplets"
KINDS = (SCORED, PAIRS, TRIPLETS)
RETRIEVAL = "retrieval"  # For development files only, see `retrieval`.
TEXTS = "texts"  # For training files only, see `distill`.
_TEXTS = {
    TEXTS: ("text",),
    RETRIEVAL: ("text",),
    SCORED: ("text", "text_pair"),
    PAIRS: ("text", "text_pair"),
    TRIPLETS: ("text", "positive", "negative"),
}


@dataclasses.dataclass(frozen=True)
class TextGroup:
    """One text alone, or two or three that are compared.

    Attributes:
        texts: A text and what is compared with it: of a pair the other one;
            of a triplet one that is closer and one that is farther.
        score: How much a pair has in common; None where it is not known.
    """

    guid: Any  # See `text_files.key_of`.
    texts: tuple[str, ...]
    score: float | None = None


def num_texts(kind: str) -> int:
    return len(_TEXTS[kind])


def read(
    path: str, kind: str, *, has_scores: bool = True
) -> list[TextGroup | text_files.BadLine]:
    """Read a table or JSON objects, see `text_files.own_entries`."""
    texts = _TEXTS[kind]
    inputs = [*texts, *["score"] * (kind == SCORED and has_scores)]

    def parse(entry: text_files.Entry) -> list[TextGroup]:
        entry.require(inputs)
        score = None
        if "score" in inputs:
            score = _number(entry.values["score"], entry.where)
        return [TextGroup(entry.guid, entry.texts(texts), score)]

    return list(text_files.read_own(path, inputs, parse))


def _number(written: Any, where: str) -> float:
    number = text_files.number(written)
    if not math.isfinite(number) or isinstance(written, bool):
        raise errors.UserError(
            f"{where}: the score {written!r} is no finite number. Correct it."
        )
    return number
