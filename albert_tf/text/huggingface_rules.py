"""A vocabulary of a Hugging Face folder, and how text is cut by it.

Every key that changes ids is read: what is computed here, too, is returned, and
all else is refused by name. tokenizer_json.py writes such files.

Source: tokenizers 0.23.3, its serialization; transformers 3 to 5.23,
BertTokenizer, AlbertTokenizer and AutoTokenizer.
"""

import base64
import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert_tf.common import errors, files, imports, strict_json

message = imports.later("google.protobuf.message")
sentencepiece_model_pb2 = imports.later("sentencepiece.sentencepiece_model_pb2")
tokenizer_json = imports.later("albert_tf.text.tokenizer_json")
wordpiece = imports.later("albert_tf.text.wordpiece")

TOKENIZER_NAME = "tokenizer.json"
_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_ADDED, _MODEL = "added_tokens.json", "config.json"
_BESIDE = _CONFIG, _SPECIAL, _ADDED, _MODEL
_ADVICE = "Copy or download it again."
_SHOWN = 200  # Characters of a value.
LONGEST_WORDS = 100, 200  # Characters; Google's code and ours have 200.
# They take `tokenizer.json` as it is; others make rules of their own.
_AS_IT_IS = "PreTrainedTokenizer", "TokenizersBackend"
# Steps of ALBERT's that the original does not have; see docs/checkpoints.md.
_LEFT_OUT = (
    ({"String": "``"}, '"'),
    ({"String": "''"}, '"'),
    ({"Regex": " {2,}"}, " "),
)
# Further ones of XLM-R's: SentencePiece drops these blanks, too.
_BLANKS = (
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
)
# Where accents are kept, the table composes characters, as is done here.
_ALBERT_STEPS = re.compile(
    r"((?P<strip>NFKD StripAccents)|(?=.*Precompiled))"
    r" ?(?P<lower>Lowercase)? ?(Precompiled)?"
)


class Kind(NamedTuple):
    """What transformers has for a kind of vocabulary.

    Attributes:
        classes: Its tokenizers, by names without "Fast".
        special: The pieces that text never yields.
        casing: Keys of `tokenizer_config.json`, with their defaults.
        allowed: Other keys there, and what they must be.
        model: Keys of `model` in `tokenizer.json`, and what they may be.
        unused: Further pieces that text never yields.
    """

    classes: tuple[str, ...]
    special: dict[str, str]
    casing: dict[str, bool | None]
    allowed: dict[str, Any]
    model: dict[str, tuple[Any, ...]]
    unused: tuple[str, ...] = ()

    @property
    def cuts_words(self) -> bool:
        return "WordPiece" in self.model["type"]


_MARKS = {f"{n}_token": f"[{n.upper()}]" for n in ("cls", "sep", "mask")}
BERT = Kind(
    ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    {"pad_token": "[PAD]", "unk_token": "[UNK]", **_MARKS},
    {"do_lower_case": True, "strip_accents": None},
    {
        "tokenize_chinese_chars": True,
        "clean_text": True,
        "do_basic_tokenize": True,
        "never_split": [],
        "wordpieces_prefix": "##",
        "word_tokenizer_type": "basic",
        "subword_tokenizer_type": "wordpiece",
        "auto_map": {},
    },
    {"type": ("WordPiece",), "continuing_subword_prefix": ("##",)},
)
_ROBERTA = {
    "pad_token": "<pad>",
    **dict.fromkeys(("cls_token", "bos_token"), "<s>"),
    **dict.fromkeys(("sep_token", "eos_token"), "</s>"),
    "mask_token": "<mask>",
}
MPNET = BERT._replace(
    classes=("MPNetTokenizer",),
    special={"unk_token": "[UNK]", **_ROBERTA},
    unused=("<unk>",),
)
ALBERT = Kind(
    ("AlbertTokenizer",),
    {"pad_token": "<pad>", "unk_token": "<unk>", **_MARKS},
    {"do_lower_case": True, "keep_accents": False},
    {
        "remove_space": True,
        "add_prefix_space": True,
        "sp_model_kwargs": {},
        "auto_map": {},
    },
    {"type": ("Unigram",), "byte_fallback": (False,)},
)
# Its tokenizer does not read how text is cased.
XLM_ROBERTA = ALBERT._replace(
    classes=("XLMRobertaTokenizer",),
    special={"unk_token": "<unk>", **_ROBERTA},
    casing={},
)
_WITH_MARKS_OF_ROBERTA = {BERT.classes: MPNET, ALBERT.classes: XLM_ROBERTA}


