r"""Train a WordPiece vocabulary: raw text to PREFIX.txt, one piece a line.

    python -m data_prep.train_wordpiece \
        --input_file='corpus/*.txt' --output_prefix=vocab

The result is what `--vocab_file=vocab.txt` takes. Text is cleaned and cut into
words as BERT does it; PREFIX.normalization.json says how. Chinese characters
are words of their own. With `--unit=character` every other character is a
piece, too, as in many Chinese models.

Pieces are learned by the package `tokenizers`, an extra. The result depends on
the text and the options only, not on the machine.
"""

import bisect
import collections
import dataclasses
import functools
import itertools
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from absl import logging

if __package__ in (None, ""):  # Run as a script: find the two packages.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from albert_tf.common import errors, options, packages, ranges
from albert_tf.text import normalization, wordpiece, wordpiece_rules
from data_prep.vocabulary import text

UNITS = ("wordpiece", "character")
_REPEATS = 1000  # Times that a word stands in a line for the trainer.
_import_tokenizers = functools.partial(
    packages.require,
    "tokenizers",
    "tokenizers.pre_tokenizers",
    "tokenizers.trainers",
    install="pip install tokenizers; or use `unit=character`",
    argument="unit=wordpiece",
)


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(Data="vocab_size")
class Options(text.TrainingOptions):
    """Options of the script."""

    vocab_size: int = options.option(
        30000,
        "Most pieces; a small text gives fewer.",
        within=ranges.Range(16, ranges.MOST_PIECES),
    )
    unit: str = options.option(
        "wordpiece",
        "wordpiece: words are cut into the pieces that make text short. "
        "character: every character is a piece, for Chinese.",
        choices=UNITS,
    )


def count_words(
    sentences: Iterable[str],
) -> tuple[collections.Counter[str], int]:
    """Count each word of cleaned text; and all that become [UNK]: too long."""
    words: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        words.update(wordpiece_rules.split_words(sentence))
    too_long = [w for w in words if len(w) > wordpiece_rules.LONGEST_WORD]
    return words, sum(map(words.pop, too_long))


def choose_characters(words: Mapping[str, int], coverage: float) -> list[str]:
    """Return the most frequent characters, up to a fraction of the text.

    Example, of words and how often each occurs:
        choose_characters({"ab": 9, "c": 1}, 0.9) = ["a", "b"]
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, number in words.items():
        for character in word:
            counts[character] += number
    ordered = sorted(counts, key=lambda c: (-counts[c], c))
    before = itertools.accumulate((counts[c] for c in ordered), initial=0)
    return ordered[: bisect.bisect_left([*before], coverage * counts.total())]


def single_pieces(characters: Sequence[str]) -> list[str]:
    """Return the special pieces, and one or two for each character.

    A character that may continue a word has a second piece, so that none of the
    characters makes a word unknown.
    """
    return [
        *wordpiece.SPECIAL_PIECES,
        *characters,
        *(
            wordpiece_rules.CONTINUATION + c
            for c in characters
            if not wordpiece_rules.is_cjk(c)
            and not wordpiece_rules.is_punctuation(c)
        ),
    ]


def learn_pieces(
    words: Mapping[str, int], pieces: Sequence[str], vocab_size: int
) -> list[str]:
    """Return `pieces`, and longer ones that are learned from the words.

    The trainer gives characters arbitrary ids; as its special tokens they keep
    the ids of `single_pieces`.
    """
    library = _import_tokenizers()
    tokenizer = library.Tokenizer(library.models.WordPiece())
    tokenizer.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=list(pieces), show_progress=False
    )
    tokenizer.train_from_iterator(_repeat_words(words), trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _repeat_words(words: Mapping[str, int]) -> Iterator[str]:
    """Yield lines that repeat each word as often as it was counted."""
    for word in sorted(words):
        full, others = divmod(words[word], _REPEATS)
        for _ in range(full):
            yield " ".join([word] * _REPEATS)
        if others:
            yield " ".join([word] * others)


def run(settings: Options) -> None:
    if settings.unit == "wordpiece":
        _import_tokenizers()  # Before all text is read.
    prepared = text.prepare(settings, normalization.WORDPIECE, (".txt",))
    words, too_long = count_words(
        map(text.make_cleaner(prepared.rule), prepared.lines)
    )
    if not words:
        raise errors.UserError(
            f"`input_file={settings.input_file}` holds no word of at most "
            f"{wordpiece_rules.LONGEST_WORD} characters ({too_long} are "
            "longer). Give files with text."
        )
    characters = choose_characters(words, prepared.coverage)
    alphabet = set(characters)
    usable = {w: n for w, n in words.items() if alphabet.issuperset(w)}
    pieces = single_pieces(characters)
    if len(pieces) > settings.vocab_size:
        raise text.vocab_too_small_error(len(pieces), settings.vocab_size)
    if settings.unit == "wordpiece":
        pieces = learn_pieces(usable, pieces, settings.vocab_size)
    if wordpiece.marked_pieces(pieces) < 0:
        raise errors.UserError(
            f"`input_file={settings.input_file}` holds text that was cut into "
            'pieces such as "▁the". Give it as it was before.'
        )
    vocab_file = f"{settings.output_prefix}.txt"
    lines = "".join(f"{piece}\n" for piece in pieces)
    normalization.write(vocab_file, prepared.rule, {vocab_file: lines.encode()})
    text.warn_of_dropped(
        "words",
        {
            f"of more than {wordpiece_rules.LONGEST_WORD} characters": too_long,
            "with characters that are too rare for a piece": (
                words.total() - sum(usable.values())
            ),
        },
    )
    logging.info("%d words read, %d different", words.total(), len(words))
    prepared.report(vocab_file)


if __name__ == "__main__":
    options.run_script(run, Options)
