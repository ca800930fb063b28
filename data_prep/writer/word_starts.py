"""Where words start in records, for masks of whole words.

Word starts follow either from the pieces, by a rule of
`masking.WORD_START_RULES`, or from the text, by a word segmenter. With a
segmenter, a token is twice the id, plus 1 where a word starts.

In Chinese and Japanese the vocabulary does not show where words begin, so a
segmenter finds them: jieba for Chinese, as for the Chinese models with
whole-word masks; MeCab with the dictionary UniDic for Japanese, through
fugashi. Both are extras. Both use rules and dictionaries of their packages, so
a text always has the same words.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, imports, packages
from albert_tf.data import masking
from albert_tf.text import tokenization, wordpiece
from data_prep.vocabulary import letters

metadata = imports.later("importlib.metadata")

# Warnings are given above these shares.
_USUAL_UNKNOWN, _USUAL_LOST = 0.01, letters.MARKS_MATTER

NONE = "none"
# The packages of each, as pip names them.
_PACKAGES = {"jieba": ("jieba",), "mecab": ("fugashi", "unidic-lite")}
SEGMENTERS = (NONE, *_PACKAGES)

# Splits a text into words, which may leave out white space.
Segment = Callable[[str], Iterable[str]]


def versions(name: str) -> dict[str, str]:
    """Return the versions of a segmenter's packages; nothing for "none"."""
    if name == NONE:
        return {}
    return {p: metadata.version(p) for p in _PACKAGES[name]}


@functools.cache  # Once in each process: dictionaries are large.
def load(name: str) -> Segment:
    with warnings.catch_warnings():
        # jieba's own regular expressions and imports cause warnings.
        warnings.simplefilter("ignore")
        library = packages.require(
            *(p.replace("-", "_") for p in _PACKAGES[name]),
            install=f"pip install {' '.join(_PACKAGES[name])}",
            argument=f"word_segmenter={name}",
        )
    return {"jieba": _load_jieba, "mecab": _load_mecab}[name](library)


def _load_jieba(jieba: Any) -> Segment:
    tokenizer = jieba.Tokenizer()
    # `initialize` would read words from a file in the folder for temporary
    # files, which anybody may have written.
    dictionary = tokenizer.get_dict_file()
    with dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    return tokenizer.cut


def _load_mecab(fugashi: Any) -> Segment:
    tagger = fugashi.Tagger("-Owakati")

    def cut(text: str) -> Iterable[str]:
        return str(tagger.parse(text.replace("\0", " "))).split()

    return cut


def word_starts(text: str, cut: Segment) -> np.ndarray:
    """Return which characters of a text begin a word.

    Example:
        "今天 很好" of the words "今天", " ", "很", "好":
        [True, False, False, True, True, False]

    The last one, behind the text, is False, and so is white space.
    """
    starts = np.zeros(len(text) + 1, bool)
    end = 0
    for word in cut(text):
        visible = word.strip()
        if not visible:
            continue
        begin = text.find(visible, end)
        if begin < 0:
            continue  # Changed by the segmenter; part of the word before.
        starts[begin] = not masking.joins_what_precedes(visible)
        end = begin + len(visible)
    return starts


def next_visible(text: str) -> np.ndarray:
    """Return, for each character, the next one that is no white space.

    An index, its own or a larger one, at most the length: int [length + 1].
    """
    is_space = np.array([c.isspace() for c in text] + [False])
    after = np.where(is_space, len(text), np.arange(len(text) + 1))
    return np.minimum.accumulate(after[::-1])[::-1]