def _other_rules(
    path: str,
    key: str,
    value: Any,
    advice: str = "Choose another model, or give the vocabulary alone in a "
    "folder of its own, with other ids for such text.",
) -> errors.UserError:
    told = strict_json.dumps(value, ensure_ascii=False)[:_SHOWN]
    return errors.UserError(
        f"{path} has {key}={told} for its tokenizer, which this project does "
        f"not have. {advice}"
    )


@contextlib.contextmanager
def _damage_told(path: str) -> Iterator[None]:
    try:
        yield
    except errors.UserError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError):
        raise errors.UserError(
            f"{path} is damaged, or of an unknown form. {_ADVICE}"
        ) from None


def paths_beside(vocabulary: str) -> list[str]:
    """Return where files may lie that say how a vocabulary is used."""
    folder = os.path.dirname(vocabulary)
    return [os.path.join(folder, n) for n in (*_BESIDE, TOKENIZER_NAME)]


def settings_beside(
    vocabulary: str, kind: Kind, *, is_described: bool = False
) -> dict[str, Any]:
    """Return what the files beside a vocabulary say of its use.

    Args:
        is_described: Whether this project's own description says so. Then
            tokens that were added later are refused, and what is returned is
            the casing that `tokenizer_config.json` names.

    Returns:
        Arguments of `normalization.Normalization`; do_lower_case and
        keep_accents are missing if nothing says so.

    Raises:
        UserError: Text is cleaned or cut in a way that this project does not
            have.
    """
    paths, values, rules = _read_files(vocabulary)
    # Old ones have no model_type.
    is_hub = {"model_type", "architectures"} & values.get(_MODEL, {}).keys()
    if not (is_hub or {_CONFIG, rules} & values.keys()):
        return {}
    if wordpiece.has_marks_of_roberta(_pieces_in(vocabulary, kind)):
        kind = _WITH_MARKS_OF_ROBERTA[kind.classes]
    _check_added(vocabulary, {paths[n]: v for n, v in values.items()}, kind)
    name = "" if is_described else _check_keys(paths, values, kind)
    said = {"longest_word": LONGEST_WORDS[0]} if kind.cuts_words else {}
    config = values.get(_CONFIG, {})
    of_config = [config.get(key, value) for key, value in kind.casing.items()]
    casing = _casing(kind, *(of_config or (False, True)))
    if casing is None:
        raise _other_rules(paths[_CONFIG], ", ".join(kind.casing), of_config)
    is_said = any(config.get(key) is not None for key in kind.casing)
    if is_described:
        return casing if is_said else {}
    if rules not in values:
        return {**said, **(casing if is_said else {})}
    with _damage_told(paths[rules]):
        said |= _read_rules(values[rules], paths[rules], kind, vocabulary)
    if name in _AS_IT_IS or casing.items() <= said.items():
        return said
    if kind.cuts_words and "do_lower_case" in config:
        return {**said, **casing}
    told = strict_json.dumps({key: said[key] for key in casing})
    raise errors.UserError(
        f"{paths[rules]} has {told}, but {name} of transformers takes "
        f"{strict_json.dumps(casing)}, from {paths[_CONFIG]} or by default. "
        "Write into that file what is right."
    )


