"""Folders with tokenizers as others write them.

`write` makes the folder of transformers 4, BERT's or ALBERT's, with changes:
"FILE" replaces a file, "FILE:KEY.KEY" a value in it; `...` takes it away.
"""

import base64
import json
import pathlib

from sentencepiece import sentencepiece_model_pb2

from tests.conftest import FIXTURES

OWN = FIXTURES / "own_text"
RULES, CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIAL, ADDED = "special_tokens_map.json", "added_tokens.json"
NO_RULES = {RULES: ...}

_MARKS = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]
_SECOND = [
    {"Sequence": {"id": "B", "type_id": 1}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
]
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False}
BERT_CONFIG = {
    "clean_up_tokenization_spaces": True,
    "cls_token": "[CLS]",
    "do_basic_tokenize": True,
    "do_lower_case": True,
    "mask_token": "[MASK]",
    "model_max_length": 512,
    "never_split": None,
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "tokenizer_class": "BertTokenizer",
    "unk_token": "[UNK]",
}
MPNET_CONFIG = {
    **{key: value for key, value in BERT_CONFIG.items() if "_basic" not in key},
    **dict.fromkeys(("bos_token", "cls_token"), "<s>"),
    **dict.fromkeys(("eos_token", "sep_token"), "</s>"),
    "mask_token": "<mask>",
    "pad_token": "<pad>",
    "tokenizer_class": "MPNetTokenizer",
}
XLM_CONFIG = {
    **{k: v for k, v in MPNET_CONFIG.items() if k.endswith("_token")},
    "unk_token": "<unk>",
    "model_max_length": 512,
    "tokenizer_class": "XLMRobertaTokenizer",
}
ALBERT_CONFIG = {
    "bos_token": "[CLS]",
    "cls_token": "[CLS]",
    "do_lower_case": True,
    "eos_token": "[SEP]",
    "keep_accents": False,
    "mask_token": {
        "__type": "AddedToken",
        "content": "[MASK]",
        **_FLAGS,
        "lstrip": True,
        "normalized": True,
    },
    "model_max_length": 512,
    "pad_token": "<pad>",
    "remove_space": True,
    "sep_token": "[SEP]",
    "sp_model_kwargs": {},
    "tokenizer_class": "AlbertTokenizer",
    "unk_token": "<unk>",
}


def added(piece, id_, **changes):
    token = {"id": id_, "content": piece, **_FLAGS}
    return {**token, "normalized": False, "special": True, **changes}


def quotes(*pairs):
    return [
        {"type": "Replace", "pattern": {"String": old}, "content": new}
        for old, new in pairs
    ]


def sequence(name, *steps):
    steps = [s if isinstance(s, dict) else {"type": s} for s in steps]
    return {"type": "Sequence", name: steps}


METASPACE = {
    "type": "Metaspace",
    "replacement": "▁",
    "prepend_scheme": "always",
    "split": True,
}
QUOTES = quotes(("``", '"'), ("''", '"'))


def bert_rules():
    pieces = (OWN / "vocab.txt").read_text().split("\n")[:-1]
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: id_ for id_, piece in enumerate(pieces)},
        },
        **_frame(pieces, "[PAD]", "[UNK]"),
    }


