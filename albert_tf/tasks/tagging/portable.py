"""From a text to windows, and from their outputs to tags of words and spans.

The task decodes by this file, and exports for other runtimes have a copy of it:
no TensorFlow and nothing but portable files is imported.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from albert_tf.finetuning import overlaps, probabilities
from albert_tf.text import words

OUTSIDE = "O"
# BIO and BIOES; BMES and BILOU, which say the same by other letters.
ENTITY = re.compile("^([BIESMLU])-(.+)")
# Prefixes that begin an entity, and those after which none goes on.
BEGIN, ENDED = "BSU", "OESLU"
# The tag of a word, and its probability.
Word = tuple[str, float]


class Layout(NamedTuple):
    """A text in pieces, and windows over them.

    Attributes:
        ids: int32 [pieces].
        first: int64 [words], the first piece of each word; -1 for a word that
            has none of its own.
        goes_on: bool [words], which of the latter are a part of the piece that
            a word before them begins. Of others nothing is left by cleaning.
        windows: First piece and length of each window.
        counts: For each window, bool [length], the pieces that count there.
    """

    ids: np.ndarray
    first: np.ndarray
    goes_on: np.ndarray
    windows: tuple[tuple[int, int], ...]
    counts: Sequence[np.ndarray]


def lay_out(
    text: str,
    places: Sequence[tuple[int, int]],
    tokenizer: Any,
    max_seq_length: int,
) -> Layout:
    """Cut a text into pieces, and lay windows over it.

    Example, "(Obama", of the words "(" and "Obama":
        pieces ["▁(", "obam", "a"], first = [0, 1], goes_on = [False, False]
    """
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    first, goes_on = find_pieces(places, starts, ends)
    windows = overlaps.split(
        len(ids),
        max_seq_length - overlaps.NUM_SPECIAL,
        overlaps.stride(max_seq_length),
    )
    counts = overlaps.max_context(windows)
    return Layout(ids, first, goes_on, windows, counts)


def decode(
    laid: Layout, logits: Iterable[np.ndarray], labels: Sequence[str]
) -> list[Word]:
    """Return the tag of each word, from the logits of each window."""
    found = np.zeros([len(laid.ids), len(labels)])
    spans = zip(laid.windows, laid.counts, logits, strict=True)
    for (begin, length), counts, values in spans:
        window = probabilities.softmax(values[1 : length + 1])
        found[begin : begin + length][counts] = window[counts]
    return tags_of_words(found, laid.first, laid.goes_on, labels)


def find_pieces(
    words: Sequence[tuple[int, int]], starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first piece of each word, and which words have another's.

    A piece belongs to the word in which its first character lies that is no
    space.

    Args:
        starts: int [pieces], first character of each piece in the text.
        ends: int [pieces], last character plus 1.
    """
    count = len(words)
    pairs = np.array(words, np.int64).reshape(-1, 2)
    # The first word that does not end before a piece, if both share a part.
    owner = np.searchsorted(pairs[:, 1], starts, "right")
    begins = np.append(pairs[:, 0], np.iinfo(np.int64).max)[owner]
    is_real = np.maximum(starts, begins) < ends
    owner = np.where(is_real, owner, count)
    first = np.full(count + 1, len(starts))
    np.minimum.at(first, owner, np.arange(len(starts)))
    first = np.where(first < len(starts), first, -1)[:count]
    # Where the last piece ends that begins before a word.
    before = np.searchsorted(starts[is_real], pairs[:, 0], "right")
    reached = np.append(0, ends[is_real])[before]
    return first, (first < 0) & (reached > pairs[:, 0])


def tags_of_words(
    probabilities: np.ndarray,
    first: np.ndarray,
    goes_on: np.ndarray,
    labels: Sequence[str],
) -> list[Word]:
    """Return the tag of each word.

    Args:
        probabilities: float [pieces, tags].
        first, goes_on: See `find_pieces`.
        labels: All tags, in the order of `probabilities`.
    """
    own = [(OUTSIDE, 0.0)] * int((~goes_on).sum())
    for number, piece in enumerate(first[~goes_on]):
        if piece >= 0:
            of_piece = probabilities[piece]
            own[number] = labels[of_piece.argmax()], float(of_piece.max())
    if are_entities(labels):
        tags, _ = to_bio([tag for tag, _ in own])
        own = list(zip(tags, [best for _, best in own], strict=True))
    rest, words = iter(own), [(OUTSIDE, 0.0)]
    for shares in goes_on:
        tag, best = words[-1]
        words.append((continued(tag), best) if shares else next(rest))
    return words[1:]


