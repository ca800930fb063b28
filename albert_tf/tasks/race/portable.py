"""From a question with options to sequences, and from scores to a choice.

The task cuts texts by this file, and exports for other runtimes have a copy of
it: no TensorFlow and nothing but portable files is imported.
"""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.finetuning import probabilities

LETTERS = string.ascii_uppercase
BLANK = "_"
# A row of low lines, close together or not, is one gap.
GAP = f"{BLANK}(?: *{BLANK})*"
NUM_SPECIAL = 3  # [CLS], [SEP], [SEP].


def fill(
    question: str, options: Sequence[str], clean: Callable[[str], str]
) -> list[str]:
    """Return the question with each option: in its gaps, or behind it.

    Both are cleaned before: so a full-width low line is a gap too, and an
    option brings no spaces into it.

    Source: original release, race_utils.RaceProcessor.process_text. DIFFERS:
    there each low line of a row of them is replaced.

    Example:
        question = "He is ___ .", options = ("old", "tall")
        result = ["he is old .", "he is tall ."]
    """
    parts = re.split(GAP, clean(question))
    if len(parts) > 1:
        return [clean(option).join(parts) for option in options]
    return [f"{parts[0]} {clean(option)}" for option in options]


class Sequences(NamedTuple):
    """The pieces of a question with its options.

    Attributes:
        pairs: For each option the article, and question and option.
        article_is_cut, choice_is_cut: Whether some did not fit.
    """

    pairs: list[tuple[list[int], list[int]]]
    article_is_cut: bool
    choice_is_cut: bool


def cut(
    article: list[int],
    choices: Sequence[list[int]],
    max_seq_length: int,
    max_qa_length: int,
) -> Sequences:
    """Make `[CLS] article [SEP] question and option [SEP]` fit.

    Of question and option the last `max_qa_length` pieces are kept, then the
    article is cut at its end.
    """
    kept = [choice[-max_qa_length:] for choice in choices]
    limits = [max_seq_length - NUM_SPECIAL - len(choice) for choice in kept]
    return Sequences(
        [(article[:n], choice) for n, choice in zip(limits, kept, strict=True)],
        any(len(article) > limit for limit in limits),
        any(len(choice) > max_qa_length for choice in choices),
    )


class Decoder:
    """What answer.py asks: requests to pieces, and outputs to answers."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._options = about["max_seq_length"], about["options"]
        self._tokenizer = tokenizer

    def lay_out(
        self, article: str, question: str, options: Sequence[str]
    ) -> tuple[list[tuple[list[int], list[int]]], Any]:
        """Return the pieces of each option, and what the answer needs."""
        encode = self._tokenizer.encode
        real = [option for option in options if option]
        choices = fill(question, real, self._tokenizer.clean)
        sequences = cut(
            encode(article, self._longest),
            [encode(choice) for choice in choices],
            self._longest,
            self._options["max_qa_length"],
        )
        truncated = sequences.article_is_cut or sequences.choice_is_cut
        return sequences.pairs, ([*map(bool, options)], truncated)

    def conclude(
        self, asked: Any, outputs: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each option."""
        is_real, truncated = asked
        chances = np.zeros(self._options["num_options"])
        logits = np.array([output["logits"] for output in outputs])
        chances[np.flatnonzero(is_real)] = probabilities.softmax(logits)
        choice = chances.argmax()
        return {
            "choice": choice,
            "label": LETTERS[choice],
            "probabilities": chances,
            "truncated": truncated,
        }
