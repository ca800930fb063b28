"""Tokenization as TensorFlow operations, for a model that takes raw text.

`make_graph_tokenizer` makes the twin of a tokenizer, which gives the same ids.
serving.py puts it, and `pack_inputs`, in front of the network of a SavedModel.
Whoever loads that SavedModel needs tensorflow and tensorflow_text, no more.

Letter dimensions: B batch, S pieces of a text or positions of a packed row.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from albert_tf import tokenization, wordpiece

_STAND_IN = "\U0010ffff"  # Unicode assures that this is not a character.


def _character_class(characters: Iterable[str]) -> str:
    r"""Return a regular expression for one of some characters (RE2 syntax).

    Example:
        _character_class("abcx") = r"[\x{61}-\x{63}\x{78}-\x{78}]"
    """
    ranges: list[list[int]] = []
    for code in map(ord, characters):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    body = "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in ranges)
    return f"[{body}]"


@functools.cache
def _pattern(wanted: Callable[[str], object]) -> str:
    """Return the class of all characters for which `wanted` is true."""
    everything = map(chr, range(sys.maxunicode + 1))
    return _character_class(c for c in everything if wanted(c))


def _collapse_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Do what `tokenization.collapse_spaces` does, for many texts."""
    spaces = _pattern(str.isspace) + "+"
    return tf.strings.strip(tf.strings.regex_replace(texts, spaces, " "))


