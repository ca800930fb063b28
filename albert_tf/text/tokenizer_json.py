"""The `tokenizer.json` of Hugging Face: a vocabulary and its rules as data.

The library `tokenizers` needs this file only. It offers fixed building blocks,
so each rule of cleaning.py and wordpiece.py is expressed by them: sets of
characters are regular expressions, made from Python's tables; the replacements
of SentencePiece come from the table in its model.

docs/checkpoints.md lists what cannot be expressed. `tokenizer_check` compares
the file with the vocabulary on texts made from its pieces.

Source of blocks and keys: tokenizers 0.23.3, its serialization.
"""

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf.common import errors, strict_json
from albert_tf.text import (
    charsmap,
    cleaning,
    tokenization,
    wordpiece,
    wordpiece_rules,
)

_SPACE = " "
# No characters, so no text has them: a place to cut at, and a space.
_CUT, _BLANK = "\U0010ffff", "\U0010fffe"
_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece
_IN_TEXT = (_PieceType.NORMAL, _PieceType.USER_DEFINED)
_NEVER_IN_TEXT = (_PieceType.CONTROL, _PieceType.BYTE)


def make(tokenizer: tokenization.AnyTokenizer) -> str:
    """Return the content of `tokenizer.json`."""
    if isinstance(tokenizer, wordpiece.WordPieceTokenizer):
        parts = _wordpiece(tokenizer)
    else:
        parts = _sentencepiece(tokenizer)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokenizer),
        "post_processor": marks(
            {t.pieces[i]: i for t in [tokenizer] for i in (t.cls_id, t.sep_id)}
        ),
        **parts,
    }
    return strict_json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def special_pieces(tokenizer: tokenization.AnyTokenizer) -> dict[str, str]:
    """Return {"pad_token": "<pad>", "unk_token": "<unk>", ...}."""
    return {
        f"{name}_token": tokenizer.pieces[getattr(tokenizer, f"{name}_id")]
        for name in ("pad", "unk", "cls", "sep", "mask")
    }


def _added_tokens(tokenizer: tokenization.AnyTokenizer) -> list[dict[str, Any]]:
    """Return the pieces that the library looks for in text before it cuts it.

    It finds `[MASK]`, as `Tokenizer.encode_with_masks` does. It looks for the
    others in cleaned text, from which `_hidden` removes them.
    """
    is_sentencepiece = isinstance(tokenizer, tokenization.Tokenizer)
    ids = tokenizer.pieces_to_ids(special_pieces(tokenizer).values())
    return [
        {
            "id": id_,
            "content": tokenizer.pieces[id_],
            "single_word": False,
            "lstrip": id_ == tokenizer.mask_id and is_sentencepiece,
            "rstrip": False,
            "normalized": id_ != tokenizer.mask_id,
            "special": True,
        }
        for id_ in sorted(ids)
    ]


def _hidden(
    tokenizer: tokenization.AnyTokenizer,
    others: Iterable[str] = (),
    text_pieces: Sequence[str] = (),
    cut: str = 2 * _SPACE,
) -> list[dict[str, Any]]:
    """Return steps after which no text contains a special piece.

    "[CLS]" in a sentence is text, as in the original. So `cut` is inserted
    into it, which no cleaned text has, and text is cut there. The library also
    cleans the pieces that it looks for. These must not change, so a text that
    consists of such a piece only is left as it is.

    `others` are further pieces that text never yields, `text_pieces` those that
    it can.
    """
    special = special_pieces(tokenizer)
    sought = {p for name, p in special.items() if name != "mask_token"}
    endings: dict[str, list[str]] = {}
    steps = []
    for piece in sorted({*sought, *others, special["mask_token"]}):
        cleaned = tokenizer.clean(piece)
        if cleaned == piece:
            place = _place_to_cut(piece, text_pieces)
            endings.setdefault(piece[:place], []).append(piece[place:])
        elif piece in sought:
            steps.append(_replace(rf"\A{_escaped(cleaned)}\z", piece))
    whole = "|".join(map(_escaped, sorted(sought)))
    for start, ends in endings.items():
        following = "|".join(map(_escaped, ends))
        pattern = rf"(?!\A(?:{whole})\z){_escaped(start)}(?={following})"
        steps.append(_replace(pattern, start + cut))
    return steps


def _place_to_cut(piece: str, text_pieces: Sequence[str]) -> int:
    """Return a position in a piece that no piece of text spans, if possible."""
    for place in range(1, len(piece)):
        pair = piece[place - 1 : place + 1]
        if not any(pair in other for other in text_pieces):
            return place
    return 1


def marks(ids: dict[str, int]) -> dict[str, Any]:
    """Return [CLS] A [SEP] and [CLS] A [SEP] B [SEP], for the ids of both."""

    def part(kind: str, name: str, segment: int) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    cls, sep = ids
    single = [
        part("SpecialToken", cls, 0),
        part("Sequence", "A", 0),
        part("SpecialToken", sep, 0),
    ]
    second = [part("Sequence", "B", 1), part("SpecialToken", sep, 1)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *second],
        "special_tokens": {
            piece: {"id": piece, "ids": [id_], "tokens": [piece]}
            for piece, id_ in ids.items()
        },
    }


