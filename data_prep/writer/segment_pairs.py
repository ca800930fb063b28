"""Pack the sentences of a document into pairs of segments with a label.

The label is the sentence-order label of ALBERT (§3.1, "Inter-sentence
coherence loss"): 1 when the two segments were exchanged, and
`layouts.NO_LABEL` for a sentence that cannot be cut in two. A segment is a
slice of the array with the tokens of many documents; only random segments are
copied.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from albert_tf.common import errors, random_streams, ranges, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts

# The shortest target length that the original draws.
_MIN_TARGET = 2
# How often the original tries to draw another document than the current one.
_DOCUMENT_DRAWS = 10
# A single sentence is cut so that both parts have at least this share of its
# tokens, and this number, so that neither is a full stop only.
_MIN_PART_SHARE, _MIN_PART_TOKENS = 1 / 4, 2

OBJECTIVES = ("sop", "nsp", "none")
SINGLE_SENTENCE_POLICIES = ("split", "drop", "random")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="max_seq_length short_seq_prob", Training="sentence_objective")
class PairOptions:
    """Lengths of pairs, and the meaning of their label."""

    max_seq_length: int = shared_options.max_seq_length("with [CLS] and [SEP]")
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
        "sentences are in no meaningful order.",
        choices=OBJECTIVES,
    )
    random_next_sentence: bool = option(
        False, "The original's name of --sentence_objective=nsp."
    )
    single_segment_policy: str = option(
        "split",
        "What to do, with sop, with a chunk that is a single sentence. split: "
        "cut it at the start of a word into parts of at least a quarter; a "
        "sentence without such a place becomes one segment without a "
        "sentence-order label, and one of a single word is left out. drop: "
        "leave it out. random: pair it with a random segment and label 1, as "
        "in the original.",
        choices=SINGLE_SENTENCE_POLICIES,
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
        """The number of [CLS], and [SEP] after each segment."""
        return 2 if self.objective == "none" else 3


class Slice(NamedTuple):
    """Consecutive tokens of an array."""

    tokens: np.ndarray
    begin: int
    end: int


class Document(NamedTuple):
    """A document inside an array of tokens."""

    tokens: np.ndarray  # int [T], of this document and of others.
    # Where in it the sentences begin, and where the last one ends.
    bounds: Sequence[int]


class Corpus(Protocol):
    """All documents, for random second segments."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Document: ...


class Pair(NamedTuple):
    """Two segments that fit into a sequence.

    The first is never empty. The second is empty without a sentence objective,
    and for a single sentence that was not cut. The label is 0 if they are in
    the order of the document, 1 if they were exchanged or the second one is
    random; `layouts.NO_LABEL` if the second one is empty although there is a
    sentence objective.
    """

    first: Slice
    second: Slice
    label: int
    single_sentence: bool  # Whether the chunk held a single sentence.
    tokens_cut: int  # Dropped from the two to make them fit.


def make_pairs(
    corpus: Corpus,
    index: int,
    options: PairOptions,
    draws: random_streams.Stream,
    word_start: np.ndarray,
) -> Iterator[Pair | None]:
    """Yield the segment pairs of one document; this is a generator.

    The draws of a pair are made when it is requested, in the original's order.

    Source: the original's create_pretraining_data.create_instances_from_
    document.

    Example:
        sentences [5, 6], [7], [8, 9, 10], 128 tokens,
        draws: full length, first segment of 1 sentence, coin 0.3 (exchange)
        result = first [7, 8, 9, 10], second [5, 6], label 1

    Random segments come from the whole corpus. A single sentence is cut before
    a piece that starts a word, by `word_start`, bool [vocabulary]. A chunk that
    is left out gives None.
    """
    packer = _Packer(corpus, index, options, draws, word_start)
    while packer.begin < len(packer.bounds) - 1:
        yield packer.next_pair()


