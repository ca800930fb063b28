"""Tokenization as TensorFlow operations, for a model that takes raw text.

`make_graph_tokenizer` makes the TensorFlow version of a tokenizer, which gives
the same ids. The services put it, and `packing_ops.pack_inputs`, in front of
the network of a SavedModel. Loading that SavedModel needs tensorflow and
tensorflow_text only.

Tokenizers take texts as string [batch], UTF-8, and return ids as int32 [batch,
(pieces)].
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import (
    cleaning,
    normalization,
    offset_ops,
    text_ops,
    tokenization,
    wordpiece,
    wordpiece_rules,
)
from albert_tf.text.offset_ops import Ranges

# Ids of pieces, and where each begins and ends in its text, in bytes.
Offsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]


class GraphTokenizer(tf.Module):
    """The TensorFlow version of a `tokenization.Tokenizer`.

    Make it after any call of `tf.random.set_seed`, which destroys the existing
    SentencePiece resources of the process.
    """

    def __init__(
        self,
        tokenizer: tokenization.Tokenizer,
        *,
        with_masks: bool = True,
        with_offsets: bool = False,
    ) -> None:
        """Copy the vocabulary, its rules and its flags.

        `tokenize_with_masks` needs the vocabulary a second time, and
        `tokenize_with_offsets` the rules.
        """
        super().__init__(name="graph_tokenizer")
        self._folding = (tokenizer.do_lower_case, tokenizer.keep_accents)
        self._mask_id = tokenizer.mask_id
        self._word_start_id = tokenizer.word_start_id
        # What replaces each id, mostly the id itself.
        self._replacements = _table(
            tokenizer.digit_comma_ids.get(id_, (id_,))
            for id_ in range(tokenizer.vocab_size)
        )
        self._plain = _sentencepiece(tokenizer.model_bytes, "plain")
        self._masked = None
        if with_masks:
            masked_model = tokenizer.masked_model_bytes
            self._masked = _sentencepiece(masked_model, "masked")
        self._aligner = _Aligner(tokenizer) if with_offsets else None

    def tokenize(
        self, texts: tf.Tensor, enough: int | None = None
    ) -> tf.RaggedTensor:
        """Clean and encode texts; the ids of `Tokenizer.encode`.

        Example, with 30k-clean.model:
            tokenize(["This is a Test", ""]) = [[48, 25, 21, 1289], []]

        Args:
            enough: Pieces after which the others may be left out.
        """
        return _tokenize_parts(self._tokenize, texts, enough)[0]

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor]:
        ids = self._plain.tokenize(self.clean(texts))
        return (self._split_digit_commas(ids),)

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """Clean texts as `Tokenizer.clean` does."""
        return text_ops.normalize(texts, *self._folding)

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Offsets:
        """Clean and encode texts, and return the offsets of the pieces.

        As `Tokenizer.encode_with_offsets`, but offsets count bytes.

        Example, with 30k-clean.model:
            tokenize_with_offsets(["Café ½"]) = the ids of
                ["▁cafe", "▁1", "⁄", "2"], [[0, 5, 6, 6]], [[5, 8, 8, 8]]

        Returns:
            The ids of `tokenize`; for each the index of its first byte in the
            original text, and that of its last byte plus 1; all int32 [batch,
            (pieces)].
        """
        return _tokenize_parts(self._tokenize_with_offsets, texts)

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Offsets:
        assert self._aligner, "Make the tokenizer with with_offsets=True."
        cleaned = self.clean(texts)
        ids = self._plain.tokenize(cleaned)
        # Has the same vocabulary; cuts runs of unknown characters, too.
        as_texts = copy.copy(self._plain)
        as_texts.out_type = tf.string
        lengths = self._aligner.lengths(ids, as_texts.tokenize(cleaned))
        ranges = self._aligner.character_ranges(
            cleaned, self._sources(texts), tf.strings.length(texts)
        )
        starts, ends = offset_ops.join_ranges(
            lengths, ranges, tf.strings.length(texts)
        )
        return self._split_digit_commas(ids), starts, ends

    def _sources(self, texts: tf.Tensor) -> Ranges:
        """Return where each byte of the cleaned texts comes from.

        Source: `offsets.cleaned_ranges`.
        """
        _, keep_accents = self._folding
        if keep_accents:
            units = offset_ops.to_composed_units(texts)
        else:
            units = offset_ops.to_characters(texts)
        folded = units.each(
            lambda t: text_ops.fold_characters(t, *self._folding)
        )
        is_kept = offset_ops.kept_spaces(units, folded == " ")
        is_space = units.each(text_ops.matches(str.isspace))
        widths = tf.where(
            is_space, tf.cast(is_kept, tf.int32), tf.strings.length(folded)
        )
        return units.sources(widths)

    def tokenize_with_masks(
        self, texts: tf.Tensor, enough: int | None = None
    ) -> tf.RaggedTensor:
        """Encode texts with masks; the ids of `Tokenizer.encode_with_masks`.

        Example, with 30k-clean.model:
            tokenize_with_masks(["It is [MASK]."]) = [[32, 25, 4, 9]]
        """
        return _tokenize_parts(self._tokenize_with_masks, texts, enough)[0]

    def _tokenize_with_masks(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor]:
        assert self._masked, "Make the tokenizer with with_masks=True."
        texts = self._fold_between_masks(
            text_ops.collapse_spaces(text_ops.valid_utf8(texts))
        )
        ids = self._split_digit_commas(self._masked.tokenize(texts))
        values, rows = ids.flat_values, ids.value_rowids()
        is_start = values[:-1] == self._word_start_id
        is_before_mask = (values[1:] == self._mask_id) & (rows[1:] == rows[:-1])
        keep = tf.concat([~(is_start & is_before_mask), [True]], axis=0)
        keep = keep[: tf.size(values)]  # No piece at all: nothing to keep.
        return (tf.ragged.boolean_mask(ids, ids.with_flat_values(keep)),)

    def _fold_between_masks(self, texts: tf.Tensor) -> tf.Tensor:
        """Fold characters, but leave each `[MASK]` as it is.

        A marker is put before every part, and the first one is cut off again,
        because `reduce_join` drops the separator after an empty first part.
        """
        marker = tokenization.MASK
        parts = tf.strings.split(texts, marker)
        folded = text_ops.fold_characters(parts.flat_values, *self._folding)
        marked = parts.with_flat_values(marker + folded)
        joined = tf.strings.reduce_join(marked, axis=-1)
        return tf.strings.substr(joined, len(marker), tf.int32.max)

    def _split_digit_commas(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        return tf.gather(_ragged(self._replacements), ids).merge_dims(1, 2)


def _tokenize_parts(
    cut: Callable[[tf.Tensor], tuple[tf.RaggedTensor, ...]],
    texts: tf.Tensor,
    enough: int | None = None,
) -> Any:
    """Do what `cleaning.encode` does, for many texts.

    `cut` returns ids, and perhaps where pieces begin and end; see `Offsets`.
    """

    def of_parts() -> tuple[tf.RaggedTensor, ...]:
        parts = text_ops.split_parts(texts)
        if enough is not None:
            lacks = cut(parts[:, 0])[0].row_lengths() < enough
            is_first = tf.range(tf.shape(parts)[1]) == 0
            parts = tf.where(lacks[:, None] | is_first, parts, "")
        begin = tf.cumsum(tf.strings.length(parts), 1, exclusive=True)
        begin = tf.reshape(begin, [-1])
        ids, *edges = cut(tf.reshape(parts, [-1]))
        offset = tf.gather(begin, ids.value_rowids())
        columns = ids.values, *(edge.values + offset for edge in edges)
        splits = ids.row_splits[:: tf.shape(parts)[1]]
        return tuple(
            tf.RaggedTensor.from_row_splits(column, splits, validate=False)
            for column in columns
        )

    if not tf.executing_eagerly():  # One graph for the three calls.
        spec = [tf.TensorSpec([None], tf.string)]
        cut = tf.function(cut, input_signature=spec, autograph=False)
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    is_long = tf.reduce_any(length > cleaning.LONGEST_PART)
    return tf.cond(is_long, of_parts, lambda: cut(texts))


class _Aligner(tf.Module):
    """Computes how many characters pieces span, and where these come from.

    SentencePiece normalizes the cleaned text again. So a second model with the
    same normalization cuts it into bytes.
    """

    def __init__(self, tokenizer: tokenization.Tokenizer) -> None:
        super().__init__(name="aligner")
        model = _byte_model(tokenizer.model_bytes)
        self._bytes = _sentencepiece(model.SerializeToString(), "bytes")
        # What each piece of this model stands for, and how many characters;
        # a byte that continues a character counts 0.
        codes = range(256)
        symbols = [piece.piece for piece in model.pieces[257:]]
        self._texts = [b"", *(bytes([b]) for b in codes)]
        self._texts += [symbol.encode() for symbol in symbols]
        self._counts = [0, *(int(not 0x80 <= b < 0xC0) for b in codes)]
        self._counts += map(len, symbols)
        self._unk_id = tokenizer.unk_id
        # Characters of what replaces each id; of the unknown piece not used.
        self._spans = _table(
            tokenizer.digit_comma_lengths.get(id_, (length,))
            for id_, length in enumerate(tokenizer.aligner.lengths.tolist())
        )

    def lengths(
        self, ids: tf.RaggedTensor, surfaces: tf.RaggedTensor
    ) -> tf.RaggedTensor:
        """Count the characters of pieces after digit-comma pieces were cut.

        `ids` and `surfaces`, [batch, (pieces)], are those before. Source:
        `offsets.Aligner.encode`.
        """
        spans = tf.gather(_ragged(self._spans), ids)
        parts = spans.values  # [all pieces before, (1 or more)]
        length = tf.strings.length(surfaces.flat_values, unit="UTF8_CHAR")
        length = tf.repeat(length, parts.row_lengths())
        is_unknown = tf.repeat(
            ids.flat_values == self._unk_id, parts.row_lengths()
        )
        counted = tf.where(is_unknown, length, parts.values)
        return spans.with_flat_values(counted).merge_dims(1, 2)

    def character_ranges(
        self, cleaned: tf.Tensor, sources: Ranges, text_lengths: tf.Tensor
    ) -> Ranges:
        """Return where each character of the normalized texts comes from.

        Source: `offsets.normalized_ranges`.

        Args:
            cleaned: string [batch].
            sources: Where each byte of them comes from.
            text_lengths: int32 [batch], bytes of the original texts.
        """
        ids, byte, _ = self._bytes.tokenize_with_offsets(cleaned)
        counts = tf.gather(tf.constant(self._counts), ids).flat_values
        parts = tf.gather(tf.constant(self._texts), ids)
        joined = tf.strings.reduce_join(parts, axis=-1)
        characters = tf.strings.unicode_split(joined, "UTF-8")
        begin = characters.with_flat_values(
            tf.repeat(tf.cast(byte.flat_values, tf.int32), counts)
        )
        end = _ends(characters, begin, cleaned)
        starts, ends = (
            offset_ops.with_last(edge, text_lengths) for edge in sources
        )
        # The mark of the first word, unless it comes from a space.
        is_mark = offset_ops.is_first(begin.value_rowids())
        is_mark &= characters.flat_values == tokenization.WORD_START
        has_space = tf.strings.substr(cleaned, 0, 1) == " "
        is_mark &= ~tf.gather(has_space, begin.value_rowids())
        start = tf.where(is_mark, 0, offset_ops.entries_at(starts, begin))
        stop = tf.where(is_mark, 0, offset_ops.entries_at(ends, end - 1))
        return begin.with_flat_values(start), begin.with_flat_values(stop)


def _ends(
    characters: tf.RaggedTensor, begin: tf.RaggedTensor, cleaned: tf.Tensor
) -> tf.RaggedTensor:
    """Return where each character of a normalized text ends in the cleaned one.

    It ends where the next one begins; or, if the character was not changed,
    directly after it, because what follows may have been dropped. `begin`,
    int32 [batch, (characters)], are the bytes where they begin.
    """
    # Positions in the concatenation of all texts.
    lengths = tf.strings.length(cleaned)
    edges = tf.cumsum(lengths)
    before = tf.gather(edges - lengths, begin.value_rowids())
    place = begin.flat_values + before
    later = offset_ops.with_last(
        begin.with_flat_values(place), edges
    ).flat_values
    following = tf.gather(later, tf.searchsorted(later, place, side="right"))
    known = offset_ops.to_characters(
        tf.strings.reduce_join(cleaned, keepdims=True)
    )
    index = tf.searchsorted(known.starts, place)
    is_kept = tf.gather(known.texts, index) == characters.flat_values
    end = tf.where(is_kept, tf.gather(known.ends, index), following)
    return begin.with_flat_values(end - before)


def _byte_model(model_bytes: bytes) -> sentencepiece_model_pb2.ModelProto:
    """Return a model that normalizes as another one and cuts text into bytes.

    Its pieces: unknown, the 256 bytes, and the symbols of the other model.
    """
    source = sentencepiece_model_pb2.ModelProto.FromString(model_bytes)
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.CopyFrom(source.normalizer_spec)
    model.trainer_spec.model_type = model.trainer_spec.CHAR
    model.trainer_spec.byte_fallback = True
    kinds = model.SentencePiece
    model.pieces.add(piece=tokenization.UNK, type=kinds.UNKNOWN)
    for code in range(256):
        model.pieces.add(piece=f"<0x{code:02X}>", type=kinds.BYTE)
    symbols = (p for p in source.pieces if p.type == kinds.USER_DEFINED)
    model.pieces.extend(symbols)
    return model


def _table(
    rows: Iterable[Sequence[int] | np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return int32 values and int64 row splits of a ragged [vocab, (1+)]."""
    rows = list(rows)
    values = np.concatenate(rows).astype(np.int32)
    return values, np.cumsum([0, *map(len, rows)], dtype=np.int64)


