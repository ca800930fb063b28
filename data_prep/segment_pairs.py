"""Pack the sentences of a document into pairs of segments with a label.

Step 3 of the walk. The label is the sentence-order label of ALBERT (§3.1,
"Inter-sentence coherence loss"): 1 when the two segments were exchanged.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence

from albert_tf import errors
from albert_tf.options import option
from data_prep.documents import Document, Sentence

# [CLS] in front, [SEP] after each segment.
NUM_SPECIAL = 3
# The shortest target length that the original draws.
_MIN_TARGET = 2
# How often the original tries to hit another document than the current one.
_DOCUMENT_DRAWS = 10


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How long pairs are and what their label says."""

    max_seq_length: int = option(
        512, "Longest sequence in tokens, [CLS] and both [SEP] included."
    )
    short_seq_prob: float = option(
        0.1,
        "Probability, drawn once per document and pass, of a shorter target "
        "length.",
    )
    random_next_sentence: bool = option(
        False,
        "False: sentence-order prediction, label 1 for exchanged segments. "
        "True: BERT's next-sentence prediction, label 1 for a random second "
        "segment.",
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            errors.UserError: A value is out of range.
        """
        smallest = NUM_SPECIAL + _MIN_TARGET
        if self.max_seq_length < smallest:
            raise errors.UserError(
                f"--max_seq_length={self.max_seq_length} is too small. [CLS], "
                f"two [SEP] and one token a segment need {smallest}. Use 128 "
                "or 512."
            )
        if not 0 <= self.short_seq_prob <= 1:
            raise errors.UserError(
                f"--short_seq_prob={self.short_seq_prob} is not a probability. "
                "Allowed are 0 to 1. Use 0.1, the original's value."
            )


@dataclasses.dataclass(frozen=True)
class SegmentPair:
    """Two segments that fit into a sequence, neither of them empty.

    Attributes:
        first: Piece ids of the segment that is read first.
        second: Piece ids of the other one.
        label: 0 when they stand in the order of the document, 1 when they were
            exchanged or the second one is random.
        lone: Whether the chunk held a single sentence, so that the second
            segment had to be taken from elsewhere.
    """

    first: Sentence
    second: Sentence
    label: int
    lone: bool


def make_pairs(
    documents: Sequence[Document],
    index: int,
    options: PairOptions,
    rng: random.Random,
) -> Iterator[SegmentPair]:
    """Yield the segment pairs of one document; this is a generator.

    Each pair takes its draws from `rng` when it is asked for. The original
    masks a pair before it forms the next one; a caller that wants the
    original's numbers does the same.

    Source: the original's create_pretraining_data.create_instances_from_
    document.

    Example:
        documents = [[[5, 6], [7], [8, 9, 10]], ...], index = 0, 128 tokens,
        draws: full length, first segment of 1 sentence, coin 0.3 (exchange)
        result = SegmentPair([7, 8, 9, 10], [5, 6], label=1, lone=False)

    Args:
        documents: All documents, non-empty; random segments come from them.
        index: Which of them to pack.
        options: Lengths and kind of label.
        rng: Source of all draws.

    Yields:
        Pairs that hold at most `max_seq_length - 3` pieces together.
    """
    document = documents[index]
    room = options.max_seq_length - NUM_SPECIAL
    # One draw for the whole document (D6 of the specification).
    target = room
    if rng.random() < options.short_seq_prob:
        target = rng.randint(_MIN_TARGET, room)
    begin = 0
    while begin < len(document):
        end = _end_of_chunk(document, begin, target)
        cut = 1 if end - begin == 1 else rng.randint(1, end - begin - 1)
        first = _join(document[begin : begin + cut])
        lone = end - begin == 1
        if lone or (options.random_next_sentence and rng.random() < 0.5):
            second = _random_segment(documents, index, target - len(first), rng)
            label = 1
            end = begin + cut  # The unused sentences begin the next chunk.
        else:
            second = _join(document[begin + cut : end])
            label = 0
            if not options.random_next_sentence and rng.random() < 0.5:
                first, second, label = second, first, 1
        first, second = truncate_pair(first, second, room, rng)
        yield SegmentPair(first, second, label, lone)
        begin = end


def _end_of_chunk(document: Document, begin: int, target: int) -> int:
    """Return the index after the sentence that fills a chunk to `target`."""
    length = 0
    for end in range(begin, len(document)):
        length += len(document[end])
        if length >= target:
            return end + 1
    return len(document)


def _join(sentences: Sequence[Sentence]) -> Sentence:
    return [piece for sentence in sentences for piece in sentence]


def _random_segment(
    documents: Sequence[Document],
    index: int,
    length: int,
    rng: random.Random,
) -> Sentence:
    """Take whole sentences from a random place until `length` is reached.

    Args:
        documents: All documents.
        index: The document to avoid. After ten draws that hit it, it is taken
            nevertheless, so a corpus of one document pairs with itself.
        length: Wanted number of pieces; one sentence is taken in any case.
        rng: Source of the draws.

    Returns:
        At least one sentence; the last one may go over `length`.
    """
    for _ in range(_DOCUMENT_DRAWS):
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    document = documents[other]
    begin = rng.randint(0, len(document) - 1)
    return _join(document[begin : _end_of_chunk(document, begin, length)])


def truncate_pair(
    first: Sentence, second: Sentence, room: int, rng: random.Random
) -> tuple[Sentence, Sentence]:
    """Shorten two segments until they fit, always the longer one.

    Source: the original's create_pretraining_data.truncate_seq_pair.

    Example:
        first = [5, 6, 7], second = [8, 9], room = 4, draw 0.3 (front)
        result = ([6, 7], [8, 9])

    Args:
        first: Piece ids of the first segment.
        second: Piece ids of the second one; it is cut when both are equal.
        room: Pieces that both may have together, at least 2.
        rng: One draw per dropped piece: below 0.5 from the front.

    Returns:
        The segments; neither is empty if neither was.
    """
    bounds = [0, len(first)], [0, len(second)]
    lengths = [len(first), len(second)]
    for _ in range(len(first) + len(second) - room):
        longer = 0 if lengths[0] > lengths[1] else 1
        lengths[longer] -= 1
        if rng.random() < 0.5:
            bounds[longer][0] += 1
        else:
            bounds[longer][1] -= 1
    return first[slice(*bounds[0])], second[slice(*bounds[1])]