def _read_files(
    vocabulary: str,
) -> tuple[dict[str, str], dict[str, dict[str, Any]], str]:
    """Return paths and contents by names; and which is the `tokenizer.json`."""
    if not (files.is_remote(vocabulary) or os.path.isfile(vocabulary)):
        return {}, {}, ""  # What opens it says so.
    folder, rules = os.path.dirname(vocabulary), TOKENIZER_NAME
    if _is_json(files.read_bytes(vocabulary)):
        rules = os.path.basename(vocabulary)
    paths, values = {}, {}
    for name in (*_BESIDE, rules):
        # A config.json may be something else's.
        allowed = (errors.UserError, OSError) if name == _MODEL else ()
        with contextlib.suppress(*allowed):
            paths[name] = path = files.safe_join(folder, name)
            if files.exists(path):
                values[name] = strict_json.read_object(path, _ADVICE)
    return paths, values, rules


def _check_keys(
    paths: dict[str, str], values: dict[str, dict[str, Any]], kind: Kind
) -> str:
    """Refuse what this project does not have; return the class's name."""
    for place in (_CONFIG, _SPECIAL):
        for key, expected in (kind.allowed | kind.special).items():
            value = content = values.get(place, {}).get(key)
            if isinstance(value, dict):
                content = value.get("content", value)
            if content not in (None, expected):
                raise _other_rules(paths[place], key, value)
    for place in (_CONFIG, _MODEL):
        if value := values.get(place, {}).get("tokenizer_class"):
            name = str(value).removesuffix("Fast")
            if name not in (*kind.classes, *_AS_IT_IS):
                raise _other_rules(paths[place], "tokenizer_class", value)
            return name
    return kind.classes[0]


def _check_added(
    vocabulary: str, values: dict[str, dict[str, Any]], kind: Kind
) -> None:
    """Refuse tokens that transformers finds in texts before it cuts them."""
    for path, content in values.items():
        with _damage_told(path):
            tokens = [*(content.get("added_tokens_decoder") or {}).values()]
            tokens += content.get("added_tokens") or []
            for key in ("additional_special_tokens", "extra_special_tokens"):
                more = content.get(key) or []
                tokens += more.values() if isinstance(more, dict) else more
            if os.path.basename(path) == _ADDED:
                tokens += content
            texts = [t["content"] if isinstance(t, dict) else t for t in tokens]
        allowed = (*kind.special.values(), *kind.unused)
        others = [t for t in texts if t not in allowed]
        if others and not kind.cuts_words:
            model = _open_model(vocabulary)
            symbols = [p.piece for p in model.pieces if p.type != p.NORMAL]
            others = [token for token in others if token not in symbols]
        if others:
            raise _other_rules(
                path,
                "added tokens",
                others,
                "transformers looks for them in texts before it cuts words. If "
                "your texts have none of them, take them out of the folder's "
                "JSON files; else choose another model.",
            )


def _open_model(path: str) -> Any:
    try:
        return sentencepiece_model_pb2.ModelProto.FromString(content_of(path))
    except message.DecodeError:
        raise errors.UserError(
            f"{path} is not a SentencePiece model. {_ADVICE}"
        ) from None


def _pieces_in(path: str, kind: Kind) -> list[str]:
    if not kind.cuts_words:
        return [piece.piece for piece in _open_model(path).pieces]
    return content_of(path).decode(errors="replace").split()


def _casing(kind: Kind, lower: Any, accents: Any) -> dict[str, bool] | None:
    """Return do_lower_case and keep_accents; None for what is not known here.

    Args:
        accents: strip_accents of BERT, keep_accents of ALBERT.
    """
    of_words = kind.cuts_words
    is_flag = isinstance(accents, bool) or (of_words and accents is None)
    if not (isinstance(lower, bool) and is_flag):
        return None
    keeps = lower and accents is False if of_words else accents
    if of_words and accents and not lower:  # Cased text keeps them here.
        return None
    return {"do_lower_case": lower, "keep_accents": keeps}