def _valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Put U+FFFD in place of what is not UTF-8."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Do what `str.lower` does, for many texts.

    The operation of TensorFlow ends a text at the character NUL, so one that
    no text should hold takes its place. Case folding would map more, and
    compose what is decomposed.
    """
    texts = tf.strings.regex_replace(texts, r"\x{0}", _STAND_IN)
    texts = tf.strings.lower(texts, encoding="utf-8")
    return tf.strings.regex_replace(texts, _STAND_IN, "\0")


def _fold_characters(
    texts: tf.Tensor, lower: bool, keep_accents: bool
) -> tf.Tensor:
    """Do what `tokenization.fold_characters` does, for many texts."""
    if keep_accents:
        texts = tensorflow_text.normalize_utf8(texts, "NFKC")
    else:
        texts = tensorflow_text.normalize_utf8(texts, "NFKD")
        accents = _pattern(unicodedata.combining) + "+"
        texts = tf.strings.regex_replace(texts, accents, "")
    return _lower(texts) if lower else texts


def normalize(
    texts: tf.Tensor, lower: bool, keep_accents: bool = False
) -> tf.Tensor:
    r"""Clean texts as `tokenization.preprocess_text` does.

    Both agree on every character that the Unicode tables of Python and of
    TensorFlow know. With Python 3.11 (Unicode 14) and TensorFlow 2.20, 40
    capital letters younger than TensorFlow's table of lower case stay capitals
    here, and 118 characters that are younger than Python's tables are
    decomposed only here. With 30k-clean.model, 36 of all characters get other
    ids: the outlined letters and digits from U+1CCD6 on (Unicode 16).

    Example:
        normalize(["  Café\t½… "], lower=True) = ["cafe 1⁄2..."]

    Args:
        texts: string [batch], UTF-8; bytes that are not UTF-8 become U+FFFD.
        lower: See `tokenization.preprocess_text`.
        keep_accents: See `tokenization.preprocess_text`.

    Returns:
        string [batch].
    """
    texts = _collapse_spaces(_valid_utf8(texts))
    return _fold_characters(texts, lower, keep_accents)


class GraphTokenizer(tf.Module):
    """The TensorFlow twin of a `tokenization.Tokenizer`.

    Make it after any call of `tf.random.set_seed`: that call destroys the
    SentencePiece resources that exist in the program.
    """

    def __init__(self, tokenizer: tokenization.Tokenizer) -> None:
        """Copy the vocabulary, its rules and its flags from `tokenizer`."""
        super().__init__(name="graph_tokenizer")
        self._lower = tokenizer.do_lower_case
        self._keep_accents = tokenizer.keep_accents
        self._mask_id = tokenizer.mask_id
        self._word_start_id = tokenizer.word_start_id
        self._replacements = _replacement_table(tokenizer)
        self._plain = _sentencepiece(tokenizer.model_bytes)
        self._masked = _sentencepiece(tokenizer.masked_model_bytes)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Clean and encode texts; the ids of `Tokenizer.encode`.

        Example, with 30k-clean.model:
            tokenize(["This is a Test", ""]) = [[48, 25, 21, 1289], []]

        Args:
            texts: string [batch], UTF-8.

        Returns:
            int32 [batch, (pieces)].
        """
        texts = normalize(texts, self._lower, self._keep_accents)
        return self._split_digit_commas(self._plain.tokenize(texts))

    def tokenize_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encode texts with masks; the ids of `Tokenizer.encode_with_masks`.

        Example, with 30k-clean.model:
            tokenize_with_masks(["It is [MASK]."]) = [[32, 25, 4, 9]]

        Args:
            texts: string [batch], UTF-8.

        Returns:
            int32 [batch, (pieces)].
        """
        texts = self._fold_between_masks(_collapse_spaces(_valid_utf8(texts)))
        ids = self._split_digit_commas(self._masked.tokenize(texts))
        return self._without_word_start_before_mask(ids)

    def _fold_between_masks(self, texts: tf.Tensor) -> tf.Tensor:
        """Fold characters, but leave each `[MASK]` as it is.

        A marker is put before every part and the first one cut off again: the
        separator of `reduce_join` gets lost after an empty first part.
        """
        marker = tokenization.MASK
        parts = tf.strings.split(texts, marker)
        folded = _fold_characters(
            parts.flat_values, self._lower, self._keep_accents
        )
        marked = parts.with_flat_values(marker + folded)
        joined = tf.strings.reduce_join(marked, axis=-1)
        return tf.strings.substr(joined, len(marker), tf.int32.max)

    def _split_digit_commas(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Replace each id by its row of the table: B(S) -> B(S)(1+) -> B(S)."""
        values, row_splits = self._replacements
        table = tf.RaggedTensor.from_row_splits(
            tf.constant(values), tf.constant(row_splits), validate=False
        )
        return tf.gather(table, ids).merge_dims(1, 2)

    def _without_word_start_before_mask(
        self, ids: tf.RaggedTensor
    ) -> tf.RaggedTensor:
        values, rows = ids.flat_values, ids.value_rowids()
        is_start = values[:-1] == self._word_start_id
        is_before_mask = (values[1:] == self._mask_id) & (rows[1:] == rows[:-1])
        keep = tf.concat([~(is_start & is_before_mask), [True]], axis=0)
        keep = keep[: tf.size(values)]  # No piece at all: nothing to keep.
        return tf.ragged.boolean_mask(ids, ids.with_flat_values(keep))


def _sentencepiece(model: bytes) -> tensorflow_text.SentencepieceTokenizer:
    return tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)


