"""SentencePiece tokenization: text to vocabulary ids and back.

`load` opens a SentencePiece or WordPiece vocabulary (wordpiece.py).
tokenization_ops.py makes TensorFlow operations that do the same.

Ordinary text never yields special pieces: "[CLS]" in a file is divided into
letters, as any other word. `Tokenizer.encode_with_masks` is for text that
contains masks.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import sentencepiece
from absl import logging

from albert_tf.common import configs, errors, files, imports
from albert_tf.common.options import option, shown
from albert_tf.text import (
    cleaning,
    huggingface_rules,
    normalization,
    offsets,
    wordpiece,
)

sentencepiece_model_pb2 = imports.later("sentencepiece.sentencepiece_model_pb2")

PAD, UNK = "<pad>", "<unk>"
CLS, SEP, MASK = wordpiece.CLS, wordpiece.SEP, wordpiece.MASK
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
_OF_XLM_ROBERTA = (PAD, UNK, "<s>", "</s>", "<mask>")
WORD_START = offsets.WORD_START

PieceT = TypeVar("PieceT", str, int)


class Tokenizer:
    """A SentencePiece vocabulary and its tokenization.

    Source: the original's tokenization.FullTokenizer in SentencePiece mode,
    with encode_pieces and encode_ids.

    Example, with the released 30k-clean.model:
        encode_pieces("This is a Test") = ["▁this", "▁is", "▁a", "▁test"]
        encode("This is a Test") = [48, 25, 21, 1289]

    Attributes:
        model_bytes: The model.
        fingerprint: SHA-256 of the file, hexadecimal.
        keep_accents: See `cleaning.preprocess_text`.
        strip_spurious_marker: See `encode_pieces`.
        pieces: All pieces in the order of their ids.
        special_pieces: `SPECIAL_PIECES`, or those of XLM-R.
        pad_id, unk_id, cls_id, sep_id, mask_id: Their ids.
        word_start_id: Id of the piece "▁" alone, -1 if there is none.
        digit_comma_ids: For each piece like "▁2012,", the ids that replace it.
    """

    def __init__(
        self,
        spm_model_file: str,
        do_lower_case: bool = True,
        *,
        keep_accents: bool = False,
        strip_spurious_marker: bool = False,
    ) -> None:
        files.require_file(spm_model_file, "spm_model_file")
        content = files.read_bytes(spm_model_file)
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.model_bytes = huggingface_rules.content_of(spm_model_file, content)
        self.do_lower_case = do_lower_case
        self.keep_accents = keep_accents
        self._folding = {"lower": do_lower_case, "keep_accents": keep_accents}
        self.strip_spurious_marker = strip_spurious_marker
        self._processor = _load_processor(self.model_bytes, spm_model_file)
        size = self._processor.vocab_size()
        self.pieces = tuple(self._processor.id_to_piece(list(range(size))))
        self._ids = {piece: id_ for id_, piece in enumerate(self.pieces)}
        is_foreign = wordpiece.has_marks_of_roberta(self.pieces)
        self.special_pieces = _OF_XLM_ROBERTA if is_foreign else SPECIAL_PIECES
        _check_vocabulary(
            self._processor, self._ids, self.special_pieces, spm_model_file
        )
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[piece] for piece in self.special_pieces
        )
        self.word_start_id = self._ids.get(WORD_START, -1)
        # ALBERT's rule.
        self._digit_comma_pieces = _digit_comma_pieces(
            () if is_foreign else self.pieces,
            self._processor,
            strip_spurious_marker,
        )
        self.digit_comma_ids = {
            self._ids[piece]: tuple(self.pieces_to_ids(new_pieces))
            for piece, new_pieces in self._digit_comma_pieces.items()
        }

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def settings(self) -> dict[str, bool]:
        """The options, besides the vocabulary, that change tokenization."""
        return self.normalization.settings

    @property
    def normalization(self) -> normalization.Normalization:
        """What is done to text before it is cut."""
        return normalization.Normalization(
            self.do_lower_case, self.keep_accents, self.strip_spurious_marker
        )

    @functools.cached_property
    def digit_comma_lengths(self) -> dict[int, tuple[int, ...]]:
        """Characters of normalized text, "▁" too, in each `digit_comma_ids`."""
        table = {}
        for piece, new in self._digit_comma_pieces.items():
            others = tuple(map(len, new[1:]))
            # The first may have a "▁" that the text lacks.
            first = len(piece) - sum(others)
            table[self._ids[piece]] = (first, *others)
        return table

    @functools.cached_property
    def aligner(self) -> offsets.Aligner:
        return offsets.Aligner(
            self._processor,
            self.digit_comma_ids,
            self.digit_comma_lengths,
            **self._folding,
        )

    @functools.cached_property
    def masked_model_bytes(self) -> bytes:
        """The same model, with `[MASK]` as a symbol that text may contain."""
        model = sentencepiece_model_pb2.ModelProto.FromString(self.model_bytes)
        symbol = model.pieces[self.mask_id]
        symbol.piece, symbol.type = MASK, symbol.USER_DEFINED
        return bytes(model.SerializeToString())

    @functools.cached_property
    def _masked_processor(self) -> sentencepiece.SentencePieceProcessor:
        return _load_processor(self.masked_model_bytes, "")

    def clean(self, text: str) -> str:
        return cleaning.preprocess_text(text, **self._folding)

    def fold(self, text: str) -> str:
        """Clean the characters of a text, and keep its spaces."""
        return cleaning.fold_characters(text, **self._folding)

    def encode_pieces(self, text: str) -> list[str]:
        """Clean a text and cut it into pieces.

        A piece that ends in a digit and a comma is cut again without its comma,
        so that a number has the same pieces with and without one. The second
        cut puts "▁" before a number that continued a word. The original does
        the same, by an error with which its models were trained (it compares
        text with bytes). `strip_spurious_marker` removes that "▁".

        A run of characters outside the vocabulary is one piece. Source: the
        original's tokenization.encode_pieces.

        Example, with 30k-clean.model, where "▁2012," is one piece:
            encode_pieces("In 2012, we") = ["▁in", "▁2012", ",", "▁we"]
        With a vocabulary that has the continuing piece "13,":
            encode_pieces("no13,") = ["▁no", "▁13", ","], or, with
            strip_spurious_marker, ["▁no", "13", ","]
        """
        pieces = self._processor.encode(self.clean(text), out_type=str)
        return _replace(pieces, self._digit_comma_pieces)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the pieces of `encode_pieces`.

        Example, with 30k-clean.model:
            encode("In 2012, we") = [19, 563, 15, 95]
        """
        return cleaning.encode(self._encode, text)

    def _encode(self, part: str) -> list[int]:
        ids = self._processor.encode(self.clean(part))
        return _replace(ids, self.digit_comma_ids)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Clean and encode many texts; faster than one `encode` for each."""
        return self._rows([*texts])

    def _rows(self, texts: Sequence[str], **how: int) -> list[list[int]]:
        if any(len(text) > cleaning.LONGEST_PART for text in texts):
            return [self.encode(text) for text in texts]
        cleaned = [self.clean(text) for text in texts]
        rows = self._processor.encode(cleaned, **how)
        return [_replace(ids, self.digit_comma_ids) for ids in rows]

    def encode_flat(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Clean and encode many texts into one array.

        Returns:
            int32 [all pieces], the ids of all texts, concatenated; int64
            [texts], how many of them each text has.
        """
        # In one thread: the processes that call this share the cores.
        return wordpiece.flatten(self._rows(texts, num_threads=1))

    def encode_with_offsets(
        self, text: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Clean and encode a text, and return the offsets of the pieces.

        A piece that begins a word includes the space before it. The range of
        what has no counterpart in the text, such as the "▁" before the first
        word, is empty. Every part of a character that is decomposed, or of
        characters that are composed, has the range of the whole.

        Example, with 30k-clean.model:
            encode_with_offsets("Café ½") = [1957, 137, 3, 1], the ids of
                ["▁cafe", "▁1", "⁄", "2"] up to their numbers,
            starts = [0, 4, 5, 5], ends = [4, 6, 6, 6]

        Returns:
            The ids of `encode`; for each the index of its first character in
            `text`, and that of its last character plus 1; all int32 [pieces].
        """
        return self.aligner.encode(text)

    def encode_with_masks(self, text: str) -> list[int]:
        """Encode a text in which each literal `[MASK]` stands for one piece.

        As in pretraining, a mask replaces a whole piece with its "▁". So the
        "▁" that SentencePiece puts before the mask is dropped, and what follows
        starts a word only after a space. Nothing else is special: "[CLS]" and
        "[mask]" are cut into letters.

        Example, with 30k-clean.model, where "." is 9 and "▁paris" 1162:
            encode("It is Paris.") = [32, 25, 1162, 9]
            encode_with_masks("It is [MASK].") = [32, 25, 4, 9]
        """
        return cleaning.encode(self._encode_with_masks, text)

    def _encode_with_masks(self, part: str) -> list[int]:
        parts = cleaning.collapse_spaces(part).split(MASK)
        folded = MASK.join(map(self.fold, parts))
        ids = self._masked_processor.encode(folded)
        ids = _replace(ids, self.digit_comma_ids)
        dropped = (self.word_start_id, self.mask_id)
        pairs = itertools.pairwise([*ids, -1])
        return [pair[0] for pair in pairs if pair != dropped]

    def pieces_to_ids(self, pieces: Iterable[str]) -> list[int]:
        """Look up pieces; one that the vocabulary lacks becomes `unk_id`."""
        return [self._ids.get(piece, self.unk_id) for piece in pieces]

    def ids_to_pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id_] for id_ in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Join ids to a readable text.

        Special pieces are dropped, and an unknown one becomes "⁇".

        Example, with 30k-clean.model:
            decode([2, 48, 25, 21, 1289, 3]) = "this is a test"
        """
        return str(self._processor.decode([int(id_) for id_ in ids]))


def _load_processor(
    model_bytes: bytes, path: str
) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
    except RuntimeError as error:
        raise errors.UserError(
            f"`spm_model_file={path}` is not a SentencePiece model. Give the "
            "binary file that ends in .model (for example 30k-clean.model), "
            "not the readable list that ends in .vocab. A WordPiece "
            "vocabulary, a list that ends in .txt, is given as `vocab_file`."
        ) from error
    return processor


def _check_vocabulary(
    processor: sentencepiece.SentencePieceProcessor,
    ids: Mapping[str, int],
    special: Sequence[str],
    path: str,
) -> None:
    """Refuse a model that text would be cut by in another way than ALBERT's."""

    def may_be_text(piece: str) -> bool:
        is_special = (
            processor.is_unknown if piece == UNK else processor.is_control
        )
        return not (is_special(ids[piece]) or processor.is_unused(ids[piece]))

    missing = [piece for piece in special if piece not in ids]
    in_text = [] if missing else [*filter(may_be_text, special)]
    words = processor.normalize("a b")
    what = ""
    if missing:
        what = f"has no piece {' '.join(missing)}"
    elif in_text:
        what = (
            f"has {' '.join(in_text)} as ordinary pieces or user-defined "
            "symbols, so these words in a text would become special pieces"
        )
    elif not re.fullmatch(f"{WORD_START}[^{WORD_START}]+" * 2, words):
        what = f'makes {words!r} of "a b", so no "▁" begins each word'
    elif wordpiece.marked_pieces(ids) > 0:
        what = 'has pieces of WordPiece, such as "##s"'
    if what:
        raise errors.UserError(
            f"`spm_model_file={path}` {what}. ALBERT needs "
            f"{' '.join(SPECIAL_PIECES)}, control symbols but for <unk>, and "
            '"▁" before words. Train such a vocabulary: python -m '
            "data_prep.train_sentencepiece --input_file=corpus.txt "
            "--output_prefix=my-vocabulary"
        )


def _replace(
    pieces: list[PieceT], table: Mapping[PieceT, Sequence[PieceT]]
) -> list[PieceT]:
    if table.keys().isdisjoint(pieces):
        return pieces
    return [new for piece in pieces for new in table.get(piece, (piece,))]


def _digit_comma_pieces(
    pieces: Sequence[str],
    processor: sentencepiece.SentencePieceProcessor,
    strip_spurious_marker: bool,
) -> dict[str, tuple[str, ...]]:
    """Return the replacements of pieces that end in digit and comma.

    They do not depend on neighbours: "▁2012," becomes ("▁2012", ",").
    """
    table = {}
    for piece in pieces:
        if piece[-1:] != "," or not piece[-2:-1].isdigit():
            continue
        number = piece[:-1].replace(WORD_START, "")
        body = processor.encode(number, out_type=str)
        if strip_spurious_marker and not piece.startswith(WORD_START):
            # ["▁13"] becomes ["13"], ["▁", "13"] too.
            first, *others = body
            rest = first.removeprefix(WORD_START)
            body = [rest, *others] if rest else others
        table[piece] = (*body, ",")
    return table


AnyTokenizer = Tokenizer | wordpiece.WordPieceTokenizer


@functools.cache  # Warns once.
def _warn_of_both(spm_model_file: str, vocab_file: str) -> None:
    logging.warning(
        "`vocab_file=%s` is not used: if both are given, `spm_model_file=%s` "
        "is used, as in the original. Leave one of them out.",
        vocab_file,
        spm_model_file,
    )


# Names of the vocabulary in folders of runs and weights, by option.
VOCABULARY_NAMES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}