def are_entities(tags: Iterable[str]) -> bool:
    """Tell whether tags mark entities; else each word has one of its own."""
    return any(map(ENTITY.fullmatch, tags))


def to_bio(tags: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the tags of entities as BIO, and the numbers of the misfits.

    Other tags, such as `X` of Hugging Face's models, are outside.

    Example:
        to_bio(["I-A", "E-A", "I-A", "O"]) = ["B-A", "I-A", "B-A", "O"], [0, 2]

    Source: seqeval 1.2.2, metrics/sequence_labeling.py, start_of_chunk.
    """
    found, misfits = [], []
    last, last_type = OUTSIDE, ""
    for number, tag in enumerate(tags):
        match = ENTITY.fullmatch(tag)
        prefix, type_ = match.groups() if match else (OUTSIDE, "")
        begins = prefix in BEGIN or last in ENDED or type_ != last_type
        if prefix == OUTSIDE:
            found.append(OUTSIDE)
        else:
            found.append(f"{'B' if begins else 'I'}-{type_}")
            if begins and prefix not in BEGIN:
                misfits.append(number)
        last, last_type = prefix, type_
    return found, misfits


def continued(tag: str) -> str:
    """Return the tag for a word that shares a piece with one of this tag."""
    return ENTITY.sub(r"I-\2", tag)


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return type, first word, and last word plus 1 of each entity in BIO.

    Tags that are not of entities are one each.
    """
    found: list[tuple[str, int, int]] = []
    for number, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        if not ENTITY.fullmatch(tag):
            found.append((tag, number, number + 1))
        elif tag[0] == "B":
            found.append((tag[2:], number, number + 1))
        else:
            type_, first, _ = found.pop()
            found.append((type_, first, number + 1))
    return found


def spans(
    text: str, words: Sequence[tuple[int, int]], tags: Sequence[Word]
) -> list[dict[str, Any]]:
    """Return the spans of a text, as JSON."""
    best = np.array([probability for _, probability in tags])
    found = []
    for label, first, stop in entities([tag for tag, _ in tags]):
        start, end = words[first][0], words[stop - 1][1]
        found.append(
            {
                "start": start,
                "end": end,
                "label": label,
                "score": float(best[first:stop].mean()),
                "text": text[start:end],
            }
        )
    return found


class Decoder:
    """What answer.py asks: requests to pieces, and outputs to answers."""

    names: ClassVar = {"text": 0}

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._labels = about["max_seq_length"], about["labels"]
        self._tokenizer = tokenizer

    def lay_out(
        self, given: str | list[str]
    ) -> tuple[list[tuple[list[int]]], Any]:
        """Return the pieces of each window, and what the answer needs."""
        text = words.join(given)[0] if isinstance(given, list) else given
        edges = (edge.tolist() for edge in words.ranges(text))
        places = [*zip(*edges, strict=True)]
        laid = lay_out(text, places, self._tokenizer, self._longest)
        rows = [(laid.ids[i : i + n].tolist(),) for i, n in laid.windows]
        return rows, (given, text, places, laid)

    def conclude(
        self, rest: Any, found: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Any]:
        """Return the answer, from the outputs for each window."""
        given, text, places, laid = rest
        logits = (outputs["logits"] for outputs in found)
        tags = decode(laid, logits, self._labels)
        sizes = (len(character.encode()) for character in text)
        byte = [0, *itertools.accumulate(sizes)]
        answer = []
        for span in spans(text, places, tags):
            for name in ("start", "end"):
                span[f"{name}_byte"] = byte[span[name]]
            answer.append(dict(sorted(span.items())))
        if text is given:
            return {"spans": answer}
        return {"spans": words.snap(answer, given), "text": text}