def _replacement_table(
    tokenizer: tokenization.Tokenizer,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what each id of the vocabulary is replaced by, mostly itself.

    Example:
        A vocabulary of 3 ids, of which id 1 becomes (0, 2):
        values [0, 0, 2, 2], row splits [0, 1, 3, 4].

    Returns:
        int32 values and int64 row splits of a ragged [vocab, (1 or more)].
    """
    rows = [
        tokenizer.digit_comma_ids.get(id_, (id_,))
        for id_ in range(tokenizer.vocab_size)
    ]
    values = np.concatenate(rows).astype(np.int32)
    row_splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return values, row_splits


def _replace_each(
    texts: tf.Tensor, wanted: Callable[[str], object], new: str
) -> tf.Tensor:
    r"""Replace every character for which `wanted` is true (`\0` is itself)."""
    return tf.strings.regex_replace(texts, _pattern(wanted), new)


def _split_words(texts: tf.Tensor, lower: bool) -> tf.RaggedTensor:
    """Do what `wordpiece.clean_text` and `split_words` do, for many texts.

    Both agree as `normalize` does; with vocab_chinese.txt all characters get
    the same ids.

    Example:
        ["It's 今天。", ""] -> [["it", "'", "s", "今", "天", "。"], []]

    Args:
        texts: string [batch], UTF-8; what is not UTF-8 vanishes.
        lower: Whether to lower-case and to drop accents.

    Returns:
        string [batch, (words)].
    """
    texts = _replace_each(_valid_utf8(texts), wordpiece.is_dropped, "")
    texts = _replace_each(texts, wordpiece.is_cjk, r" \0 ")
    texts = _collapse_spaces(texts)
    if lower:
        texts = _lower(texts)
        texts = tensorflow_text.normalize_utf8(texts, "NFD")
        texts = _replace_each(texts, wordpiece.is_accent, "")
    texts = _replace_each(texts, wordpiece.is_punctuation, r" \0 ")
    return tf.strings.split(texts)


class GraphWordPieceTokenizer(tf.Module):
    """The TensorFlow twin of a `wordpiece.WordPieceTokenizer`.

    The words are made here and only cut by tensorflow_text: its BertTokenizer
    has other tables of characters and counts the length of words in bytes.
    """

    def __init__(self, tokenizer: wordpiece.WordPieceTokenizer) -> None:
        """Copy the vocabulary and the flag from `tokenizer`."""
        super().__init__(name="graph_tokenizer")
        self._lower = tokenizer.do_lower_case
        self._mask_id = tokenizer.mask_id
        self._words = tensorflow_text.FastWordpieceTokenizer(
            list(tokenizer.pieces),
            suffix_indicator=wordpiece.CONTINUATION,
            # Too long words never arrive; 4 bytes are the most a character has.
            max_bytes_per_word=4 * wordpiece.LONGEST_WORD,
            token_out_type=tf.int32,
            unknown_token=wordpiece.UNK,
            no_pretokenization=True,
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Clean and encode texts; the ids of `WordPieceTokenizer.encode`.

        Example, with vocab_chinese.txt:
            tokenize(["今天", ""]) = [[791, 1921], []]

        Args:
            texts: string [batch], UTF-8.

        Returns:
            int32 [batch, (pieces)].
        """
        words = _split_words(texts, self._lower)
        length = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
        is_long = length > wordpiece.LONGEST_WORD
        kept = tf.where(is_long, wordpiece.UNK, words.flat_values)
        pieces = self._words.tokenize(kept)
        return words.with_flat_values(pieces).merge_dims(1, 2)

    def tokenize_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encode texts with masks, as `WordPieceTokenizer.encode_with_masks`.

        Example, with vocab_chinese.txt:
            tokenize_with_masks(["今[MASK]天"]) = [[791, 103, 1921]]

        Args:
            texts: string [batch], UTF-8.

        Returns:
            int32 [batch, (pieces)].
        """
        parts = tf.strings.split(_valid_utf8(texts), wordpiece.MASK)
        ids = self.tokenize(parts.flat_values)
        mask = tf.fill([ids.nrows(), 1], self._mask_id)
        marked = tf.concat([tf.RaggedTensor.from_tensor(mask), ids], axis=1)
        # A mask stands before every part, so one too many in every text.
        return parts.with_flat_values(marked).merge_dims(1, 2)[:, 1:]


def make_graph_tokenizer(
    tokenizer: tokenization.AnyTokenizer,
) -> GraphTokenizer | GraphWordPieceTokenizer:
    """Make the TensorFlow twin of a tokenizer of either kind."""
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        return GraphWordPieceTokenizer(tokenizer)
    return GraphTokenizer(tokenizer)


def _kept_lengths(
    length_a: tf.Tensor, length_b: tf.Tensor, budget: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Say how much of two segments stays when the longer one is cut first.

    The result of dropping the last piece of the longer segment, of the second
    if both are equally long, until both fit; without the loop.

    Source: the original's classifier_utils._truncate_seq_pair.

    Example:
        lengths 7 and 2, budget 6 -> 4 and 2
        lengths 7 and 6, budget 5 -> 3 and 2

    Args:
        length_a: int64 [batch], pieces of the first segment.
        length_b: int64 [batch], pieces of the second segment.
        budget: int64 [batch], pieces that fit in all.

    Returns:
        int64 [batch] each: pieces kept of the first and the second segment.
    """
    half = budget // 2
    room_a = tf.where(length_b <= half, budget - length_b, budget - half)
    kept_a = tf.minimum(length_a, room_a)
    return kept_a, tf.minimum(length_b, budget - kept_a)


def _head(segment: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Keep the first `lengths` pieces of each row."""
    positions = tf.ragged.range(segment.row_lengths())
    return tf.ragged.boolean_mask(segment, positions < lengths[:, tf.newaxis])


def _markers(id_: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Return rows with `counts` (0 or 1) times the same id."""
    values = tf.fill([tf.reduce_sum(counts)], tf.constant(id_, tf.int32))
    return tf.RaggedTensor.from_row_lengths(values, counts)


def pack_inputs(
    segments: Sequence[tf.RaggedTensor],
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, tf.Tensor]:
    """Lay out one or two segments as the network reads them.

    `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`. Rows whose second
    segment is empty take the form of one segment. What does not fit is cut, see
    `_kept_lengths`. Rows are padded with 0 to the longest of the batch.

    Source: the original's classifier_utils.convert_single_example.

    Example, with cls_id 2, sep_id 3, max_seq_length 7:
        segments    [[[11, 12, 13], [14]], [[21, 22], []]]
        input_ids   [[2, 11, 12, 3, 21, 22, 3], [2, 14, 3, 0, 0, 0, 0]]
        input_mask  [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
        segment_ids [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]

    Args:
        segments: One or two int32 [batch, (pieces)] without special pieces.
        max_seq_length: Longest row, in pieces, special ones included.
        cls_id: Id of `[CLS]`.
        sep_id: Id of `[SEP]`.

    Returns:
        `input_ids`, `input_mask` (1 for a piece, 0 for padding) and
        `segment_ids` (1 for the second segment and its `[SEP]`, 0 elsewhere),
        int32 [batch, longest].

    Raises:
        ValueError: No segment or more than two, or no room for the markers.
    """
    if len(segments) not in (1, 2):
        raise ValueError(
            f"pack_inputs takes 1 or 2 segments, not {len(segments)}."
        )
    if max_seq_length <= len(segments) + 1:
        raise ValueError(
            f"max_seq_length={max_seq_length} has no room for text: the "
            f"markers take {len(segments) + 1} places. Use a larger value."
        )
    first = segments[0]
    second = segments[1] if len(segments) == 2 else first[:, :0]
    one = tf.ones_like(first.row_lengths())
    has_second = tf.cast(second.row_lengths() > 0, tf.int64)
    kept_first, kept_second = _kept_lengths(
        first.row_lengths(),
        second.row_lengths(),
        budget=max_seq_length - 2 - has_second,
    )
    cls, sep = _markers(cls_id, one), _markers(sep_id, one)
    front = tf.concat([cls, _head(first, kept_first), sep], axis=1)
    last_sep = _markers(sep_id, has_second)
    back = tf.concat([_head(second, kept_second), last_sep], axis=1)
    return _padded(front, back)


def _padded(
    front: tf.RaggedTensor, back: tf.RaggedTensor
) -> dict[str, tf.Tensor]:
    """Join the part of segment 0 and the part of segment 1, and pad with 0."""
    segment_ids = [tf.zeros_like(front), tf.ones_like(back)]
    rows = {
        "input_ids": tf.concat([front, back], axis=1),
        "input_mask": tf.ones_like(tf.concat([front, back], axis=1)),
        "segment_ids": tf.concat(segment_ids, axis=1),
    }
    return {name: row.to_tensor() for name, row in rows.items()}