def _read_rules(
    values: dict[str, Any], path: str, kind: Kind, vocabulary: str
) -> dict[str, Any]:
    """Return do_lower_case, keep_accents and, of words, `longest_word`.

    Args:
        values: The content of a `tokenizer.json`.
        vocabulary: The file itself, or the one that is read instead.
    """
    pieces, model = _pieces(values, path), values["model"]
    unk = kind.special["unk_token"]
    expected = {
        "unk_token": (unk,),
        "unk_id": (pieces.index(unk),),
        "max_input_chars_per_word": LONGEST_WORDS,
        "vocab": (model["vocab"],),
        **kind.model,
    }
    for key, value in model.items():
        if value not in expected.get(key, ()):
            raise _other_rules(path, f"model.{key}", value)
    steps = _flat(values["normalizer"], "normalizers")
    casing = _of_normalizer(steps, kind)
    other = "pre_tokenizer" if casing else "normalizer"
    if not _cuts_words(values["pre_tokenizer"], kind):
        casing = None
    if casing is None and kind.cuts_words:
        casing = _own_casing(values, vocabulary)
    if casing and not _adds_marks(values["post_processor"], pieces, kind):
        casing, other = None, "post_processor"
    if casing is None:
        raise _other_rules(path, other, values[other])
    known = _pieces_in(vocabulary, kind)
    if known != (" ".join(pieces).split() if kind.cuts_words else pieces):
        raise errors.UserError(
            f"{path} and {vocabulary} hold different pieces, or give them "
            "other ids. Keep what belongs to the model."
        )
    if kind.cuts_words:
        return {**casing, "longest_word": model["max_input_chars_per_word"]}
    return {**casing}


