"""Whether length, segments and vocabulary fit an architecture."""

from albert_tf.common import errors
from albert_tf.data import span_corruption
from albert_tf.model.config import AlbertConfig
from albert_tf.text import tokenization


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


def load_tokenizer(
    vocabulary: tokenization.VocabularyOptions,
    config: AlbertConfig,
    config_file: str,
) -> tokenization.AnyTokenizer:
    """Load a vocabulary, and make sure that it is the model's."""
    tokenizer = tokenization.load(vocabulary)
    # A model of span corruption has ids that are no pieces.
    more = config.vocab_size - tokenizer.vocab_size
    if more not in (0, span_corruption.SENTINELS):
        raise errors.UserError(
            f"`{vocabulary.kind}={vocabulary.path}` has {tokenizer.vocab_size} "
            f"pieces, but {config_file} has vocab_size {config.vocab_size}. "
            "Use the vocabulary that the model was trained with."
        )
    return tokenizer
