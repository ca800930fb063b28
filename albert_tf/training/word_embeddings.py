"""Word embeddings that pretraining starts from, in a NumPy file."""

import dataclasses
import tokenize
from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from albert_tf.common import errors, files
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import replaced_tokens
from albert_tf.text import tokenization

_OPTION = "word_embeddings_file"
# Half of the distance between two float32 numbers above it is 0.001: smaller
# updates are rounded away.
_MAX_NUMBER = 2.0**14
# What reading a damaged file raises.
_DAMAGES = ValueError, SyntaxError, tokenize.TokenError, EOFError
_ADVICE = "Write it with data_prep.make_word_embeddings"


def read(path: str, config: AlbertConfig) -> np.ndarray:
    """Return the word embeddings of a file, float32 [V, E]."""
    files.require_file(path, _OPTION)
    table_shape = config.vocab_size, config.embedding_size
    try:
        with files.open_binary(path) as stream:
            # The shape first: a damaged one may ask for any memory.
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            fits = shape == table_shape and dtype.kind == "f"
            if fits:
                stream.seek(0)
                with np.errstate(over="ignore"):  # Infinite: refused below.
                    table = np.load(stream).astype(np.float32)
    except _DAMAGES as error:
        raise errors.UserError(
            f"`{_OPTION}={path}` is not a whole NumPy file. {_ADVICE}."
        ) from error
    if not fits:
        raise errors.UserError(
            f"`{_OPTION}={path}` holds {dtype} {list(shape)}. The model needs "
            f"a table of floating-point numbers, {list(table_shape)}: "
            "vocab_size and embedding_size. "
            f"{_ADVICE} and the config of the model."
        )
    if not np.isfinite(table).all():
        raise errors.UserError(
            f"`{_OPTION}={path}` holds numbers that are not finite. {_ADVICE}."
        )
    largest = float(np.abs(table).max(initial=0))
    if largest > _MAX_NUMBER:
        raise errors.UserError(
            f"`{_OPTION}={path}` holds the number {largest:.4g}. Above "
            f"{_MAX_NUMBER:,.0f}, float32 rounds updates of less than 0.001 "
            f"away, so it could not be trained. {_ADVICE}, or divide all by a "
            "power of ten."
        )
    return table


def reduce_width(table: np.ndarray, size: int) -> np.ndarray:
    """Return the table's projection on `size` columns, float32 [V, size].

    It is the best one for the products of rows: their first singular vectors,
    times the singular values.
    """
    if size > table.shape[1]:
        raise errors.UserError(
            f"`teacher` has word embeddings of {table.shape[1]} numbers, the "
            f"student's have {size}. Use an embedding_size of at most that, or "
            "`word_embeddings=random`."
        )
    if size == table.shape[1]:
        return table
    _, eigenvectors = np.linalg.eigh(table.T.astype(np.float64) @ table)
    return (table @ eigenvectors[:, : -size - 1 : -1]).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class PieceSources:
    """Of which rows of an old table the rows of a new one are made.

    Attributes:
        ids: For each new piece the old ones whose mean row it gets.
        num_kept: How many of the new pieces are the old ones.
    """

    ids: Sequence[Sequence[int]]
    num_kept: int

    def convert(self, table: np.ndarray) -> np.ndarray:
        """Return rows for the new pieces; of one old piece every bit."""
        return np.stack([table[ids].mean(0) for ids in self.ids])


def piece_sources(
    source: tokenization.AnyTokenizer, tokenizer: tokenization.AnyTokenizer
) -> PieceSources:
    """Return where the pieces of `tokenizer` come from, in those of `source`.

    A piece that both have keeps its row, if both are of one kind. Another one
    gets the mean row of the pieces that its text is encoded to. A special piece
    gets the row of its role, such as [MASK].
    """
    roles = "pad_id", "unk_id", "cls_id", "sep_id", "mask_id"
    counterparts = {getattr(tokenizer, n): getattr(source, n) for n in roles}
    ids = range(tokenizer.vocab_size)
    if type(source) is type(tokenizer):
        table_ids = source.pieces_to_ids(tokenizer.ids_to_pieces(ids))
        pairs = zip(ids, table_ids, strict=True)
        counterparts = {
            i: j for i, j in pairs if j != source.unk_id
        } | counterparts
    composed = [id_ for id_ in ids if id_ not in counterparts]
    texts = [tokenizer.decode([id_]) for id_ in composed]
    made = dict(zip(composed, source.encode_batch(texts), strict=True))
    sources = [
        [counterparts[id_]] if id_ in counterparts else made[id_] for id_ in ids
    ]
    return PieceSources(
        [source_ids or [source.unk_id] for source_ids in sources],
        len(counterparts),
    )


def convert_rows(
    table: np.ndarray,
    source: tokenization.AnyTokenizer,
    tokenizer: tokenization.AnyTokenizer,
) -> np.ndarray:
    """Return a table for the vocabulary of `tokenizer`; see `piece_sources`."""
    if source.fingerprint == tokenizer.fingerprint:
        return table
    return piece_sources(source, tokenizer).convert(table)


def assign(model: keras.Model, table: np.ndarray) -> None:
    """Assign word embeddings [V, E] to a model's encoder and generator.

    Where one has more rows than the other, those that both have.
    """
    encoders = [model.encoder]
    if isinstance(model, replaced_tokens.ReplacedTokenDetector):
        encoders.append(model.generator.encoder)
    for encoder in encoders:
        variable = encoder.embeddings.word_embeddings
        rows = variable.numpy()
        shared = min(len(rows), len(table))
        rows[:shared] = table[:shared]
        variable.assign(rows)
