"""How the server's page asks each kind of model and shows its answers."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert_tf.common import errors, slices
from albert_tf.serving.client import ask
from albert_tf.text import tokenization

Texts = Mapping[str, Any]
Answer = Mapping[str, Any]
Part = tuple[str, bool]  # Of a text; whether it is highlighted.
Bar = tuple[str, float, str]  # Name, probability, remark.


@dataclasses.dataclass(frozen=True)
class View:
    """What the page shows as an answer; all of it is plain text."""

    headline: str
    passage: Sequence[Part]  # The text that was asked about.
    charts: Mapping[str, Sequence[Bar]]  # By their titles.
    notes: Sequence[str]


def show_masks(texts: Texts, answer: Answer) -> View:
    first, *others = texts["text"].split(tokenization.MASK)
    if not others:
        raise errors.UserError(
            f"There is no {tokenization.MASK} in the text. Write it where a "
            "word is to be guessed."
        )
    passage = [(first, False)]
    # A mask that was cut off has no pieces. The model may find more masks than
    # stand in the text: normalization can make one, of fullwidth letters.
    for after, pieces in itertools.zip_longest(others, answer["pieces"]):
        filling = tokenization.MASK
        if pieces:  # Without the marks of SentencePiece and WordPiece.
            piece = pieces[0].removeprefix("\u2581").removeprefix("##")
            filling = piece or pieces[0]
        passage += [(filling, bool(pieces)), (after or "", False)]
    masks = zip(answer["pieces"], answer["probabilities"], strict=True)
    charts = {
        f"Mask {number}": bars(*mask) for number, mask in enumerate(masks, 1)
    }
    return View("Filled in", passage, charts, notes_of(answer))


def show_label(texts: Texts, answer: Answer) -> View:
    charts = {"Classes": bars(answer["labels"], answer["probabilities"])}
    return View(answer["label"], (), charts, notes_of(answer))


def show_labels(texts: Texts, answer: Answer) -> View:
    headline = ", ".join(answer["predicted"]) or "No label"
    charts = {"Labels": bars(answer["labels"], answer["probabilities"])}
    return View(headline, (), charts, notes_of(answer))


def show_score(texts: Texts, answer: Answer) -> View:
    return View(f"Score {answer['score']:.2f}", (), {}, notes_of(answer))


def bars(
    names: Iterable[str],
    probabilities: Iterable[float],
    remarks: Iterable[str] = itertools.repeat(""),
) -> list[Bar]:
    """Return bars; names of nothing, which fill up a list, get none."""
    rows = zip(names, probabilities, remarks, strict=False)
    return [bar for bar in rows if bar[0]]


def notes_of(answer: Answer) -> list[str]:
    notes = {
        "truncated": "The text is too long for the model: a part was left out.",
        "question_truncated": "The question is too long: its end was left out.",
    }
    return [note for name, note in notes.items() if answer.get(name)]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of models."""

    title: str
    hint: str
    samples: Texts  # What stands in the fields at first, by input.
    show: Callable[[Texts, Answer], View]


STORY = (
    "The ferry to the island leaves the old harbour at nine in the morning. "
    "Mara bought two tickets because Ivo had lost his."
)
_PAIR = {
    "text": "Mara bought two tickets for the ferry.",
    "text_pair": "Mara has a ticket.",
}

# By an output that tells them apart; the first that fits is it.
KINDS = {
    "pieces": Kind(
        "Masked words",
        f"Write {tokenization.MASK} where a word is to be guessed. Among the "
        "candidates, \u2581 begins a word and ## continues one.",
        {"text": f"The ferry leaves the {tokenization.MASK} in the morning."},
        show_masks,
    ),
    "label": Kind("Classes", "The text is classified.", _PAIR, show_label),
    "predicted": Kind("Labels", "The text is labelled.", _PAIR, show_labels),
    "score": Kind("Score", "The text gets a number.", _PAIR, show_score),
}


@dataclasses.dataclass(frozen=True)
class Form:
    """How to ask a signature, and how to show what it says."""

    signature: str
    inputs: ask.Inputs
    kind: Kind

    def to_dict(self) -> dict[str, Any]:
        """Return `title`, `hint` and `fields`, the samples by input."""
        fields = {}
        for name, sample in self.kind.samples.items():
            if name in self.inputs and isinstance(sample, list):
                count = self.inputs[name]
                fields[name] = (sample + [""] * count)[:count]
            elif name in self.inputs:
                fields[name] = sample
        return {
            "title": self.kind.title,
            "hint": self.kind.hint,
            "fields": fields,
        }

    def check(self, texts: Texts) -> None:
        for name in self.inputs:
            value = texts[name]
            if isinstance(value, str):
                if not value.strip():
                    words = name.replace("_", " ")
                    raise errors.UserError(f"The {words} is empty. Fill it in.")
            elif sum(bool(text.strip()) for text in value) < 2:
                raise errors.UserError(f"Fill in two {name} at least.")


def find(signatures: Mapping[str, ask.Signature]) -> Form | None:
    """Return the form of a model; None if its outputs cannot be shown."""
    kinds = {**KINDS, **{m.OUTPUT: m.KIND for m in slices.load_all("view")}}
    for (output, kind), (name, signature) in itertools.product(
        kinds.items(), sorted(signatures.items())
    ):
        is_known = signature.specs.keys() <= kind.samples.keys()
        if is_known and output in signature.outputs:
            return Form(name, signature.inputs, kind)
    return None
