"""Sentence-level pretraining tasks: how segments are arranged, and the label.

Each task is an entry of `ARRANGEMENTS`. Records of the kind instances hold
segments and label of sop or nsp; from passages any task is drawn in training.
"""

import dataclasses
import itertools
import math
import types
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.common import errors, files, random_streams
from albert_tf.data import layouts, marks

# Ids of discourse markers, longest first, and their classes.
Markers = Mapping[tuple[int, ...], int]


class Passage(NamedTuple):
    """What a task draws from; pieces are ids with the bits of `marks` below."""

    pieces: np.ndarray  # int [n].
    partner: np.ndarray  # int [m], pieces of another document, or none.
    draws: random_streams.Stream
    room: int = 0  # Pieces that all segments together may have.
    markers: Markers = types.MappingProxyType({})

    def split(self, count: int) -> list[np.ndarray]:
        """Split the passage at random sentence starts, all equally likely.

        There are fewer parts if it has fewer sentences.
        """
        starts = _later_sentences(self.pieces).tolist()
        chosen: list[int] = []
        while starts and len(chosen) < count - 1:
            index = self.draws.randint(0, len(starts) - 1)
            chosen.append(starts.pop(index))
        return np.split(self.pieces, sorted(chosen))

    def split_both(self, least: int) -> list[np.ndarray]:
        """Split the passage and its partner in two, with similar second parts.

        These have `least` sentences or more, and each fits behind both first
        parts. They are about equally long, and the same rule chooses both, so
        that a model cannot tell them apart by length.

        Returns:
            The passage's first and second part, and the partner's second part;
            nothing if no two starts fit.
        """
        starts, partner_starts = (
            _later_sentences(pieces)[: 1 - least or None]
            for pieces in (self.pieces, self.partner)
        )
        starts = starts[:, None]
        lengths = len(self.pieces) - starts
        partner_lengths = len(self.partner) - partner_starts
        fits = (starts + partner_lengths <= self.room) & (
            partner_starts + lengths <= self.room
        )
        infinite = self.room + 1
        gaps = np.where(fits, np.abs(lengths - partner_lengths), infinite)
        nearest = gaps.min(0, initial=infinite), gaps.min(1, initial=infinite)
        is_nearest = (gaps == nearest[0]) & (gaps == nearest[1][:, None])
        pairs = np.argwhere(fits & is_nearest)
        if not len(pairs):
            return []
        own, partner = pairs[self.draws.randint(0, len(pairs) - 1)]
        first, second = np.split(self.pieces, starts[own])
        return [first, second, self.partner[partner_starts[partner] :]]


def count_sentences(pieces: np.ndarray) -> int:
    """Count sentences; the first may be the end of one."""
    return len(_later_sentences(pieces)) + int(len(pieces) > 0)


def _later_sentences(pieces: np.ndarray) -> np.ndarray:
    """Return where sentences begin, without the first, int [sentences - 1]."""
    starts = np.flatnonzero(pieces & marks.SENTENCE)
    return starts[starts > 0]


