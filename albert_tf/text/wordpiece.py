"""WordPiece tokenization: text to vocabulary ids and back.

The released Chinese models use it. A text is cleaned, then cut into words at
spaces, around Chinese characters and at punctuation. Each word is cut into the
longest pieces that are in the vocabulary. The rules are BERT's.

`tokenization.load` chooses between this and SentencePiece.
tokenization_ops.py implements the same with TensorFlow operations.
"""

import collections
import functools
import hashlib
import itertools
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.common import errors, files
from albert_tf.text import huggingface_rules, normalization, wordpiece_rules

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
# MPNet's vocabulary has these among its pieces, too; no text yields them.
_OF_MPNET = ("<pad>", UNK, "<s>", "</s>", "<mask>")


def flatten(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Join rows: int32 [all ids]; the length of each row, int64 [rows]."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = itertools.chain.from_iterable(rows)
    return np.fromiter(ids, np.int32, int(lengths.sum())), lengths


class WordPieceTokenizer:
    """A WordPiece vocabulary and its tokenization.

    Text never yields special pieces: "[CLS]" is three words.

    Source: the original's tokenization.FullTokenizer without a SentencePiece
    model.

    Example, with vocab_chinese.txt:
        encode_pieces("今天 Unwanted!") =
            ["今", "天", "u", "##n", "##wan", "##ted", "!"]

    Attributes:
        fingerprint: SHA-256 of the vocabulary file, hexadecimal.
        keep_accents: Whether lower-cased text keeps its accents.
        longest_word: Characters; longer words are unknown.
        pieces: All pieces in the order of their ids.
        special_pieces: `SPECIAL_PIECES`, or those of MPNet.
        pad_id, unk_id, cls_id, sep_id, mask_id: Their ids; a word that the
            vocabulary cannot build is `unk_id`.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        *,
        keep_accents: bool = False,
        longest_word: int = wordpiece_rules.LONGEST_WORD,
    ) -> None:
        """Read a file with one piece a line, the first field.

        It may also be the `tokenizer.json` of Hugging Face.
        """
        files.require_file(vocab_file, "vocab_file")
        content = files.read_bytes(vocab_file)
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.do_lower_case = do_lower_case
        self.keep_accents = keep_accents
        self.longest_word = longest_word
        lines = huggingface_rules.content_of(vocab_file, content)
        self.pieces = _read_pieces(lines, vocab_file)
        self._ids = {piece: id_ for id_, piece in enumerate(self.pieces)}
        self.special_pieces = _special_pieces(self.pieces)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[piece] for piece in self.special_pieces
        )
        self._cut = functools.partial(
            wordpiece_rules.cut_word,
            ids=self._ids,
            unk_id=self.unk_id,
            longest=longest_word,
        )

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def settings(self) -> dict[str, bool]:
        return {
            "do_lower_case": self.do_lower_case,
            "keep_accents": self.keep_accents,
        }

    @property
    def normalization(self) -> normalization.Normalization:
        return normalization.Normalization(
            **self.settings,
            kind=normalization.WORDPIECE,
            longest_word=self.longest_word,
        )

    def clean(self, text: str) -> str:
        return wordpiece_rules.clean_text(
            text, lower=self.do_lower_case, keep_accents=self.keep_accents
        )

    def encode_pieces(self, text: str) -> list[str]:
        """Clean a text and cut it into pieces.

        Example, with the vocabulary of the original's test, uncased:
            encode_pieces("UNwantéd,running") =
                ["un", "##want", "##ed", ",", "runn", "##ing"]
            encode_pieces("unwantedX running") = ["[UNK]", "runn", "##ing"]
        """
        return self.ids_to_pieces(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """Return the ids of the pieces of `encode_pieces`."""
        words = map(self._cut, wordpiece_rules.split_words(self.clean(text)))
        return list(itertools.chain.from_iterable(words))

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_flat(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        return flatten(self.encode_batch(texts))

    def encode_with_offsets(
        self, text: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `tokenization.Tokenizer.encode_with_offsets`.

        Example, with vocab_chinese.txt, for the pieces of "今天 Wanted":
            starts = [0, 1, 3, 6], ends = [1, 2, 6, 9]
        """
        found = wordpiece_rules.encode_with_offsets(
            text,
            self.pieces,
            cut=self._cut,
            unk_id=self.unk_id,
            lower=self.do_lower_case,
            keep_accents=self.keep_accents,
        )
        ids, starts, ends = (np.array(values, np.int32) for values in found)
        return ids, starts, ends

    def encode_with_masks(self, text: str) -> list[int]:
        """Encode a text in which each literal `[MASK]` stands for one piece.

        What follows the mask begins a word.

        Example, with vocab_chinese.txt, where "今" is 791 and "天" 1921:
            encode_with_masks("今[MASK]天") = [791, 103, 1921]
        """
        first, *others = map(self.encode, text.split(MASK))
        return first + [id_ for ids in others for id_ in (self.mask_id, *ids)]

    def pieces_to_ids(self, pieces: Iterable[str]) -> list[int]:
        return [self._ids.get(piece, self.unk_id) for piece in pieces]

    def ids_to_pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id_] for id_ in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Join ids to a readable text.

        Special pieces are dropped, an unknown word becomes "⁇", and there is no
        space beside Chinese characters. Hangul that cleaning took apart is
        composed.

        Example, with vocab_chinese.txt:
            decode([101, 791, 1921, 9951, 9255, 102]) = "今天wanted"
        """
        text = ""
        for piece in self.ids_to_pieces(ids):
            if piece == UNK:
                text += " ⁇"
            elif piece.startswith(wordpiece_rules.CONTINUATION):
                text += piece.removeprefix(wordpiece_rules.CONTINUATION)
            elif piece not in self.special_pieces:
                is_chinese = wordpiece_rules.is_cjk(piece[0]) or any(
                    map(wordpiece_rules.is_cjk, text[-1:])
                )
                text += piece if is_chinese else f" {piece}"
        if self.normalization.unicode_form == "NFD":
            text = unicodedata.normalize("NFC", text)
        return text.strip()


def _read_pieces(content: bytes, path: str) -> tuple[str, ...]:
    """Return the pieces of a file; an empty line is one that no text yields."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"`vocab_file={path}` is not UTF-8 text with one piece a line. If "
            f"this is a SentencePiece model, give it as `spm_model_file={path}`"
        ) from error
    lines = text.removesuffix("\n").split("\n")
    pieces = tuple((line.split() or [" "])[0] for line in lines)
    _check_special_pieces(pieces, path)
    # A piece with two ids: programs would disagree on later ids.
    piece, count = collections.Counter(pieces).most_common(1)[0]
    if count > 1:
        first = pieces.index(piece) + 1
        second = pieces.index(piece, first) + 1
        raise errors.UserError(
            f"`vocab_file={path}` has the piece {piece!r} in line {first} and "
            f"again in line {second}. Rename the later one, for example to "
            f"[unused-{second}], so that the others keep their ids."
        )
    return pieces


