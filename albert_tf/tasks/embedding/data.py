"""Files of texts that belong together, for vectors of texts."""

import dataclasses
import math

from albert_tf.common import errors, prompts, rows
from albert_tf.finetuning.packing import TextExample

SCORED, PAIRS, TRIPLETS = "scored", "pairs", "triplets"
KINDS = (SCORED, PAIRS, TRIPLETS)
RETRIEVAL = "retrieval"  # For development files only, see `retrieval`.
TEXTS = "texts"  # For training files only, see `distill`.
# The names of the texts.
INPUTS = {
    TEXTS: ("text",),
    RETRIEVAL: ("text",),
    SCORED: ("text", "text_pair"),
    PAIRS: ("text", "text_pair"),
    TRIPLETS: ("text", "positive", "negative"),
}


# The column that a teacher reads in place of `text`.
TEACHER_TEXT = "teacher_text"


@dataclasses.dataclass(frozen=True)
class TaughtExample(TextExample):
    """A text that a teacher reads in another form, such as a translation."""

    teacher_text: str = ""


def read(
    path: str, kind: str, *, has_scores: bool = True
) -> list[TextExample | rows.BadLine]:
    """Read a table or JSON objects, see `rows.read`."""
    texts = INPUTS[kind]
    inputs = [*texts, *["score"] * (kind == SCORED and has_scores)]

    def parse(entry: rows.Row) -> list[TextExample]:
        entry.require(inputs)
        prompts.warn_of_names(entry.values)
        score = None
        if "score" in inputs:
            written = entry.values["score"]
            score = rows.to_number(written)
            if not math.isfinite(score) or isinstance(written, bool):
                raise errors.UserError(
                    f"{entry.where}: the score {written!r} is no finite "
                    "number. Correct it."
                )
        values = entry.guid, entry.texts(texts), score
        if kind == TEXTS and entry.values.get(TEACHER_TEXT):
            return [TaughtExample(*values, *entry.texts([TEACHER_TEXT]))]
        return [TextExample(*values)]

    return list(rows.read_user_file(path, inputs, parse))