Arranged = tuple[list[np.ndarray], int]  # The segments, and the label.


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A task about sentences.

    Attributes:
        name: In losses and metrics.
        classes: Number of labels; 0: one for each class of markers.
        most_segments: Of an example.
        arrange: Passage to segments and label, `NO_LABEL` where it has none.
    """

    name: str
    classes: int
    most_segments: int
    arrange: Callable[[Passage], Arranged]
    # Of passages that take part in it; the others are no partners.
    least_sentences: int = 1
    # Whether segment ids say who speaks; else they count the segments.
    by_speaker: bool = False


def sentence_order(passage: Passage) -> Arranged:
    """Label 1: the two segments are exchanged (ALBERT §3.1)."""
    parts = passage.split(2)
    if len(parts) == 1:
        return parts, layouts.NO_LABEL
    if passage.draws.random() < 0.5:
        return parts[::-1], 1
    return parts, 0


def next_sentence(passage: Passage) -> Arranged:
    """Label 1: the second segment is from another document (BERT §3.1).

    DIFFERS: the sentences that it replaces are not used in this epoch. The
    random segment is as long as the true one, as far as sentences allow.
    """
    parts = passage.split_both(1)
    if not parts:
        return [passage.pieces], layouts.NO_LABEL
    first, second, random_second = parts
    label = int(passage.draws.random() < 0.5)
    return [first, random_second if label else second], label


def reordering(passage: Passage, most: int = 3) -> Arranged:
    """Label: how many segments there are, and which order they are in.

    Source: ERNIE 2.0, Sun et al., arXiv 1907.12412, section 4.2.2. The
    numbering is ours: 0 is a single segment, 1 and 2 are the orders of two,
    3 to 8 those of three, each in lexicographic order.
    """
    segments = passage.split(passage.draws.randint(1, most))
    count = len(segments)
    rank = passage.draws.randint(0, math.factorial(count) - 1)
    orders = itertools.permutations(range(count))
    order = next(itertools.islice(orders, rank, None))
    return [segments[index] for index in order], num_orders(count - 1) + rank


def num_orders(most: int) -> int:
    """Return how many orders 1 to `most` segments have, all together."""
    return sum(math.factorial(count) for count in range(1, most + 1))


def distance(passage: Passage) -> Arranged:
    """Label 0: adjacent; 1: of one document; 2: of different documents.

    Source: ERNIE 2.0, section 4.2.2. The second segment is the second or the
    third of three parts, of the same document or another.
    """
    parts = passage.split_both(2)
    if not parts:
        return [passage.pieces], layouts.NO_LABEL
    first, second, other = parts
    label = passage.draws.randint(0, 2)
    part = label if label < 2 else passage.draws.randint(0, 1)
    second = other if label == 2 else second
    return [first, passage._replace(pieces=second).split(2)[part]], label


def dialogue(passage: Passage) -> Arranged:
    """Label 1: one of three turns is from another dialogue.

    Source: ERNIE 1.0, Sun et al., arXiv 1904.09223, section 4.2. The other turn
    is of the same speaker, so that the order of speakers does not tell.
    """
    turns, partner_turns = (
        np.split(pieces, _later_sentences(pieces))
        for pieces in (passage.pieces, passage.partner)
    )
    speakers = "".join(map(_speaker, turns))
    starts = [n for n in range(len(turns)) if speakers[n : n + 3] in _TURNS]
    if not starts:
        # A segment until the speaker changes: at most three, R, Q and R.
        spoken = passage.pieces & marks.RESPONSE
        changes = np.flatnonzero(np.diff(spoken)) + 1
        return np.split(passage.pieces, changes), layouts.NO_LABEL
    first = starts[passage.draws.randint(0, len(starts) - 1)]
    chosen, replaced = turns[first : first + 3], passage.draws.randint(0, 2)
    speaker = _speaker(chosen[replaced])
    room = passage.room - sum(map(len, chosen)) + len(chosen[replaced])
    partner_turns = [
        turn
        for turn in partner_turns
        if 0 < len(turn) <= room and _speaker(turn) == speaker
    ]
    if not partner_turns:
        return chosen, layouts.NO_LABEL
    if passage.draws.random() < 0.5:
        return chosen, 0
    index = passage.draws.randint(0, len(partner_turns) - 1)
    chosen[replaced] = partner_turns[index]
    return chosen, 1


def find_markers(
    pieces: np.ndarray, markers: Markers
) -> list[tuple[int, int, int]]:
    """Return start, end and class of the markers that begin a later sentence.

    The longest is taken, of whole words; the sentence goes on behind it.
    """
    ids = (pieces >> marks.BITS).tolist()
    matches = []
    for begin in _later_sentences(pieces).tolist():
        for marker, label in markers.items():
            end = begin + len(marker)
            if tuple(ids[begin:end]) == marker and end < len(ids):
                starts = pieces[end] & (marks.WORD | marks.SENTENCE)
                if starts == marks.WORD:
                    matches.append((begin, end, label))
                    break
    return matches


def discourse(passage: Passage) -> Arranged:
    """Label: the marker that the second segment began with and has lost.

    Source: ERNIE 2.0, section 4.2.3.
    """
    matches = find_markers(passage.pieces, passage.markers)
    if not matches:
        return [passage.pieces], layouts.NO_LABEL
    begin, end, label = matches[passage.draws.randint(0, len(matches) - 1)]
    return [passage.pieces[:begin], passage.pieces[end:]], label


# Queries and responses in three turns, as the paper has them.
_TURNS = ("QRQ", "QRR", "QQR")


def _speaker(turn: np.ndarray) -> str:
    return "R" if turn[0] & marks.RESPONSE else "Q"


ARRANGEMENTS = {
    "sop": Arrangement("sentence_order", 2, 2, sentence_order),
    "nsp": Arrangement("next_sentence", 2, 2, next_sentence, 2),
    "reordering": Arrangement(
        "sentence_reordering", num_orders(3), 3, reordering
    ),
    "distance": Arrangement("sentence_distance", 3, 2, distance, 3),
    "discourse": Arrangement("discourse", 0, 2, discourse),
    "dialogue": Arrangement("dialogue", 2, 3, dialogue, 3, by_speaker=True),
}
# Tasks about pieces that start words, by the mark that is predicted.
# Source: ERNIE 2.0, section 4.2.1.
TOKEN_TASKS = {"capitalization": marks.UPPER, "token_document": marks.ELSEWHERE}
# Tasks that records of the kind instances can be written for. They have one
# head, ALBERT's; each other task has a head of its own.
INSTANCE_TASKS = ("sop", "nsp")


def parse(sentence_objective: str) -> tuple[str, ...]:
    """Return the tasks of an option such as "none" or "reordering,distance"."""
    rule = "; not both sop and nsp"
    tasks = ARRANGEMENTS
    return _parse("sentence_objective", sentence_objective, tasks, rule)


def parse_tokens(token_objective: str) -> tuple[str, ...]:
    """Return the tasks of an option such as "none" or "capitalization"."""
    return _parse("token_objective", token_objective, TOKEN_TASKS)


def _parse(
    option: str, value: str, allowed: Mapping[str, object], rule: str = ""
) -> tuple[str, ...]:
    if value == "none":
        return ()
    names = tuple(value.split(","))
    is_valid = set(names) <= allowed.keys() and len(set(names)) == len(names)
    if not is_valid or {*INSTANCE_TASKS} <= {*names}:
        raise errors.UserError(
            f"`{option}={value}` is not none, or some of {', '.join(allowed)}, "
            f"each once, with commas{rule}. Choose among these."
        )
    return names


def read_markers(path: str) -> tuple[tuple[str, ...], ...]:
    """Return the markers of each class: a line, with tabs between markers."""
    lines = files.read_lines(path, "markers_file")
    markers = [
        tuple(filter(None, map(str.strip, n.split("\t")))) for n in lines
    ]
    classes = tuple(filter(None, markers))
    if len(classes) < 2:
        raise errors.UserError(
            f"`markers_file={path}` has fewer than two lines. Write a "
            "discourse marker a line, such as however; further forms of it "
            "follow after tabs."
        )
    return classes


def pretraining_heads(
    sentence_objective: str, num_markers: int = 0
) -> tuple[bool, dict[str, int]]:
    """Return whether ALBERT's head is needed, and {name: classes} of others."""
    names = parse(sentence_objective)
    tasks = [ARRANGEMENTS[n] for n in names if n not in INSTANCE_TASKS]
    has_shared = len(tasks) < len(names)
    return has_shared, {t.name: t.classes or num_markers for t in tasks}
