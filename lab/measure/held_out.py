"""The masked-LM loss on held-out text, comparable across vocabularies.

The text is cut into windows of consecutive words, words being what stands
between white space. In each window 15 % of the words are drawn, by the seed,
before anything is divided into pieces. So every model sees the same words and
predicts the same words, whatever its vocabulary and its own mask rate.

All pieces of a drawn word are hidden at once. Each is predicted from the words
that are not hidden; nothing is kept or exchanged, as in training. With p for
these probabilities, and k for the number of pieces of a word,

    bits per byte = (sum of -log2 p + sum of -log2 f(k)) / bytes

where f(k) is the share of the hidden words that have k pieces, and the bytes
are those of the hidden words in UTF-8, without spaces.

This is the length of a code from which the hidden words can be read if the
others are known: first how many pieces a word has, then the pieces. The second
sum is there because the model is told how many pieces are hidden, which says
more about a word the smaller the vocabulary is. Its f is fitted to the words
that it codes; the cost of saying f, some bytes, is left out.

What it is not:

- The entropy of the text or the perplexity of a language model: most words are
  visible, on both sides.
- The best code of the model: the pieces of a word are coded independently of
  each other, which costs more where words have more pieces.
- Comparable between cased and uncased vocabularies, or with and without
  accents: what cleaning removes need not be predicted. An unknown piece stands
  for any character; compare only where `unknown_pieces` is near 0.
- Comparable with the loss in a run's log, which is per piece, for other masks.
"""

import collections
import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.common import errors
from lab.measure import scoring

SHARE = 0.15  # Of the words.


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive words of a document."""

    words: tuple[str, ...]
    hidden: tuple[int, ...]


def cut(text: str, size: int) -> Iterator[tuple[str, ...]]:
    r"""Yield windows; the rest of each document is left out.

    Example:
        cut("A b.\nC d e.\n\nF.", 2) yields ("A", "b."), ("C", "d")
    """
    words: list[str] = []
    for line in text.splitlines():
        words = [*words, *line.split()] if line.strip() else []
        while len(words) >= size:
            yield tuple(words[:size])
            words = words[size:]


def draw(text: str, size: int, count: int, seed: int) -> list[Window]:
    """Draw windows of a text, and the words to hide."""
    windows = list(cut(text, size))
    if not windows:
        raise errors.UserError(
            f"The text has no document of {size} words or more. Give a longer "
            "one."
        )
    random = np.random.default_rng(seed)
    count = min(count, len(windows))
    chosen = np.sort(random.choice(len(windows), count, replace=False))
    return [_hide(windows[number], random) for number in chosen]


def _hide(words: tuple[str, ...], random: np.random.Generator) -> Window:
    """Draw the words to hide: on average `SHARE` of them, at least one."""
    count = max(1, int(SHARE * len(words) + random.random()))
    hidden = np.sort(random.choice(len(words), count, replace=False))
    return Window(words, tuple(hidden.tolist()))


def measure(
    masked_lm: scoring.MaskedLm, windows: Sequence[Window]
) -> dict[str, float]:
    """Return bits per byte, and what they are made of.

    Returns:
        `bits_per_byte`; its two parts, `piece_bits_per_byte` and
        `count_bits_per_byte`; `word_accuracy`, the share of the hidden words
        all of whose pieces are the most likely ones, comparable across
        vocabularies; `piece_accuracy`, the share of the hidden pieces, which
        is not; and counts.
    """
    queries, sizes, num_bytes = [], [], 0
    for window in windows:
        query, lengths = _query(masked_lm, window)
        if lengths:
            queries.append(query)
            sizes.append([size for _, size in lengths])
            num_bytes += sum(len(word.encode()) for word, _ in lengths)
    answers = masked_lm.score(queries)
    words = [count for counts in sizes for count in counts]
    piece_bits = -sum(float(answer.log2.sum()) for answer in answers)
    count_bits = code_length(words)
    return {
        "bits_per_byte": (piece_bits + count_bits) / num_bytes,
        "piece_bits_per_byte": piece_bits / num_bytes,
        "count_bits_per_byte": count_bits / num_bytes,
        **_accuracies(answers, sizes),
        "windows": len(queries),
        "hidden_words": len(words),
        "hidden_pieces": sum(words),
        "hidden_bytes": num_bytes,
        "unknown_pieces": sum(
            query.ids[place] == masked_lm.tokenizer.unk_id
            for query in queries
            for place in query.hidden
        ),
    }


def _accuracies(
    answers: Sequence[scoring.Scores], sizes: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return the shares of the hidden words and pieces that are right."""
    words = [
        part.all()
        for answer, counts in zip(answers, sizes, strict=True)
        for part in np.split(answer.right, np.cumsum(counts)[:-1])
    ]
    pieces = np.concatenate([answer.right for answer in answers])
    return {
        "word_accuracy": float(np.mean(words)),
        "piece_accuracy": float(pieces.mean()),
    }


def _query(
    masked_lm: scoring.MaskedLm, window: Window
) -> tuple[scoring.Query, list[tuple[str, int]]]:
    """Return the pieces of a window; each hidden word and its pieces.

    A hidden word of which cleaning leaves nothing is left out.
    """
    ids: list[int] = []
    places: list[int] = []
    lengths = []
    for number, word in enumerate(window.words):
        pieces = masked_lm.tokenizer.encode(word)
        if number in window.hidden and pieces:
            places += range(len(ids), len(ids) + len(pieces))
            lengths.append((word, len(pieces)))
        ids += pieces
    return scoring.Query(ids, places), lengths


def code_length(values: Sequence[int]) -> float:
    """Return the bits of a code fitted to the values.

    Example:
        [1, 1, 1, 2] takes 3 * -log2(3/4) + -log2(1/4) = 3.245 bits
    """
    counts = collections.Counter(values).values()
    return -sum(n * math.log2(n / len(values)) for n in counts)