@dataclasses.dataclass(frozen=True)
@shown(Model="spm_model_file vocab_file do_lower_case")
class VocabularyOptions:
    """Which vocabulary is used, and how.

    As in the original, the SentencePiece model is used if both files are given.
    """

    spm_model_file: str | None = option(
        None,
        "SentencePiece model of the vocabulary, as of the English models.",
        may_change=True,
        must_exist=True,
        names=configs.checkpoint_names,
    )
    vocab_file: str | None = option(
        None,
        "WordPiece vocabulary, as of the Chinese models; not needed with "
        "--spm_model_file.",
        may_change=True,
        must_exist=True,
        names=configs.checkpoint_names,
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case the text. Default: as in the file beside the "
        "vocabulary (PREFIX.normalization.json); without it, true.",
    )
    keep_accents: bool | None = option(
        None,
        "Whether accents and other combining characters are kept. Default: as "
        "in the file beside the vocabulary; without it, false.",
    )
    strip_spurious_marker: bool | None = option(
        None,
        "Whether a number that continues a word still does so when the comma "
        "after it is cut off; in the original it begins a word. SentencePiece "
        "only. Default: as in the file beside the vocabulary; without it, "
        "false.",
    )

    def __post_init__(self) -> None:
        for name, file in VOCABULARY_NAMES.items():
            value = getattr(self, name)
            folder = configs.find_checkpoint(value or "")
            if value and folder != value:  # That of weights with this name.
                path = os.path.join(folder, file)
                if not os.path.exists(path):
                    (other,) = {*VOCABULARY_NAMES} - {name}
                    raise errors.UserError(
                        f"`{name}={value}`: the vocabulary of {value} is of "
                        f"another kind. Use `{other}={value}`."
                    )
                object.__setattr__(self, name, path)
        if self.spm_model_file is not None and self.vocab_file is not None:
            _warn_of_both(self.spm_model_file, self.vocab_file)
            object.__setattr__(self, "vocab_file", None)
        if self.kind == "vocab_file" and self.strip_spurious_marker:
            raise errors.UserError(
                "`strip_spurious_marker=true` is given with the WordPiece "
                f"vocabulary `vocab_file={self.vocab_file}`. It changes how a "
                "SentencePiece vocabulary is used. Remove "
                "`strip_spurious_marker`, or give `spm_model_file`."
            )

    @property
    def kind(self) -> str | None:
        """The option that names the vocabulary; None without one."""
        for name in ("spm_model_file", "vocab_file"):
            if getattr(self, name) is not None:
                return name
        return None

    @property
    def path(self) -> str | None:
        """The file of the vocabulary; None without one."""
        return getattr(self, self.kind) if self.kind else None

    @property
    def settings(self) -> dict[str, bool | None]:
        """The options of its use; None for those that are not given."""
        return {name: getattr(self, name) for name in normalization.SETTINGS}

    def resolved(self) -> "VocabularyOptions":
        """Return the options, completed by the file beside the vocabulary."""
        if self.path is None:
            return self
        settings: dict[str, Any] = {**self.normalization.settings}
        return dataclasses.replace(self, **settings)

    @property
    def normalization(self) -> normalization.Normalization:
        """What is done to text for the vocabulary that is named."""
        kind = (
            normalization.WORDPIECE
            if self.kind == "vocab_file"
            else normalization.SENTENCEPIECE
        )
        return normalization.resolve(str(self.path), kind, self.settings)

    def require(self) -> None:
        if self.kind is None:
            raise errors.UserError(
                "`spm_model_file` and `vocab_file` are both missing. One is "
                "needed. Give `spm_model_file=30k-clean.model` for a "
                "SentencePiece vocabulary (the English models), or "
                "`vocab_file=vocab_chinese.txt` for a WordPiece vocabulary "
                "(the Chinese models)."
            )


def load(options: VocabularyOptions) -> AnyTokenizer:
    options.require()
    rule = options.normalization
    if options.spm_model_file is not None:
        return Tokenizer(options.spm_model_file, **rule.settings)
    return wordpiece.WordPieceTokenizer(
        str(options.vocab_file),
        rule.do_lower_case,
        keep_accents=rule.keep_accents,
        longest_word=rule.longest_word,
    )