def _sequence(kind: str, steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(steps)}


def _replace(pattern: str, content: str = "") -> dict[str, Any]:
    return {
        "type": "Replace",
        "pattern": {"Regex": pattern},
        "content": content,
    }


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": False,
    }


def _lower_case() -> list[dict[str, Any]]:
    """Return steps that do what `str.lower` does.

    `tokenizers` lower-cases each character alone, but a capital sigma at the
    end of a word has another small letter.
    """
    cased, ignored = _sigma_classes()
    final = rf"(?<={cased}{ignored}*)Σ(?!{ignored}*{cased})"
    return [_replace(final, "ς"), {"type": "Lowercase"}]


def with_older_pattern(rules: Any) -> Any:
    """Return parsed rules as they were written up to 2026-11-30.

    They mean the same, but JavaScript could not read that pattern.
    """
    cased, ignored = _sigma_classes()
    now, then = (
        strict_json.dumps(f"{start}Σ")[1:-1]
        for start in (f"(?<={cased}{ignored}*)", rf"{cased}{ignored}*\K")
    )
    return strict_json.loads(strict_json.dumps(rules).replace(now, then))


@functools.cache
def _sigma_classes() -> tuple[str, str]:
    """Return the classes of cased letters and of what is ignored after them.

    They are derived from `str.lower`, which uses them to decide whether a sigma
    ends a word.
    """

    def is_cased(text: str) -> bool:
        return (text + "Σ").lower().endswith("ς")

    cased = cleaning.character_class(is_cased)
    return cased, cleaning.character_class(
        lambda c: not is_cased(c) and is_cased("A" + c)
    )


# WordPiece


def _wordpiece(tokenizer: wordpiece.WordPieceTokenizer) -> dict[str, Any]:
    return {
        "normalizer": _sequence("normalizers", _wordpiece_cleaning(tokenizer)),
        "pre_tokenizer": _sequence(
            "pretokenizers",
            [
                _split(cleaning.character_class(str.isspace), "Removed"),
                _split(cleaning.character_class(_is_word), "Isolated"),
            ],
        ),
        "decoder": {
            "type": "WordPiece",
            "prefix": wordpiece_rules.CONTINUATION,
            "cleanup": True,
        },
        "model": {
            "type": "WordPiece",
            "unk_token": wordpiece.UNK,
            "continuing_subword_prefix": wordpiece_rules.CONTINUATION,
            "max_input_chars_per_word": tokenizer.longest_word,
            "vocab": {p: id_ for id_, p in enumerate(tokenizer.pieces)},
        },
    }


def _is_word(character: str) -> bool:
    return wordpiece_rules.is_cjk(character) or wordpiece_rules.is_punctuation(
        character
    )


def _wordpiece_cleaning(
    tokenizer: wordpiece.WordPieceTokenizer,
) -> list[dict[str, Any]]:
    """Return the steps of `wordpiece_rules.clean_text`.

    Spaces around Chinese characters are left out: the pre-tokenizer cuts there.
    """
    spaces = _replace(cleaning.character_class(str.isspace) + "+", _SPACE)
    steps = [
        _replace(cleaning.character_class(wordpiece_rules.is_dropped)),
        spaces,
    ]
    if tokenizer.do_lower_case:
        steps += _lower_case()
        if not tokenizer.keep_accents:
            steps += [
                {"type": "NFD"},
                _replace(cleaning.character_class(wordpiece_rules.is_accent)),
            ]
    return [*steps, *_hidden(tokenizer)]


# SentencePiece


def _sentencepiece(tokenizer: tokenization.Tokenizer) -> dict[str, Any]:
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    _check_kind(model)
    text_pieces = [p.piece for p in model.pieces if p.type in _IN_TEXT]
    others = [p.piece for p in model.pieces if p.type in _NEVER_IN_TEXT]
    mark = tokenization.WORD_START
    has_bytes = model.trainer_spec.byte_fallback
    # Words can be cut separately if no piece spans two.
    has_words = not any(mark in piece[1:] for piece in text_pieces)
    metaspace = _metaspace(mark, "first", has_words)
    whole = "|".join(map(_escaped, special_pieces(tokenizer).values()))
    return {
        "normalizer": _sequence(
            "normalizers",
            [
                *_sentencepiece_cleaning(tokenizer, model),
                *_hidden(tokenizer, others, text_pieces, _CUT),
                # What begins no word: it may stand after a mask.
                _replace(rf"\A(?!(?:{whole})\z)(?=[^ ])", _CUT),
            ],
        ),
        "pre_tokenizer": _sequence(
            "pretokenizers",
            _words(mark) if has_words else [_split(_CUT, "Removed"), metaspace],
        ),
        "decoder": {
            "type": "Sequence",
            "decoders": [metaspace, {"type": "ByteFallback"}, {"type": "Fuse"}],
        }
        if has_bytes
        else metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "byte_fallback": has_bytes,
            "vocab": _scored_pieces(tokenizer, model),
        },
    }