def _flat(part: Any, inner: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [step for each in part[inner] for step in _flat(each, inner)]


def _of_normalizer(
    steps: list[dict[str, Any]], kind: Kind
) -> dict[str, bool] | None:
    if kind.cuts_words:
        found = dict(steps[0]) if len(steps) == 1 else {}
        flags = [found.pop(key, None) for key in ("lowercase", "strip_accents")]
        fixed = {"clean_text": True, "handle_chinese_chars": True}
        is_its = found == {"type": "BertNormalizer", **fixed}
        return _casing(kind, *flags) if is_its else None
    types = [
        str(step["type"])
        for step in steps
        if (step.get("pattern"), step.get("content")) not in _LEFT_OUT
        and not (kind is XLM_ROBERTA and step in _BLANKS)
    ]
    match = _ALBERT_STEPS.fullmatch(" ".join(types))
    return match and _casing(kind, bool(match["lower"]), not match["strip"])


def _cuts_words(part: Any, kind: Kind) -> bool:
    """Tell whether a pre-tokenizer is that of a kind."""
    *before, last = _flat(part, "pretokenizers") or [{}]
    if kind.cuts_words:
        return not before and last == {"type": "BertPreTokenizer"}
    last = {"split": True, **last}
    if last.pop("add_prefix_space", False):
        last.setdefault("prepend_scheme", "always")
    named = {"type": "Metaspace", "replacement": "▁"}
    return before in ([], [{"type": "WhitespaceSplit"}]) and (
        last == {**named, "prepend_scheme": "always", "split": True}
    )


def _own_casing(
    values: dict[str, Any], vocabulary: str
) -> dict[str, bool] | None:
    """Return the casing of what `tokenizer_json` writes; None for others."""
    for casing in ({"do_lower_case": False}, {}, {"keep_accents": True}):
        tokenizer = wordpiece.WordPieceTokenizer(vocabulary, **casing)
        made = strict_json.loads(tokenizer_json.make(tokenizer))
        ours, given = (
            {key: rules[key] for key in ("normalizer", "pre_tokenizer")}
            for rules in (made, values)
        )
        if given in (ours, tokenizer_json.with_older_pattern(ours)):
            return dict(tokenizer.settings)
    return None


def _adds_marks(part: Any, pieces: list[str], kind: Kind) -> bool:
    """Tell whether [CLS] A [SEP] B [SEP] are laid out as here.

    With marks of RoBERTa a pair has two </s> there; nothing is read of pairs.
    """
    marks = [kind.special[f"{name}_token"] for name in ("cls", "sep")]
    ids = {mark: pieces.index(mark) for mark in marks}
    cls, sep = map(list, ids.items())
    old = {"type": "BertProcessing", "cls": cls, "sep": sep}
    if kind is MPNET:  # Its other keys are about offsets.
        old["type"] = "RobertaProcessing"
        return old.items() <= dict(part or {}).items()
    made = tokenizer_json.marks(ids)
    if kind is XLM_ROBERTA:
        part = {**(part or {}), "pair": made["pair"]}
    return part in (old, made)


def _is_json(content: bytes) -> bool:
    """Tell whether a file is a `tokenizer.json`, whatever its name."""
    return content.startswith(b"{") and b'"model"' in content


def option_of(path: str) -> str:
    """Return the option that names a vocabulary; it may be `tokenizer.json`."""
    content = files.read_bytes(path)
    if not (_is_json(content) or path.endswith(".json")):
        # A model holds scores of 0, a list no such byte.
        is_model = path.endswith(".model") or b"\0" in content
        return "spm_model_file" if is_model else "vocab_file"
    with _damage_told(path):
        is_model = _holds_model(strict_json.read_object(path, _ADVICE))
    return "spm_model_file" if is_model else "vocab_file"


def _holds_model(values: dict[str, Any]) -> bool:
    """Tell whether a `tokenizer.json` holds a SentencePiece model."""
    model = values["model"]
    # Old files have no type.
    return "unk_id" in model and model.get("type") in (None, "Unigram")


def content_of(path: str, content: bytes | None = None) -> bytes:
    """Return a vocabulary as a list of pieces or a SentencePiece model.

    Args:
        path: Such a file, or a `tokenizer.json`; `content` is what it holds.
    """
    content = files.read_bytes(path) if content is None else content
    if not _is_json(content):
        return content
    values = strict_json.read_object(path, _ADVICE)
    with _damage_told(path):
        if _holds_model(values):
            return _build_model(values, path)
        if (kind := values["model"].get("type", "WordPiece")) != "WordPiece":
            raise _other_rules(path, "model.type", kind)
        pieces = _pieces(values, path)
    if spaced := [piece for piece in pieces if piece.split() != [piece]]:
        raise errors.UserError(
            f"`vocab_file={path}` has the piece {spaced[0]!r}. Pieces with "
            "white space are not supported. Take it out of added_tokens."
        )
    return "".join(f"{piece}\n" for piece in pieces).encode()


def _pieces(values: dict[str, Any], path: str) -> list[str]:
    """Return the pieces in the order of their ids."""
    ids = values["model"]["vocab"]
    if isinstance(ids, list):
        ids = {piece: id_ for id_, (piece, _) in enumerate(ids)}
    ids = {**ids, **{t["content"]: t["id"] for t in values["added_tokens"]}}
    ordered = sorted(ids, key=ids.__getitem__)
    if list(range(len(ordered))) != [ids[piece] for piece in ordered]:
        raise errors.UserError(
            f"{path} is a tokenizer.json without a vocabulary whose ids count "
            "from 0. Give a vocab.txt with one piece a line, or a model of "
            "SentencePiece."
        )
    return ordered


def _build_model(values: dict[str, Any], path: str) -> bytes:
    """Return the SentencePiece model in a `tokenizer.json`."""
    steps = _flat(values["normalizer"], "normalizers")
    if not any(_of_normalizer(steps, kind) for kind in (ALBERT, XLM_ROBERTA)):
        raise _other_rules(
            path,
            "normalizer",
            values["normalizer"],
            "Copy spiece.model into its folder, with "
            "spiece.normalization.json if the model was made by this project.",
        )
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
    model.trainer_spec.unk_id = values["model"]["unk_id"]
    types = model.SentencePiece
    kinds = {
        t["content"]: types.CONTROL if t["special"] else types.USER_DEFINED
        for t in values["added_tokens"]
    } | {"<unk>": types.UNKNOWN}
    for piece, score in values["model"]["vocab"]:
        kind = kinds.get(piece, types.NORMAL)
        model.pieces.add(piece=piece, score=score, type=kind)
    for step in steps:
        if table := step.get("precompiled_charsmap"):
            model.normalizer_spec.precompiled_charsmap = base64.b64decode(table)
    return bytes(model.SerializeToString())