class _Packer:
    """Packs one document, from front to back."""

    def __init__(
        self,
        corpus: Corpus,
        index: int,
        options: PairOptions,
        draws: random_streams.Stream,
        word_start: np.ndarray,
    ) -> None:
        # The target length is drawn once for the whole document.
        self._corpus, self._index = corpus, index
        self._options, self._draws = options, draws
        self._word_start = word_start
        self._tokens, self.bounds = corpus[index]
        self.begin = 0  # The sentence with which the next chunk begins.
        self._limit = options.max_seq_length - options.num_special
        self._target = self._limit
        if draws.random() < options.short_seq_prob:
            self._target = draws.randint(_MIN_TARGET, self._limit)

    def next_pair(self) -> Pair | None:
        """Return the pair of the next chunk; None if the chunk is left out."""
        begin, bounds = self.begin, self.bounds
        self.begin = end = _end_of_chunk(bounds, begin, self._target)
        if self._options.objective == "none":
            nothing = Slice(self._tokens, bounds[end], bounds[end])
            whole = Slice(self._tokens, bounds[begin], bounds[end])
            return self._truncate(whole, nothing, 0, False)
        cut = self._draw_cut(begin, end)
        if cut is None:
            return None
        first = Slice(self._tokens, bounds[begin], cut)
        second = Slice(self._tokens, cut, bounds[end])
        return self._draw_label(first, second, end - begin == 1)

    def _draw_label(
        self, first: Slice, second: Slice, single_sentence: bool
    ) -> Pair:
        """Draw the label, and exchange the segments or draw another second one.

        The `second` is empty for a single sentence that was not cut.
        """
        objective, label = self._options.objective, 0
        is_empty = second.begin == second.end
        if is_empty and self._cuts_single:
            label = layouts.NO_LABEL
        elif is_empty or (objective == "nsp" and self._draws.random() < 0.5):
            length = self._target - (first.end - first.begin)
            second, label = self._draw_segment(length), 1
            # The unused sentences begin the next chunk.
            while self.bounds[self.begin] > first.end:
                self.begin -= 1
        elif objective == "sop" and self._draws.random() < 0.5:
            first, second, label = second, first, 1
        return self._truncate(first, second, label, single_sentence)

    def _truncate(
        self, first: Slice, second: Slice, label: int, single_sentence: bool
    ) -> Pair:
        """Make a pair of two segments, truncated to fit."""
        tokens = (first.end - first.begin) + (second.end - second.begin)
        first, second = truncate_pair(first, second, self._limit, self._draws)
        surplus = max(0, tokens - self._limit)
        return Pair(first, second, label, single_sentence, surplus)

    def _draw_cut(self, begin: int, end: int) -> int | None:
        """Draw where the first segment of a chunk ends; None drops the chunk.

        A single sentence that is not cut, or is paired with a random segment,
        is the first segment as a whole.
        """
        options, bounds = self._options, self.bounds
        if end - begin > 1:
            return bounds[begin + self._draws.randint(1, end - begin - 1)]
        if self._cuts_single:
            return self._draw_word_start(bounds[begin], bounds[end])
        policy = options.single_segment_policy
        if options.objective == "sop" and policy == "drop":
            return None
        return bounds[end]

    @property
    def _cuts_single(self) -> bool:
        """Whether a single sentence is cut in two, where it can be."""
        options = self._options
        is_split = options.single_segment_policy == "split"
        return is_split and options.objective == "sop"

    def _draw_word_start(self, begin: int, end: int) -> int | None:
        """Draw a word start that leaves enough tokens on both sides.

        Without one, return the end of the sentence. For a single word, which
        could not be predicted from any context, return None.
        """
        starts = np.flatnonzero(self._word_start[self._tokens[begin + 1 : end]])
        if not len(starts):
            return None
        shortest = math.ceil(_MIN_PART_SHARE * (end - begin))
        shortest = max(_MIN_PART_TOKENS, shortest)
        starts += begin + 1
        starts = starts[
            (starts >= begin + shortest) & (starts <= end - shortest)
        ]
        if not len(starts):
            return end
        return int(starts[self._draws.randint(0, len(starts) - 1)])

    def _draw_segment(self, length: int) -> Slice:
        """Take whole sentences from a random position up to a length.

        At least one sentence is taken.

        DIFFERS: if ten draws give the current document, which could give the
        true next sentence, the following one is used, and a corpus of one
        document is refused. The original uses the current document.
        """
        if len(self._corpus) == 1:
            policy = self._options.single_segment_policy
            cause = f"single_segment_policy={policy}"
            if self._options.objective == "nsp":
                cause = "sentence_objective=nsp"
            raise errors.UserError(
                f"`{cause}` takes second segments from other documents, but "
                "the text is one document. An empty line ends a document. "
                "Divide the text, or choose another value."
            )
        for _ in range(_DOCUMENT_DRAWS):
            other = self._draws.randint(0, len(self._corpus) - 1)
            if other != self._index:
                break
        else:
            other = (self._index + 1) % len(self._corpus)
        tokens, bounds = self._corpus[other]
        begin = self._draws.randint(0, len(bounds) - 2)
        end = _end_of_chunk(bounds, begin, length)
        # A slice would keep the block of the other document in memory.
        copied = tokens[bounds[begin] : bounds[end]].copy()
        return Slice(copied, 0, len(copied))


def _end_of_chunk(bounds: Sequence[int], begin: int, target: int) -> int:
    """Return the index after the sentence that fills a chunk to `target`."""
    full = bounds[begin] + target
    last = len(bounds) - 1
    for end in range(begin + 1, last):
        if bounds[end] >= full:
            return end
    return last


def truncate_pair(
    first: Slice, second: Slice, limit: int, draws: random_streams.Stream
) -> tuple[Slice, Slice]:
    """Shorten two segments until they fit, always the longer one.

    Source: the original's create_pretraining_data.truncate_seq_pair.

    Example:
        first = [5, 6, 7], second = [8, 9], limit = 4, draw 0.3 (front)
        result = [6, 7], [8, 9]

    The second is cut if both are equally long. There is one draw for each token
    that is dropped; below 0.5 it is one from the front.
    """
    lengths = first.end - first.begin, second.end - second.begin
    surplus = sum(lengths) - limit
    if surplus <= 0:
        return first, second
    is_front = [draws.random() < 0.5 for _ in range(surplus)]
    # At first the longer one is cut until both are equally long, then the
    # second and the first in turn.
    alone = abs(lengths[0] - lengths[1])
    of_first, of_second = is_front[alone + 1 :: 2], is_front[alone::2]
    if lengths[0] > lengths[1]:
        of_first += is_front[:alone]
    else:
        of_second += is_front[:alone]
    return _drop_ends(first, of_first), _drop_ends(second, of_second)


def _drop_ends(part: Slice, is_front: Sequence[bool]) -> Slice:
    """Drop one token of the front for each True, of the end for each False."""
    front = sum(is_front)
    return Slice(
        part.tokens, part.begin + front, part.end - len(is_front) + front
    )
