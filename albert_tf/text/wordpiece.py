"""WordPiece tokenization: text to vocabulary ids and back.

The released Chinese models use it. A text is cleaned, then cut into words at
spaces, around Chinese characters and at punctuation. Each word is cut into the
longest pieces that are in the vocabulary. The rules are BERT's.

`tokenization.load` chooses between this and SentencePiece.
tokenization_ops.py implements the same with TensorFlow operations.
"""

import collections
import hashlib
import itertools
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from albert_tf.common import errors, files
from albert_tf.text import huggingface_rules, normalization

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
CONTINUATION = "##"  # Begins a piece that does not begin a word.
LONGEST_WORD = 200  # Characters; a longer word is unknown as a whole.

# Unicode's blocks of Chinese characters (also used in Japanese and Korean).
_CJK_RANGES = (
    ("\u4e00", "\u9fff"),
    ("\u3400", "\u4dbf"),
    ("\U00020000", "\U0002a6df"),
    ("\U0002a700", "\U0002b73f"),
    ("\U0002b740", "\U0002b81f"),
    ("\U0002b820", "\U0002ceaf"),
    ("\uf900", "\ufaff"),
    ("\U0002f800", "\U0002fa1f"),
)
# All marks of ASCII count as punctuation; Unicode calls some of them symbols.
_ASCII_MARK_RANGES = (("!", "/"), (":", "@"), ("[", "`"), ("{", "~"))


def is_dropped(character: str) -> bool:
    """Tell whether cleaning removes a character: control or U+FFFD."""
    if character in "\t\n\r":
        return False
    is_control = unicodedata.category(character) in ("Cc", "Cf")
    return is_control or character == "\ufffd"


def is_cjk(character: str) -> bool:
    """Tell whether a character is Chinese and so a word of its own."""
    return any(low <= character <= high for low, high in _CJK_RANGES)


def is_accent(character: str) -> bool:
    """Tell whether a character is a combining accent (category Mn)."""
    return unicodedata.category(character) == "Mn"


def is_punctuation(character: str) -> bool:
    """Tell whether a character is a punctuation mark, a word of its own."""
    return unicodedata.category(character).startswith("P") or any(
        low <= character <= high for low, high in _ASCII_MARK_RANGES
    )