def mpnet_pieces():
    """BERT's among others, with the marks of RoBERTa."""
    pieces = (OWN / "vocab.txt").read_text().split("\n")[:-1]
    return ["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]


def mpnet_rules():
    rules, pieces = bert_rules(), mpnet_pieces()
    rules["model"]["vocab"] = {p: id_ for id_, p in enumerate(pieces)}
    rules["added_tokens"] = [
        added(p, pieces.index(p)) for p in (*pieces[:4], "[UNK]", "<mask>")
    ]
    rules["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["</s>", 2],
        "cls": ["<s>", 0],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    return rules


def albert_rules(path=OWN / "spm.model"):
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    table = base64.b64encode(model.normalizer_spec.precompiled_charsmap)
    table = {"type": "Precompiled", "precompiled_charsmap": table.decode()}
    steps = "NFKD", "StripAccents", "Lowercase", table
    pieces = [piece.piece for piece in model.pieces]
    rules = {
        "normalizer": sequence("normalizers", *QUOTES, *steps),
        "pre_tokenizer": sequence(
            "pretokenizers", "WhitespaceSplit", METASPACE
        ),
        "decoder": METASPACE,
        "model": {
            "type": "Unigram",
            "unk_id": pieces.index("<unk>"),
            "vocab": [[piece.piece, piece.score] for piece in model.pieces],
        },
        **_frame(pieces, "<pad>", "<unk>"),
    }
    rules["added_tokens"] += [
        added(piece.piece, id_, special=False)
        for id_, piece in enumerate(model.pieces)
        if piece.type == piece.USER_DEFINED
    ]
    return rules


def _frame(pieces, pad, unk):
    marks = "[CLS]", "[SEP]"
    tokens = {
        mark: {"id": mark, "ids": [pieces.index(mark)], "tokens": [mark]}
        for mark in marks
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            added(piece, pieces.index(piece))
            for piece in (pad, unk, *marks, "[MASK]")
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": _MARKS,
            "pair": [*_MARKS, *_SECOND],
            "special_tokens": tokens,
        },
    }


def xlm_pieces():
    """Pieces of words with their scores: what is in XLM-R's model."""
    content = (OWN / "spm.model").read_bytes()
    pieces = sentencepiece_model_pb2.ModelProto.FromString(content).pieces
    return [(p.piece, p.score) for p in pieces if p.type == p.NORMAL]


def xlm_rules():
    """Ids are those of XLM-R's model plus 1."""
    rules, marks = albert_rules(), ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(p, 0.0) for p in marks] + xlm_pieces() + [("<mask>", 0.0)]
    rules["model"] |= {"vocab": pieces, "unk_id": 3}
    rules["normalizer"] = rules["normalizer"]["normalizers"][-1]
    rules["added_tokens"] = [
        added(p, n)
        for n, (p, _) in enumerate(pieces)
        if p in (*marks, "<mask>")
    ]
    single = json.loads(json.dumps(_MARKS).replace("[CLS]", "<s>"))
    single = json.loads(json.dumps(single).replace("[SEP]", "</s>"))
    second = [single[2], {"Sequence": {"id": "B", "type_id": 0}}, single[2]]
    rules["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *second],
        "special_tokens": {
            mark: {"id": mark, "ids": [id_], "tokens": [mark]}
            for mark, id_ in (("<s>", 0), ("</s>", 2))
        },
    }
    return rules


def write(folder: pathlib.Path, kind: str, changes) -> str:
    """Write it; return the vocabulary's path, or that of the rules alone."""
    words = (OWN / "vocab.txt").read_bytes()
    pieces = "".join(f"{piece}\n" for piece in mpnet_pieces()).encode()
    model = (OWN / "spm.model").read_bytes()
    name, vocabulary, config, rules = {
        "bert": ("vocab.txt", words, BERT_CONFIG, bert_rules),
        "mpnet": ("vocab.txt", pieces, MPNET_CONFIG, mpnet_rules),
        "albert": ("spiece.model", model, ALBERT_CONFIG, albert_rules),
        # Its sentencepiece.bpe.model is not read.
        "xlm-roberta": ("x.model", b"", XLM_CONFIG, xlm_rules),
    }[kind]
    contents = {
        CONFIG: dict(config),
        SPECIAL: {k: v for k, v in config.items() if k.endswith("_token")},
        RULES: rules(),
        "config.json": {"model_type": kind},
        name: vocabulary,
    }
    if kind == "xlm-roberta":
        del contents[name]
    for place, value in changes.items():
        file, _, keys = place.partition(":")
        *outer, last = [file, *keys.split(".")] if keys else [file]
        inner = contents
        for key in outer:
            inner = inner[key]
        inner[last] = value
        if value is ...:
            del inner[last]
    folder.mkdir(exist_ok=True)
    for file, content in contents.items():
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        (folder / file).write_bytes(content)
    return str(folder / (name if name in contents else RULES))


V3 = {SPECIAL: ..., CONFIG: {"do_lower_case": False, "model_max_length": 512}}