def mark_pieces(
    text: str, pieces: tuple[list[str], np.ndarray, np.ndarray], cut: Segment
) -> np.ndarray:
    """Return which pieces of a text begin a word.

    A piece that spans two words joins them, and a single "▁" belongs to the
    piece after it. So a mask never covers a part of a word.

    Example:
        text "今天很好" of the words "今天", "很", "好" and the pieces "▁今",
        "天很", "好": [True, False, True]

    The pieces come with where each begins and ends in the text, int [pieces],
    from `encode_with_offsets`. The result is bool [pieces].
    """
    names, begins, ends = pieces
    first = next_visible(text)[begins]
    is_visible = first < ends
    marks = word_starts(text, cut)[first] & is_visible
    is_marker = ~is_visible & np.array([n.startswith("▁") for n in names], bool)
    marks[1:] &= ~is_marker[:-1]
    marks |= is_marker
    marks[:1] = True
    return marks


def choose_rule(
    requested: str | None,
    segmenter: str,
    tokenizer: tokenization.AnyTokenizer,
    counts: Mapping[str, int],
) -> str:
    """Return the rule of word starts that fits the text, and log it.

    A segmenter is the rule itself. The counts are those of `letters.count`.
    """
    if segmenter != NONE:
        return segmenter
    if requested is not None:
        return requested
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        rule, reason = "wordpiece", "the vocabulary is a WordPiece one"
    else:
        rate = letters.rate(counts, "letters_not_a_to_z", "letter_marks")
        rule = "marker" if rate > letters.OTHERS_MATTER else "english"
        reason = (
            f"{min(1, rate):.3%} of the letters are not a to z or have marks"
        )
    logging.info("--word_start_rule=%s, because %s.", rule, reason)
    return rule


def check_rule(
    requested: str | None, tokenizer: tokenization.AnyTokenizer
) -> None:
    """Refuse a rule for the other kind of vocabulary."""
    is_wordpiece = isinstance(tokenizer, wordpiece.WordPieceTokenizer)
    if requested and (requested == "wordpiece") != is_wordpiece:
        kind = "WordPiece" if is_wordpiece else "SentencePiece"
        raise errors.UserError(
            f"`word_start_rule={requested}` does not fit a {kind} vocabulary: "
            "words would start in the wrong places. Leave the option out."
        )


def make_vocabulary(
    tokenizer: tokenization.AnyTokenizer, rule: str
) -> masking.Vocabulary:
    """Return the vocabulary of a tokenizer in the form that masking uses.

    With a segmenter as the rule, its word starts are not used.
    """
    starts = masking.WORD_START_RULES.get(rule, lambda piece: False)
    return masking.Vocabulary.from_pieces(
        tokenizer.pieces,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        starts_word=starts,
    )


def starts_of_tokens(vocabulary: masking.Vocabulary, rule: str) -> np.ndarray:
    """Return whether each possible token of blocks starts a word, bool."""
    if rule in masking.WORD_START_RULES:
        return vocabulary.boundaries.astype(bool)
    return np.arange(2 * vocabulary.size) % 2 == 1


def warn_of_misfit(
    counts: Mapping[str, int], tokenizer: tokenization.AnyTokenizer
) -> None:
    """Warn if the vocabulary does not fit the text, by counts of its pieces."""
    rate_of_unknown = counts["unknown_pieces"] / max(1, counts["tokens"])
    if rate_of_unknown > _USUAL_UNKNOWN:
        logging.warning(
            "%.1f %% of the pieces are %s: the vocabulary lacks characters or "
            "words of this text. Train a vocabulary on such text, or give the "
            "one that belongs to it.",
            100 * rate_of_unknown,
            tokenizer.pieces[tokenizer.unk_id],
        )
    rule = tokenizer.normalization
    rate_of_lost = letters.rate(counts, letters.LOST[rule.kind])
    if rule.unicode_form in ("NFKD", "NFD") and rate_of_lost > _USUAL_LOST:
        logging.warning(
            "The vocabulary's normalization removes the marks (accents, vowel "
            "signs) of %.1f %% of the letters of this text, or takes them "
            "apart; for English it is less than 0.1 %%. If the language needs "
            "them, train a vocabulary that keeps them; the programs that train "
            "vocabularies do so by default for such text.",
            100 * rate_of_lost,
        )