def _ragged(table: tuple[np.ndarray, np.ndarray]) -> tf.RaggedTensor:
    values, row_splits = map(tf.constant, table)
    return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)


def _sentencepiece(
    model: bytes, name: str
) -> tensorflow_text.SentencepieceTokenizer:
    """Load a model under a name of its own.

    Loading a SavedModel merges models with the same name.
    """
    return tensorflow_text.SentencepieceTokenizer(
        model, out_type=tf.int32, name=name
    )


class GraphWordPieceTokenizer(tf.Module):
    """The TensorFlow version of a `wordpiece.WordPieceTokenizer`.

    Only the words are cut by tensorflow_text. Its BertTokenizer has other
    tables of characters, and counts the length of words in bytes.
    """

    def __init__(self, tokenizer: wordpiece.WordPieceTokenizer) -> None:
        super().__init__(name="graph_tokenizer")
        self._rule = tokenizer.normalization
        self._mask_id = tokenizer.mask_id
        self._words = tensorflow_text.FastWordpieceTokenizer(
            list(tokenizer.pieces),
            suffix_indicator=wordpiece_rules.CONTINUATION,
            # Longer words are replaced before; a character has up to 4 bytes.
            max_bytes_per_word=4 * self._rule.longest_word,
            token_out_type=tf.int32,
            unknown_token=wordpiece.UNK,
            no_pretokenization=True,
        )

    def tokenize(
        self, texts: tf.Tensor, enough: int | None = None
    ) -> tf.RaggedTensor:
        """Clean and encode texts, whole; see `WordPieceTokenizer.encode`."""
        words = _split_words(texts, self._rule)
        is_long = _is_long(words, self._rule.longest_word)
        kept = tf.where(is_long, wordpiece.UNK, words.flat_values)
        pieces = self._words.tokenize(kept)
        return words.with_flat_values(pieces).merge_dims(1, 2)

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """Return texts as they are, as the original does for WordPiece."""
        return texts

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Offsets:
        words = _split_words(texts, self._rule)
        is_long = _is_long(words, self._rule.longest_word)
        kept = tf.where(is_long, wordpiece.UNK, words.flat_values)
        ids, begin, end = self._words.tokenize_with_offsets(kept)
        length = tf.where(
            tf.gather(is_long, ids.value_rowids()),
            tf.gather(tf.strings.length(words.flat_values), ids.value_rowids()),
            tf.cast(end.flat_values - begin.flat_values, tf.int32),
        )
        lengths = words.with_flat_values(ids.with_flat_values(length))
        ids = words.with_flat_values(ids).merge_dims(1, 2)
        # The pieces, concatenated, are the cleaned text without white space.
        units = offset_ops.to_characters(texts)
        ranges = units.sources(units.each(self._width))
        starts, ends = offset_ops.join_ranges(
            lengths.merge_dims(1, 2), ranges, units.lengths
        )
        return ids, starts, ends

    def _width(self, characters: tf.Tensor) -> tf.Tensor:
        """Return how many bytes of words each character becomes."""
        words = _split_words(characters, self._rule)
        return tf.reduce_sum(tf.strings.length(words), -1)

    def tokenize_with_masks(
        self, texts: tf.Tensor, enough: int | None = None
    ) -> tf.RaggedTensor:
        """See `WordPieceTokenizer.encode_with_masks`."""
        parts = tf.strings.split(text_ops.valid_utf8(texts), wordpiece.MASK)
        ids = self.tokenize(parts.flat_values)
        mask = tf.fill([ids.nrows(), 1], self._mask_id)
        marked = tf.concat([tf.RaggedTensor.from_tensor(mask), ids], axis=1)
        # Every part has a mask before it, so each text has one too many.
        return parts.with_flat_values(marked).merge_dims(1, 2)[:, 1:]


