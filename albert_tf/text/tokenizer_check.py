"""Check that a `tokenizer.json` gives the ids of its vocabulary.

It is compared on texts made from the vocabulary's own pieces, so that they are
ordinary text in any language, and on some hard texts.
"""

import functools
import random
import re
from typing import Any

from albert_tf.common import errors, packages, strict_json
from albert_tf.text import tokenization, tokenizer_json

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_NUM_LINES = 1000
_PIECES_PER_LINE = 20
# Two cuts are equally likely within this difference of their logarithmic
# probabilities: SentencePiece adds in float32, `tokenizers` in float64.
_TIE = 1e-3

HARD_TEXTS = (
    "",
    " \t\n",
    "  a  b\u00a0c\u3000d\u2028e\u200bf\u00adg\x00h\x1fi\x85j ",
    "state-of-the-art – em—dash, “double” ‘single’ «guillemets» `tick` ``x''",
    "[a] (b) {c} <d> [[e]] <b>bold</b> https://example.com/a?b=c#d",
    "3.14 50% €5 №½²①ﬁ…㎏",
    "Café naïve Ångström İstanbul ß ẞ e\u0301 o\u0308 ǅ",
    "ΟΔΟΣ ΑΣ. ΑΣ'Α Σ",
    "今天天气很好。我们去公园散步吧！",
    "日本語のガギグ ｶﾞｷﾞ。",
    "한국어 텍스트 값",
    "العَرَبِيَّة نص",
    "हिन्दी में पाठ",
    "ไทยไม่มีช่องว่าง",
    "👍🏽 👩\u200d👩\u200d👧 🇩🇪",
    "[CLS] a [SEP] b <pad> <unk> [PAD] [UNK] [mask]",
    "It is [MASK]. [MASK] [MASK][MASK] b [MASK]ing",
    "x" * 250,
)

# Imports `tokenizers`, which nothing else in albert_tf needs.
require_library = functools.partial(
    packages.require,
    "tokenizers",
    install="pip install tokenizers==0.23.3",
    argument="format=huggingface",
)


def check(content: str, tokenizer: tokenization.AnyTokenizer) -> None:
    """Make sure that the library `tokenizers` gives the vocabulary's ids.

    `content` is what `tokenizer_json.make` returned for it; a thousand texts
    are compared.
    """
    library = require_library().Tokenizer.from_str(content)
    texts = [*HARD_TEXTS, *_texts_of_pieces(tokenizer)]
    encodings = library.encode_batch(texts, add_special_tokens=False)
    scores = _scores(content)
    mark = tokenization.WORD_START
    has_words = not any(mark in piece[1:] for piece in tokenizer.pieces)
    special = tokenizer_json.special_pieces(tokenizer).values()
    for text, encoding in zip(texts, encodings, strict=True):
        ours, theirs = tokenizer.encode_with_masks(text), encoding.ids
        if ours != theirs and not _is_tie(ours, theirs, scores):
            raise errors.UserError(
                f"The library tokenizers cuts {text!r} into "
                f"{' '.join(tokenizer.ids_to_pieces(theirs))}; with this "
                "vocabulary it must be "
                f"{' '.join(tokenizer.ids_to_pieces(ours))}. In Hugging Face "
                "the model would get other pieces than in training. Keep it "
                "in a checkpoint of this project."
            )
        has_special = any(piece in text for piece in special)
        if ours == theirs and has_words and not has_special:
            _compare_places(text, tokenizer, encoding)


def _compare_places(
    text: str, tokenizer: tokenization.AnyTokenizer, encoding: Any
) -> None:
    """Make sure that pieces lie where ours do, without the spaces around.

    A mark alone lies at the space before a word, or at the word. Of the bytes
    of a character only the first has a place here.
    """
    _, *edges = tokenizer.encode_with_offsets(text)
    columns = encoding.tokens, encoding.offsets, *edges
    for name, (a, b), start, end in zip(*columns, strict=True):
        if start == end or _BYTE.fullmatch(name):
            continue
        is_word = start <= a < b <= end and text[a:b] == text[a:b].strip()
        if name != tokenization.WORD_START and not is_word:
            raise errors.UserError(
                f"The library tokenizers places {name!r} of {text!r} at "
                f"{text[a:b]!r}; it must be {text[start:end].strip()!r}. In "
                "Hugging Face spans would get other texts. Keep the model in "
                "a checkpoint of this project."
            )


def _texts_of_pieces(tokenizer: tokenization.AnyTokenizer) -> list[str]:
    """Return texts of random pieces.

    Numbers with commas are left out: `tokenizers` cannot follow a vocabulary
    with pieces like "5,", see docs/checkpoints.md.
    """
    special = {p for p in tokenizer.pieces if p[:1] in "<[" and p[1:]}
    ids = [i for i, p in enumerate(tokenizer.pieces) if p not in special]
    generator = random.Random(0)
    lines = [
        tokenizer.decode(generator.choices(ids, k=_PIECES_PER_LINE))
        for _ in range(_NUM_LINES)
    ]
    return [line.replace(",", " ") for line in lines]


def _scores(content: str) -> list[float]:
    """Return the score of each piece; an empty list for WordPiece."""
    vocabulary = strict_json.loads(content)["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return []
    return [score for _, score in vocabulary]


def _is_tie(ours: list[int], theirs: list[int], scores: list[float]) -> bool:
    """Tell whether two cuts of a text are equally likely."""
    if not scores:
        return False
    difference = sum(scores[i] for i in ours) - sum(scores[i] for i in theirs)
    return abs(difference) < _TIE