def _metaspace(mark: str, where: str, split: bool) -> dict[str, Any]:
    return {
        "type": "Metaspace",
        "replacement": mark,
        "prepend_scheme": where,
        "split": split,
    }


def _words(mark: str) -> list[dict[str, Any]]:
    """Return steps that put the mark before words in the place of spaces.

    A mark that replaces a space has its place in the text, so words would begin
    at the space. One that is put before a word begins with it. After a mask the
    library puts one only where there is a space.
    """
    return [
        _metaspace(_BLANK, "first", split=False),
        _split(f"{_BLANK}{_CUT}?", "Removed"),
        _metaspace(mark, "always", split=True),
        _split(f"{mark}?{_CUT}", "Removed"),
    ]


def _check_kind(model: sentencepiece_model_pb2.ModelProto) -> None:
    """Refuse a model that is not like those of ALBERT."""
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    fits = {
        "model_type": trainer.model_type == trainer.UNIGRAM,
        "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
    }
    wrong = [setting for setting, is_fine in fits.items() if not is_fine]
    if wrong:
        raise errors.UserError(
            "The SentencePiece vocabulary differs from ALBERT's in "
            f"{', '.join(wrong)}. Such vocabularies cannot be written for "
            "Hugging Face. Keep this model in a checkpoint of this project."
        )


def _escaped(text: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)


def _scored_pieces(
    tokenizer: tokenization.Tokenizer, model: sentencepiece_model_pb2.ModelProto
) -> list[tuple[str, float]]:
    """Return each piece with its logarithmic probability.

    No text yields a piece like "▁2012," (see `Tokenizer.encode_pieces`). So it
    gets a space, which no text has at this point: "▁2012 ,".

    Source of the score of user-defined symbols: sentencepiece 0.2.1,
    unigram_model.cc, Model::EncodeOptimized.
    """
    best = max(p.score for p in model.pieces if p.type == p.NORMAL)
    scored = []
    for id_, piece in enumerate(model.pieces):
        text, score = piece.piece, piece.score
        if piece.type == piece.USER_DEFINED:
            score = len(text.encode()) * best - 0.1
        if id_ in tokenizer.digit_comma_ids or piece.type == piece.UNUSED:
            text = f"{text[:-1]}{_SPACE}{text[-1]}"
        scored.append((text, score))
    return scored


def _sentencepiece_cleaning(
    tokenizer: tokenization.Tokenizer, model: sentencepiece_model_pb2.ModelProto
) -> list[dict[str, Any]]:
    """Return the steps of `cleaning.preprocess_text` and of SentencePiece.

    A space at the beginning stays: it becomes the marker of the first word.
    """
    steps = [
        _replace(cleaning.character_class(str.isspace) + "+", _SPACE),
        _replace(r" \z"),
    ]
    if tokenizer.keep_accents:
        steps.append({"type": "NFKC"})
    else:
        accents = cleaning.character_class(unicodedata.combining)
        steps += [{"type": "NFKD"}, *_removed(accents)]
    if tokenizer.do_lower_case:
        steps += _lower_case()
    table = charsmap.replacements(model.normalizer_spec.precompiled_charsmap)
    folded = functools.partial(
        cleaning.fold_characters,
        lower=tokenizer.do_lower_case,
        keep_accents=tokenizer.keep_accents,
    )
    steps += _replacements(
        {k: v for k, v in table.items() if k != v and k == folded(k)}
    )
    spaces = [_replace(" +", _SPACE), _replace(r" \z")]
    return [*steps, *spaces]


def _replacements(table: dict[str, str]) -> list[dict[str, Any]]:
    """Return the replacements of SentencePiece that apply to cleaned text.

    Hangul and other letters that cleaning has decomposed are composed (NFC).
    Characters that Python's tables lack are left out.
    """
    single: dict[str, list[int]] = {}
    others = []
    is_composed = False
    for old, new in sorted(
        table.items(), key=lambda item: (-len(item[0]), item)
    ):
        if unicodedata.normalize("NFC", old) == new:
            is_composed = True
        elif any(unicodedata.category(c) == "Cn" for c in old):
            continue
        elif len(old) == 1:
            single.setdefault(new, []).append(ord(old))
        else:
            others.append(_replace(_escaped(old), new))
    if is_composed:
        others.append({"type": "NFC"})
    steps = others
    for new, codes in single.items():
        pattern = cleaning.class_of(codes)
        steps += [_replace(pattern, new)] if new else _removed(pattern)
    return steps


def _removed(pattern: str) -> list[dict[str, Any]]:
    """Return steps that remove a class of characters.

    The library puts the marker of the first word only before the first
    character of a text. If that character is removed, it is replaced by a
    space, which becomes the marker.
    """
    return [_replace(rf"\A{pattern}+", _SPACE), _replace(pattern)]