def _split_words(
    texts: tf.Tensor, rule: normalization.Normalization
) -> tf.RaggedTensor:
    """Do what `wordpiece_rules` does to texts before it cuts words.

    They may differ on the characters that `text_ops.normalize` names; with
    vocab_chinese.txt all characters get the same ids. Bytes that are not UTF-8
    are dropped.
    """
    texts = text_ops.replace_each(
        text_ops.valid_utf8(texts), wordpiece_rules.is_dropped, ""
    )
    texts = text_ops.replace_each(texts, wordpiece_rules.is_cjk, r" \0 ")
    texts = text_ops.collapse_spaces(texts)
    if rule.do_lower_case:
        texts = text_ops.to_lower(texts)
    if rule.unicode_form == "NFD":
        texts = tensorflow_text.normalize_utf8(texts, "NFD")
        texts = text_ops.replace_each(texts, wordpiece_rules.is_accent, "")
    texts = text_ops.replace_each(
        texts, wordpiece_rules.is_punctuation, r" \0 "
    )
    return tf.strings.split(texts)


def _is_long(words: tf.RaggedTensor, longest: int) -> tf.Tensor:
    """Tell which words are too long to be known, bool [all words]."""
    length = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
    return length > longest


def make_graph_tokenizer(
    tokenizer: tokenization.AnyTokenizer,
    *,
    with_masks: bool = True,
    with_offsets: bool = False,
) -> GraphTokenizer | GraphWordPieceTokenizer:
    """Make the TensorFlow version of a tokenizer of either kind.

    WordPiece always has masks and offsets.
    """
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        return GraphWordPieceTokenizer(tokenizer)
    return GraphTokenizer(
        tokenizer, with_masks=with_masks, with_offsets=with_offsets
    )
