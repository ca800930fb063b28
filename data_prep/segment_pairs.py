"""Pack the sentences of a document into pairs of segments with a label.

The label is the sentence-order label of ALBERT (§3.1, "Inter-sentence
coherence loss"): 1 when the two segments were exchanged. Nothing is copied
here: a segment is a slice of the array that holds the tokens of many documents.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from albert_tf import errors, ranges
from albert_tf.options import checked, option

# The shortest target length that the original draws.
_MIN_TARGET = 2
# How often the original tries to hit another document than the current one.
_DOCUMENT_DRAWS = 10

OBJECTIVES = ("sop", "nsp", "none")
LONE_POLICIES = ("split", "drop", "random")


@dataclasses.dataclass(frozen=True)
@checked
class PairOptions:
    """How long pairs are and what their label says."""

    max_seq_length: int = option(
        512,
        "Longest sequence in tokens, [CLS] and [SEP] included.",
        within=ranges.TOKENS,
    )
    short_seq_prob: float = option(
        0.1,
        "Probability, drawn once per document and pass, of a shorter target "
        "length.",
        within=ranges.SHARE,
    )
    sentence_objective: str | None = option(
        None,
        "sop: label 1 for exchanged segments (the default). nsp: BERT's, label "
        "1 for a random second segment. none: one segment, for corpora whose "
        "order means nothing.",
        choices=OBJECTIVES,
    )
    random_next_sentence: bool = option(
        False, "The original's name of --sentence_objective=nsp."
    )
    single_segment_policy: str = option(
        "split",
        "What becomes of a chunk that is a single sentence, with sop. split: "
        "cut at the start of a word, and treated as two. drop: left out. "
        "random: paired with a random segment and label 1, as in the original.",
        choices=LONE_POLICIES,
    )

    def __post_init__(self) -> None:
        if self.random_next_sentence and self.sentence_objective not in (
            None,
            "nsp",
        ):
            raise errors.UserError(
                "--random_next_sentence and --sentence_objective="
                f"{self.sentence_objective} contradict each other. The first "
                "is the original's name of nsp; drop one of the two."
            )
        smallest = self.num_special + _MIN_TARGET
        if self.max_seq_length < smallest:
            raise errors.UserError(
                f"--max_seq_length={self.max_seq_length} is too small. [CLS], "
                f"[SEP] and one token a segment need {smallest}. Use 128 or "
                "512."
            )

    @property
    def objective(self) -> str:
        """sop, nsp or none."""
        if self.sentence_objective is not None:
            return self.sentence_objective
        return "nsp" if self.random_next_sentence else "sop"

    @property
    def num_special(self) -> int:
        """[CLS] and the [SEP] behind each segment."""
        return 2 if self.objective == "none" else 3


class Draws(Protocol):
    """A source of random numbers: `random_streams.Stream`, `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""

    def randint(self, a: int, b: int, /) -> int:
        """Return an integer from a to b, both included."""


class Slice(NamedTuple):
    """Neighbouring tokens of an array."""

    tokens: np.ndarray
    begin: int
    end: int


class Document(NamedTuple):
    """A document inside an array of tokens.

    Attributes:
        tokens: int [T], the tokens of this document and of others.
        bounds: Places in it where the sentences begin, and where the last one
            ends.
    """

    tokens: np.ndarray
    bounds: Sequence[int]


class Corpus(Protocol):
    """All documents, for random second segments."""

    def __len__(self) -> int:
        """Return the number of documents."""

    def __getitem__(self, index: int, /) -> Document:
        """Return a document."""


class Pair(NamedTuple):
    """Two segments that fit into a sequence.

    Attributes:
        first: The segment that is read first; never empty.
        second: The other one; empty only without a sentence objective.
        label: 0 when they stand in the order of the document, 1 when they were
            exchanged or the second one is random.
        lone: Whether the chunk held a single sentence.
        tokens_cut: Tokens that were dropped from the two to make them fit.
    """

    first: Slice
    second: Slice
    label: int
    lone: bool
    tokens_cut: int


def make_pairs(
    corpus: Corpus,
    index: int,
    options: PairOptions,
    draws: Draws,
    word_start: np.ndarray,
) -> Iterator[Pair | None]:
    """Yield the segment pairs of one document; this is a generator.

    Each pair takes its draws when it is asked for, in the original's order.

    Source: the original's create_pretraining_data.create_instances_from_
    document.

    Example:
        sentences [5, 6], [7], [8, 9, 10], 128 tokens,
        draws: full length, first segment of 1 sentence, coin 0.3 (exchange)
        result = first [7, 8, 9, 10], second [5, 6], label 1

    Args:
        corpus: All documents; random segments come from them.
        index: Which of them to pack.
        options: Lengths and kind of label.
        draws: Source of all draws.
        word_start: bool [vocabulary], whether a piece starts a word; a lone
            sentence is cut at one.

    Yields:
        Pairs that fit into `max_seq_length` with their markers; None for a
        chunk that is left out.
    """
    document = corpus[index]
    tokens, bounds = document
    room = options.max_seq_length - options.num_special
    objective = options.objective
    # One draw for the whole document (D6 of the specification).
    target = room
    if draws.random() < options.short_seq_prob:
        target = draws.randint(_MIN_TARGET, room)
    begin, last = 0, len(bounds) - 1
    while begin < last:
        end = _end_of_chunk(bounds, begin, target)
        if objective == "none":
            yield _whole(tokens, bounds[begin], bounds[end], room, draws)
            begin = end
            continue
        cut = _choose_cut(document, begin, end, options, draws, word_start)
        if cut is None:
            yield None
            begin = end
            continue
        lone = end - begin == 1
        first = Slice(tokens, bounds[begin], cut)
        # A single sentence that was not cut has nothing beside it.
        uncut = cut == bounds[end]
        if uncut or (objective == "nsp" and draws.random() < 0.5):
            wanted = target - (first.end - first.begin)
            second = _random_segment(corpus, index, wanted, draws)
            label = 1
            # The unused sentences begin the next chunk.
            while bounds[end] > cut:
                end -= 1
        else:
            second = Slice(tokens, cut, bounds[end])
            label = 0
            if objective == "sop" and draws.random() < 0.5:
                first, second, label = second, first, 1
        yield _fit(first, second, label, lone, room, draws)
        begin = end


def _fit(
    first: Slice,
    second: Slice,
    label: int,
    lone: bool,
    room: int,
    draws: Draws,
) -> Pair:
    """Make a pair of two segments; they lose what does not fit."""
    surplus = (first.end - first.begin) + (second.end - second.begin) - room
    first, second = truncate_pair(first, second, room, draws)
    return Pair(first, second, label, lone, max(0, surplus))


def _choose_cut(
    document: Document,
    begin: int,
    end: int,
    options: PairOptions,
    draws: Draws,
    word_start: np.ndarray,
) -> int | None:
    """Say where the first segment of a chunk ends.

    Returns:
        A place in the tokens; the end of the chunk if its single sentence is
        to be paired with a random segment; None if the chunk is left out.
    """
    tokens, bounds = document
    if end - begin > 1:
        return bounds[begin + draws.randint(1, end - begin - 1)]
    if options.objective == "nsp" or options.single_segment_policy == "random":
        return bounds[end]
    if options.single_segment_policy == "drop":
        return None
    return _word_start_inside(
        tokens, bounds[begin], bounds[end], word_start, draws
    )


def _end_of_chunk(bounds: Sequence[int], begin: int, target: int) -> int:
    """Return the index after the sentence that fills a chunk to `target`."""
    full = bounds[begin] + target
    last = len(bounds) - 1
    for end in range(begin + 1, last):
        if bounds[end] >= full:
            return end
    return last


def _whole(
    tokens: np.ndarray, begin: int, end: int, room: int, draws: Draws
) -> Pair:
    """Make one segment of a chunk, and an empty second one."""
    whole, nothing = Slice(tokens, begin, end), Slice(tokens, end, end)
    return _fit(whole, nothing, 0, False, room, draws)


def _word_start_inside(
    tokens: np.ndarray,
    begin: int,
    end: int,
    word_start: np.ndarray,
    draws: Draws,
) -> int | None:
    """Return a random place of a sentence where a word starts, if there is."""
    places = np.flatnonzero(word_start[tokens[begin + 1 : end]])
    if not len(places):
        return None
    return begin + 1 + int(places[draws.randint(0, len(places) - 1)])


def _random_segment(
    corpus: Corpus, index: int, length: int, draws: Draws
) -> Slice:
    """Take whole sentences from a random place until `length` is reached.

    Args:
        corpus: All documents.
        index: The document to avoid. After ten draws that hit it, it is taken
            nevertheless, so a corpus of one document pairs with itself.
        length: Wanted number of tokens; one sentence is taken in any case.
        draws: Source of the draws.
    """
    for _ in range(_DOCUMENT_DRAWS):
        other = draws.randint(0, len(corpus) - 1)
        if other != index:
            break
    tokens, bounds = corpus[other]
    begin = draws.randint(0, len(bounds) - 2)
    end = _end_of_chunk(bounds, begin, length)
    return Slice(tokens, bounds[begin], bounds[end])


def truncate_pair(
    first: Slice, second: Slice, room: int, draws: Draws
) -> tuple[Slice, Slice]:
    """Shorten two segments until they fit, always the longer one.

    Source: the original's create_pretraining_data.truncate_seq_pair.

    Example:
        first = [5, 6, 7], second = [8, 9], room = 4, draw 0.3 (front)
        result = [6, 7], [8, 9]

    Args:
        first: Tokens of the first segment.
        second: Tokens of the second one; it is cut when both are equal.
        room: Tokens that both may have together.
        draws: One draw per dropped token: below 0.5 from the front.
    """
    _, begin, end = first
    _, other_begin, other_end = second
    surplus = (end - begin) + (other_end - other_begin) - room
    if surplus <= 0:
        return first, second
    random = draws.random
    for _ in range(surplus):
        if end - begin > other_end - other_begin:
            if random() < 0.5:
                begin += 1
            else:
                end -= 1
        elif random() < 0.5:
            other_begin += 1
        else:
            other_end -= 1
    return (
        Slice(first.tokens, begin, end),
        Slice(second.tokens, other_begin, other_end),
    )