class _CharacterTable(dict[int, str]):
    """A table for `str.translate` that works out each character once."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = self._replace(chr(code))
        return self[code]


def _clean_character(character: str) -> str:
    if is_dropped(character):
        return ""
    return f" {character} " if is_cjk(character) else character


_CLEAN = _CharacterTable(_clean_character)
_WITHOUT_ACCENTS = _CharacterTable(lambda c: "" if is_accent(c) else c)
_PUNCTUATION_APART = _CharacterTable(
    lambda c: f" {c} " if is_punctuation(c) else c
)


def clean_text(text: str, *, lower: bool, keep_accents: bool = False) -> str:
    r"""Clean a text as BERT does before it cuts words.

    Control characters are removed, runs of white space become one space, and
    Chinese characters get spaces around them. For an uncased vocabulary the
    text is lower-cased and accents are removed (NFD, category Mn).

    Source: the original's tokenization.BasicTokenizer; `keep_accents` is ours.

    Example:
        clean_text("A\x00É\t今天", lower=True) = "ae 今 天"
    """
    text = " ".join(text.translate(_CLEAN).split())
    if not lower:
        return text
    text = text.lower()
    if keep_accents or text.isascii():
        return text
    return unicodedata.normalize("NFD", text).translate(_WITHOUT_ACCENTS)


def split_words(cleaned: str) -> list[str]:
    """Cut a cleaned text into words; every punctuation mark is one.

    Example:
        split_words("it's 今 天。") = ["it", "'", "s", "今", "天", "。"]
    """
    return cleaned.translate(_PUNCTUATION_APART).split()


def flatten(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Join rows of ids.

    Returns:
        int32 [all ids]; the length of each row, int64 [rows].
    """
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
        do_lower_case: Whether text is lower-cased.
        keep_accents: Whether lower-cased text keeps its accents.
        pieces: All pieces in the order of their ids.
        pad_id, unk_id, cls_id, sep_id, mask_id: Ids of `SPECIAL_PIECES`; a word
            that the vocabulary cannot build is `unk_id`.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        *,
        keep_accents: bool = False,
    ) -> None:
        """Read a file with one piece a line, the first field.

        It may also be the `tokenizer.json` of Hugging Face.
        """
        files.require_file(vocab_file, "vocab_file")
        content = files.read_bytes(vocab_file)
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.do_lower_case = do_lower_case
        self.keep_accents = keep_accents
        lines = huggingface_rules.lines_of(content, vocab_file)
        self.pieces = _read_pieces(lines, vocab_file)
        self._ids = {piece: id_ for id_, piece in enumerate(self.pieces)}
        self._lengths = [
            len(piece.removeprefix(CONTINUATION)) for piece in self.pieces
        ]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[piece] for piece in SPECIAL_PIECES
        )

    @property
    def vocab_size(self) -> int:
        """Number of pieces, special ones included."""
        return len(self.pieces)

    @property
    def settings(self) -> dict[str, bool]:
        """The options, besides the vocabulary, that change tokenization."""
        return {
            "do_lower_case": self.do_lower_case,
            "keep_accents": self.keep_accents,
        }

    @property
    def normalization(self) -> normalization.Normalization:
        """What is done to text before it is cut."""
        return normalization.Normalization(
            **self.settings, kind=normalization.WORDPIECE
        )

    def clean(self, text: str) -> str:
        """Clean a text for this vocabulary."""
        return clean_text(
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
        words = map(self._word_ids, split_words(self.clean(text)))
        return list(itertools.chain.from_iterable(words))

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Clean and encode many texts."""
        return [self.encode(text) for text in texts]

    def encode_flat(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `tokenization.Tokenizer.encode_flat`."""
        return flatten(self.encode_batch(texts))

    def encode_with_offsets(
        self, text: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `tokenization.Tokenizer.encode_with_offsets`.

        Example, with vocab_chinese.txt, for the pieces of "今天 Wanted":
            starts = [0, 1, 3, 6], ends = [1, 2, 6, 9]
        """
        ids: list[int] = []
        lengths: list[int] = []
        for word in split_words(self.clean(text)):
            new_ids = self._word_ids(word)
            ids += new_ids
            if new_ids == [self.unk_id]:
                lengths.append(len(word))
            else:
                lengths += [self._lengths[id_] for id_ in new_ids]
        # The pieces, concatenated, are the cleaned text without white space.
        widths = [self._width(character) for character in text]
        sources = np.repeat(np.arange(len(text), dtype=np.int32), widths)
        stop = np.cumsum(lengths, dtype=np.int64)
        starts = sources[stop - np.array(lengths, np.int64)]
        return np.array(ids, np.int32), starts, sources[stop - 1] + 1

    def _width(self, character: str) -> int:
        """Return how many characters of the words one character becomes."""
        if character.isascii() and character.isprintable():
            return not character.isspace()
        return len("".join(self.clean(character).split()))

    def encode_with_masks(self, text: str) -> list[int]:
        """Encode a text in which each literal `[MASK]` stands for one piece.

        What follows the mask begins a word.

        Example, with vocab_chinese.txt, where "今" is 791 and "天" 1921:
            encode_with_masks("今[MASK]天") = [791, 103, 1921]
        """
        first, *others = map(self.encode, text.split(MASK))
        return first + [id_ for ids in others for id_ in (self.mask_id, *ids)]

    def pieces_to_ids(self, pieces: Iterable[str]) -> list[int]:
        """Look up pieces; one that the vocabulary lacks becomes `unk_id`."""
        return [self._ids.get(piece, self.unk_id) for piece in pieces]

    def ids_to_pieces(self, ids: Iterable[int]) -> list[str]:
        """Look up ids."""
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
            elif piece.startswith(CONTINUATION):
                text += piece.removeprefix(CONTINUATION)
            elif piece not in SPECIAL_PIECES:
                is_chinese = is_cjk(piece[0]) or any(map(is_cjk, text[-1:]))
                text += piece if is_chinese else f" {piece}"
        if self.normalization.unicode_form == "NFD":
            text = unicodedata.normalize("NFC", text)
        return text.strip()

    def _word_ids(self, word: str) -> list[int]:
        """Cut one word, always taking the longest piece that fits."""
        if len(word) > LONGEST_WORD:
            return [self.unk_id]
        ids, start, mark = [], 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                id_ = self._ids.get(mark + word[start:end])
                if id_ is not None:
                    break
            else:
                return [self.unk_id]
            ids.append(id_)
            start, mark = end, CONTINUATION
        return ids


def _read_pieces(content: bytes, path: str) -> tuple[str, ...]:
    """Return the pieces of a file; an empty line is one that no text yields."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            "is not UTF-8 text with one piece a line. If this is a "
            f"SentencePiece model, give it as `spm_model_file={path}`",
            "vocab_file",
            path,
        ) from error
    lines = text.removesuffix("\n").split("\n")
    pieces = tuple((line.split() or [" "])[0] for line in lines)
    _check_special_pieces(pieces, lines, path)
    # A piece with two ids: programs would disagree on later ids.
    piece, count = collections.Counter(pieces).most_common(1)[0]
    if count > 1:
        first = pieces.index(piece) + 1
        second = pieces.index(piece, first) + 1
        raise errors.UserError(
            f"has the piece {piece!r} in line {first} and again in line "
            f"{second}. Rename the later one, for example to [unused-{second}],"
            " so that the others keep their ids.",
            "vocab_file",
            path,
        )
    return pieces


def marked_pieces(pieces: Iterable[str]) -> int:
    """Return how many more pieces begin with "##" than with "▁" or "Ġ".

    WordPiece marks what continues a word, SentencePiece and BPE its beginning.
    """
    return sum(
        (piece[:2] == CONTINUATION) - (piece[0] in "▁Ġ")
        for piece in pieces
        if piece not in ("##", "▁", "Ġ")
    )


def _check_special_pieces(
    pieces: tuple[str, ...], lines: list[str], path: str
) -> None:
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    of_sentencepiece = marked_pieces(pieces) < 0
    if not missing and not of_sentencepiece:
        return
    what = f"has no piece {' '.join(missing)}"
    if not any(map(str.strip, lines)):
        what = "is empty"
    elif of_sentencepiece:
        what = "is a list of pieces of SentencePiece or BPE"
    raise errors.UserError(
        f"{what}. A WordPiece vocabulary has one piece a line, "
        f"{' '.join(SPECIAL_PIECES)} among them. Give the vocabulary that "
        "belongs to the model. A SentencePiece one is a binary file that ends "
        "in .model: `spm_model_file=30k-clean.model`",
        "vocab_file",
        path,
    )