def marked_pieces(pieces: Iterable[str]) -> int:
    """Return how many more pieces begin with "##" than with "▁" or "Ġ".

    WordPiece marks what continues a word, SentencePiece and BPE its beginning.
    """
    return sum(
        (piece[:2] == wordpiece_rules.CONTINUATION) - (piece[0] in "▁Ġ")
        for piece in pieces
        if piece not in ("##", "▁", "Ġ")
    )


def has_marks_of_roberta(pieces: Sequence[str]) -> bool:
    """Tell whether a vocabulary begins as those of MPNet and XLM-R."""
    return [*pieces[:3]] == ["<s>", "<pad>", "</s>"]


def _special_pieces(pieces: Sequence[str]) -> tuple[str, ...]:
    return _OF_MPNET if has_marks_of_roberta(pieces) else SPECIAL_PIECES


def _check_special_pieces(pieces: tuple[str, ...], path: str) -> None:
    special = _special_pieces(pieces)
    missing = [piece for piece in special if piece not in pieces]
    of_sentencepiece = marked_pieces(pieces) < 0
    if not missing and not of_sentencepiece:
        return
    what = f"has no piece {' '.join(missing)}"
    if set(pieces) == {" "}:
        what = "is empty"
    elif of_sentencepiece:
        what = "is a list of pieces of SentencePiece or BPE"
    raise errors.UserError(
        f"`vocab_file={path}` {what}. A WordPiece vocabulary has one piece a "
        f"line, {' '.join(special)} among them. Give the vocabulary "
        "that belongs to the model. A SentencePiece one is a binary file that "
        "ends in .model: `spm_model_file=30k-clean.model`"
    )
