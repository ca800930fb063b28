"""Where words start in records, for masks of whole words.

Word starts follow either from the pieces, by a rule of
`masking.WORD_START_RULES`, or from the text, by a word segmenter. With a
segmenter, a token is twice the id, plus 1 where a word starts.
"""

from collections.abc import Mapping

import numpy as np
from absl import logging

from albert_tf.common import errors
from albert_tf.data import masking
from albert_tf.text import tokenization, wordpiece
from data_prep.vocabulary import letters
from data_prep.writer import segmenters

# Warnings are given above these shares.
_USUAL_UNKNOWN, _USUAL_LOST = 0.01, letters.MARKS_MATTER


def choose_rule(
    wanted: str | None,
    segmenter: str,
    tokenizer: tokenization.AnyTokenizer,
    counts: Mapping[str, int],
) -> str:
    """Return the rule of word starts that fits the text, and log it.

    A segmenter is the rule itself. The counts are those of `letters.count`.
    """
    if segmenter != segmenters.NONE:
        return segmenter
    if wanted is not None:
        return wanted
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        rule, reason = "wordpiece", "the vocabulary is a WordPiece one"
    else:
        share = letters.share(counts, "letters_not_a_to_z", "letter_marks")
        rule = "marker" if share > letters.OTHERS_MATTER else "english"
        reason = (
            f"{min(1, share):.3%} of the letters are not a to z or have marks"
        )
    logging.info("--word_start_rule=%s, because %s.", rule, reason)
    return rule


def check_rule(
    wanted: str | None, tokenizer: tokenization.AnyTokenizer
) -> None:
    """Refuse a rule for the other kind of vocabulary."""
    is_wordpiece = isinstance(tokenizer, wordpiece.WordPieceTokenizer)
    if wanted and (wanted == "wordpiece") != is_wordpiece:
        kind = "WordPiece" if is_wordpiece else "SentencePiece"
        raise errors.UserError(
            f"`word_start_rule={wanted}` does not fit a {kind} vocabulary: "
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


def of_tokens(vocabulary: masking.Vocabulary, rule: str) -> np.ndarray:
    """Tell for each possible token in blocks whether it starts a word, bool."""
    if rule in masking.WORD_START_RULES:
        return vocabulary.boundaries.astype(bool)
    return np.arange(2 * vocabulary.size) % 2 == 1


def warn_of_misfit(
    counts: Mapping[str, int], tokenizer: tokenization.AnyTokenizer
) -> None:
    """Warn if the vocabulary does not fit the text, by counts of all of it."""
    unknown = counts["unknown_pieces"] / max(1, counts["tokens"])
    if unknown > _USUAL_UNKNOWN:
        logging.warning(
            "%.1f %% of the pieces are %s: the vocabulary lacks characters or "
            "words of this text. Train a vocabulary on such text, or give the "
            "one that belongs to it.",
            100 * unknown,
            tokenizer.pieces[tokenizer.unk_id],
        )
    rule = tokenizer.normalization
    lost = letters.share(counts, letters.LOST[rule.kind])
    if rule.unicode_form in ("NFKD", "NFD") and lost > _USUAL_LOST:
        logging.warning(
            "The vocabulary's normalization removes the marks (accents, vowel "
            "signs) of %.1f %% of the letters of this text, or takes them "
            "apart; for English it is less than 0.1 %%. If the language needs "
            "them, train a vocabulary that keeps them; the programs that train "
            "vocabularies do so by default for such text.",
            100 * lost,
        )
