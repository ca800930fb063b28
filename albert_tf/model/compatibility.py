"""Whether length, segments and vocabulary fit an architecture."""

import functools

from absl import logging

from albert_tf.common import errors
from albert_tf.model.config import AlbertConfig
from albert_tf.text import tokenization

_MOST_UNUSED = 128  # Or an eighth of the pieces: more is another vocabulary.


def check_length(
    max_seq_length: int, config: AlbertConfig, config_file: str
) -> None:
    """Make sure that there are positions for the length, in tokens."""
    if max_seq_length > config.max_position_embeddings:
        raise errors.UserError(
            f"`max_seq_length={max_seq_length}` is longer than the "
            f"{config.max_position_embeddings} positions of {config_file}. Use "
            "at most that, or a model with more max_position_embeddings."
        )


def check_pairs(config: AlbertConfig, config_file: str) -> None:
    """Make sure that a second text has a segment of its own."""
    if config.type_vocab_size < 2:
        raise errors.UserError(
            f"{config_file} has type_vocab_size {config.type_vocab_size}, but "
            "in pairs of texts the second has the segment 1. Use a model with "
            "type_vocab_size 2."
        )


@functools.cache  # Says it once.
def _note_unused(count: int, config_file: str, path: str) -> None:
    logging.warning(
        "%d rows of vocab_size in %s belong to no piece of %s and are not "
        "used. If this is another model's vocabulary, give the right one.",
        count,
        config_file,
        path,
    )


def load_tokenizer(
    vocabulary: tokenization.VocabularyOptions,
    config: AlbertConfig,
    config_file: str,
) -> tokenization.AnyTokenizer:
    """Load a vocabulary, and make sure that it is the model's.

    Some rows of the model may be no piece's: of span corruption, of tables that
    are padded, and of tokens that were added for other texts.
    """
    tokenizer = tokenization.load(vocabulary)
    unused = config.vocab_size - tokenizer.vocab_size
    most = max(_MOST_UNUSED, tokenizer.vocab_size // 8)
    if 0 < unused <= most:
        _note_unused(unused, config_file, f"{vocabulary.path}")
    elif unused:
        raise errors.UserError(
            f"`{vocabulary.kind}={vocabulary.path}` has {tokenizer.vocab_size} "
            f"pieces, but {config_file} has vocab_size {config.vocab_size}. "
            "Use the vocabulary that the model was trained with."
        )
    return tokenizer
