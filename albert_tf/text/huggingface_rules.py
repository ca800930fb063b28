"""How a WordPiece vocabulary of a Hugging Face folder is used.

Source: tokenizers, BertNormalizer; transformers, BertTokenizerFast.
"""

import os
from typing import Any

from albert_tf.common import errors, files, strict_json

TOKENIZER_NAME = "tokenizer.json"
_CONFIG_NAME = "tokenizer_config.json"
_ADVICE = "Copy or download it again."
# Their names in tokenizer_config.json and in a BertNormalizer.
_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# How words and their pieces are found, in tokenizer_config.json.
_CUTTERS = {
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}


def settings_beside(vocabulary: str) -> dict[str, bool] | None:
    """Return `do_lower_case` and `keep_accents` for a vocabulary.

    Returns:
        None if no file of its folder says so.

    Raises:
        UserError: Text is cleaned or cut in a way that this project does not
            have.
    """
    folder = os.path.dirname(vocabulary)
    settings: dict[str, Any] = {}
    rules = files.safe_join(folder, TOKENIZER_NAME)
    if files.exists(rules):
        normalizer = strict_json.read_object(rules, _ADVICE).get("normalizer")
        if isinstance(normalizer, dict) and (
            normalizer.get("type") == "BertNormalizer"
        ):
            settings = {key: normalizer.get(n) for key, n in _NAMES.items()}
    path = files.safe_join(folder, _CONFIG_NAME)
    if files.exists(path):
        values = strict_json.read_object(path, _ADVICE)
        settings |= {key: values[key] for key in _NAMES if key in values}
        _check_cutters(folder, values)
    if "do_lower_case" not in settings:
        return None
    lower, strip = settings["do_lower_case"], settings.get("strip_accents")
    for key, value in settings.items():
        is_unsaid = key == "strip_accents" and value is None
        if not isinstance(value, bool) and not is_unsaid:
            raise errors.UserError(
                f"{folder} has {key}={value!r} for its tokenizer; it must be "
                f"true or false. {_ADVICE}"
            )
    unknown = ""
    if strip and not lower:
        unknown = "strip_accents"
    elif not settings.get("tokenize_chinese_chars", True):
        unknown = "tokenize_chinese_chars"
    if unknown:
        raise _other_rules(
            folder,
            {unknown: settings[unknown], "do_lower_case": lower},
            "Cased text keeps its accents here, and Chinese characters are "
            "words always.",
        )
    return {"do_lower_case": lower, "keep_accents": strip is False and lower}


def _check_cutters(folder: str, values: dict[str, Any]) -> None:
    """Refuse words and pieces that are not found as BERT does it."""
    others = [
        key
        for key, supported in _CUTTERS.items()
        if values.get(key) not in (None, supported)
    ]
    if values.get("tokenizer_class") == "BertJapaneseTokenizer":
        others.append("tokenizer_class")
    if others:
        raise _other_rules(
            folder,
            {key: values[key] for key in others},
            "Words are cut at white space and marks here, and their pieces are "
            "WordPiece's.",
        )


def _other_rules(
    folder: str, settings: dict[str, Any], here: str
) -> errors.UserError:
    told = ", ".join(f"{k}={strict_json.dumps(v)}" for k, v in settings.items())
    return errors.UserError(
        f"The tokenizer in {folder} has {told}. {here} Choose another model, "
        "or give the vocabulary alone in a folder of its own, with other ids "
        "for such text."
    )


def is_wordpiece(path: str) -> bool:
    """Tell whether a `tokenizer.json` holds a WordPiece vocabulary."""
    model = strict_json.read_object(path, _ADVICE).get("model")
    return isinstance(model, dict) and model.get("type") == "WordPiece"


def lines_of(content: bytes, path: str) -> bytes:
    """Return the pieces, one a line, of a vocabulary or a `tokenizer.json`."""
    if not content.startswith(b"{") or b'"model"' not in content:
        return content
    try:
        values = strict_json.loads(content)
        pieces = dict(values["model"]["vocab"])
        pieces |= {v["content"]: v["id"] for v in values["added_tokens"]}
        ordered = sorted(pieces, key=pieces.__getitem__)
        is_whole = list(range(len(ordered))) == sorted(pieces.values())
    except (ValueError, KeyError, TypeError):
        ordered, is_whole = [], False
    if not is_whole:
        raise errors.UserError(
            f"`vocab_file={path}` is a tokenizer.json without a WordPiece "
            "vocabulary whose ids count from 0. Give a vocab.txt with one "
            "piece a line."
        )
    if spaced := [piece for piece in ordered if piece.split() != [piece]]:
        raise errors.UserError(
            f"`vocab_file={path}` has the piece {spaced[0]!r}. Pieces with "
            "white space are not supported. Take it out of added_tokens."
        )
    return "".join(f"{piece}\n" for piece in ordered).encode()
