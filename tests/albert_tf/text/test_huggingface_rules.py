"""Vocabulary and casing of Hugging Face folders: what is read, what refused.

tests/parity/test_foreign_tokenizers.py compares ids with transformers.
"""

import dataclasses
import json
import lzma

import pytest
import sentencepiece
import tensorflow as tf
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from albert_tf.common import errors
from albert_tf.text import (
    huggingface_rules,
    normalization,
    tokenization,
    tokenization_ops,
    tokenizer_check,
    tokenizer_json,
    wordpiece,
)
from tests import foreign_tokenizers
from tests.conftest import refused
from tests.foreign_tokenizers import (
    ADDED,
    CONFIG,
    METASPACE,
    NO_RULES,
    OWN,
    QUOTES,
    RULES,
    SPECIAL,
    V3,
    added,
    bert_rules,
    quotes,
    sequence,
    write,
)


@pytest.fixture
def own_lines():
    return (OWN / "corpus.txt").read_text().splitlines()[:500]


KINDS = {
    "bert": normalization.WORDPIECE,
    "mpnet": normalization.WORDPIECE,
    "albert": normalization.SENTENCEPIECE,
}
OF_XLM = normalization.SENTENCEPIECE
UNCASED, CASED, KEEPING = (True, False), (False, False), (True, True)
NORMALIZER = f"{RULES}:normalizer"
CUTTER = f"{RULES}:pre_tokenizer"
MODEL = f"{RULES}:model"
ALL_CASED = {
    f"{CONFIG}:do_lower_case": False,
    f"{CONFIG}:keep_accents": True,
}
TABLE = foreign_tokenizers.albert_rules()["normalizer"]["normalizers"][-1]
FAST = {f"{CONFIG}:tokenizer_class": "PreTrainedTokenizerFast"}

# What differs from a folder of transformers 4, and its casing; None: unknown.
READ = [
    ("bert", {}, UNCASED),
    ("bert", {**NO_RULES, **V3}, CASED),
    ("bert", {**NO_RULES, CONFIG: ..., SPECIAL: ...}, None),
    (
        "bert",
        {
            **NO_RULES,
            CONFIG: ...,
            "config.json": {"architectures": ["BertForMaskedLM"]},
        },
        None,
    ),
    ("bert", {**NO_RULES, f"{CONFIG}:strip_accents": False}, KEEPING),
    ("bert", {**NO_RULES, f"{CONFIG}:tokenizer_class": ...}, UNCASED),
    ("bert", {f"{CONFIG}:tokenizer_class": "BertTokenizerFast"}, UNCASED),
    ("bert", {f"{CONFIG}:never_split": []}, UNCASED),
    ("bert", {ADDED: {"[MASK]": 4}}, UNCASED),
    (
        "bert",
        {f"{CONFIG}:added_tokens_decoder": {"0": added("[PAD]", 0)}},
        UNCASED,
    ),
    (
        "bert",
        {f"{NORMALIZER}.lowercase": False, f"{CONFIG}:do_lower_case": False},
        CASED,
    ),
    ("bert", {f"{NORMALIZER}.lowercase": False, **FAST}, CASED),
    ("bert", {f"{NORMALIZER}.strip_accents": False, **FAST}, KEEPING),
    # BertTokenizerFast changes what `tokenizer.json` says.
    ("bert", {f"{CONFIG}:do_lower_case": False}, CASED),
    ("bert", {f"{NORMALIZER}.strip_accents": False}, UNCASED),
    ("bert", {CONFIG: ..., SPECIAL: ..., "config.json": ...}, UNCASED),
    (
        "bert",
        {
            f"{RULES}:post_processor": {
                "type": "BertProcessing",
                "cls": ["[CLS]", 2],
                "sep": ["[SEP]", 3],
            }
        },
        UNCASED,
    ),
    ("bert", {f"{MODEL}.type": ..., "vocab.txt": ...}, UNCASED),
    ("mpnet", {}, UNCASED),
    ("mpnet", {**NO_RULES, **V3}, CASED),
    ("mpnet", {"vocab.txt": ...}, UNCASED),
    ("mpnet", {**FAST, f"{NORMALIZER}.strip_accents": False}, KEEPING),
    ("albert", {}, UNCASED),
    ("albert", {**NO_RULES, **ALL_CASED}, (False, True)),
    ("albert", {**NO_RULES, f"{CONFIG}:do_lower_case": False}, CASED),
    (
        "albert",
        {**NO_RULES, CONFIG: {"model_max_length": 512}, SPECIAL: ...},
        None,
    ),
    (
        "albert",
        {NORMALIZER: sequence("normalizers", *QUOTES, TABLE), **ALL_CASED},
        (False, True),
    ),
    (
        "albert",
        {
            NORMALIZER: sequence(
                "normalizers",
                *QUOTES,
                "NFKD",
                "StripAccents",
                TABLE,
                {
                    "type": "Replace",
                    "pattern": {"Regex": " {2,}"},
                    "content": " ",
                },
            ),
            **FAST,
        },
        CASED,
    ),
    ("albert", {CUTTER: METASPACE}, UNCASED),
    (
        "albert",
        {
            CUTTER: {
                "type": "Metaspace",
                "replacement": "▁",
                "add_prefix_space": True,
            }
        },
        UNCASED,
    ),
]


@pytest.mark.parametrize(("kind", "changes", "casing"), READ)
def test_folders_of_others_say_how_text_is_cut(tmp_path, kind, changes, casing):
    path = write(tmp_path, kind, changes)
    found = normalization.read(path, KINDS[kind])
    pair = found and (found.do_lower_case, found.keep_accents)
    assert pair == casing
    given = dict.fromkeys(normalization.SETTINGS)
    rule = normalization.resolve(path, KINDS[kind], given)
    assert rule.longest_word == (200 if kind == "albert" else 100)


BERT_REFUSED = [
    (CONFIG, "tokenize_chinese_chars", False),
    (CONFIG, "do_basic_tokenize", False),
    (CONFIG, "never_split", ["[E1]"]),
    (CONFIG, "clean_text", False),
    (CONFIG, "wordpieces_prefix", "@@"),
    (CONFIG, "word_tokenizer_type", "mecab"),
    (CONFIG, "subword_tokenizer_type", "character"),
    (CONFIG, "tokenizer_class", "BertJapaneseTokenizer"),
    (CONFIG, "tokenizer_class", "XLMRobertaTokenizerFast"),
    (CONFIG, "auto_map", {"AutoTokenizer": ["tokenizer.T", None]}),
    (CONFIG, "cls_token", "<s>"),
    (SPECIAL, "mask_token", {"content": "<mask>", "lstrip": True}),
    (RULES, "normalizer", None),
    (RULES, "normalizer", {"type": "Lowercase"}),
    (
        RULES,
        "normalizer",
        sequence("normalizers", "NFD", "Lowercase", "StripAccents"),
    ),
    (
        RULES,
        "normalizer",
        sequence("normalizers", *quotes(("a", "b")), "Lowercase"),
    ),
    (RULES, "pre_tokenizer", None),
    (RULES, "pre_tokenizer", {"type": "Whitespace"}),
    (
        RULES,
        "pre_tokenizer",
        sequence("pretokenizers", "BertPreTokenizer", "Digits"),
    ),
    (RULES, "post_processor", None),
    (
        RULES,
        "post_processor",
        {"type": "RobertaProcessing", "sep": ["</s>", 2]},
    ),
    (RULES, "model.type", "BPE"),
    (RULES, "model.unk_token", "<unk>"),
    (RULES, "model.continuing_subword_prefix", ""),
    (RULES, "model.dropout", 0.1),
]


# As converters of transformers 4 write it.
BLANKS = [
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
]


@pytest.mark.parametrize("blanks", [[], BLANKS], ids=["as it is", "blanks"])
def test_ids_of_xlm_r_are_those_of_its_model_plus_1(
    tmp_path, own_lines, blanks
):
    """Unknown pieces are 3; control characters that are spaces here differ."""
    steps = sequence("normalizers", TABLE, *blanks)
    path = write(tmp_path, "xlm-roberta", {f"{RULES}:normalizer": steps})
    ours = load("albert", path)
    rule = normalization.read(path, OF_XLM)
    assert (rule.do_lower_case, rule.keep_accents) == (False, True)
    assert [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id] == [1, 3, 0, 2]
    assert ours.mask_id == ours.vocab_size - 1
    source = sentencepiece_model_pb2.ModelProto.FromString(
        (OWN / "spm.model").read_bytes()
    )
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.CopyFrom(source.normalizer_spec)
    kinds = model.SentencePiece
    model.pieces.add(piece="<unk>", type=kinds.UNKNOWN)
    for mark in ("<s>", "</s>"):
        model.pieces.add(piece=mark, type=kinds.CONTROL)
    for piece, score in foreign_tokenizers.xlm_pieces():
        model.pieces.add(piece=piece, score=score)
    theirs = sentencepiece.SentencePieceProcessor(
        model_proto=model.SerializeToString()
    )
    texts = [*tokenizer_check.HARD_TEXTS, *own_lines]
    usual = [t for t in texts if set(t).isdisjoint("\x0b\x1c\x1d\x1e\x1f\x85")]
    assert len(texts) - len(usual) == 1
    for text in usual:
        expected = [id_ + 1 if id_ else 3 for id_ in theirs.encode(text)]
        assert ours.encode(text) == expected, text
    masked = ours.encode_with_masks("Mara [MASK] <mask>.")
    assert masked.count(ours.mask_id) == 1
    graph = tokenization_ops.make_graph_tokenizer(ours, with_offsets=True)
    found = graph.tokenize(tf.constant(usual[:50])).to_list()
    assert found == ours.encode_batch(usual[:50])


MPNET_REFUSED = [
    (CONFIG, "tokenizer_class", "BertTokenizer"),
    (CONFIG, "sep_token", "[SEP]"),
    (SPECIAL, "bos_token", "[CLS]"),
    (RULES, "post_processor", None),
    (RULES, "post_processor", bert_rules()["post_processor"]),
    (
        RULES,
        "post_processor",
        {"type": "RobertaProcessing", "sep": ["<s>", 0], "cls": ["</s>", 2]},
    ),
]
XLM_REFUSED = [
    (CONFIG, "tokenizer_class", "CamembertTokenizer"),
    (CONFIG, "cls_token", "[CLS]"),
    (RULES, "pre_tokenizer", {"type": "Whitespace"}),
    (RULES, "post_processor", bert_rules()["post_processor"]),
    (RULES, "post_processor", None),
]
ALBERT_REFUSED = [
    (CONFIG, "remove_space", False),
    (CONFIG, "add_prefix_space", False),
    (CONFIG, "sp_model_kwargs", {"enable_sampling": True}),
    (CONFIG, "tokenizer_class", "T5Tokenizer"),
    (RULES, "normalizer", None),
    (RULES, "normalizer", sequence("normalizers", "NFKC", TABLE)),
    (
        RULES,
        "normalizer",
        sequence(
            "normalizers",
            *quotes(("a", "b")),
            "NFKD",
            "StripAccents",
            "Lowercase",
            TABLE,
        ),
    ),
    (RULES, "pre_tokenizer", {**METASPACE, "prepend_scheme": "never"}),
    (RULES, "pre_tokenizer", {"type": "Metaspace", "replacement": "▁"}),
    (RULES, "model.byte_fallback", True),
    (RULES, "model.unk_id", 0),
]


@pytest.mark.parametrize(
    ("kind", "file", "key", "value"),
    [
        (kind, *row)
        for kind, rows in (
            ("bert", BERT_REFUSED),
            ("mpnet", MPNET_REFUSED),
            ("xlm-roberta", XLM_REFUSED),
            ("albert", ALBERT_REFUSED),
        )
        for row in rows
    ],
)
def test_other_rules_are_refused_by_name(tmp_path, kind, file, key, value):
    path = write(tmp_path, kind, {f"{file}:{key}": value})
    with refused() as told:
        normalization.read(path, KINDS.get(kind, OF_XLM))
    shown = json.dumps(value, ensure_ascii=False)[:20]
    assert f"{file} has {key}={shown}" in str(told.value).replace(
        '"<pad>"', "0"
    )
    assert "Choose another model" in str(told.value)


TOKENS = [
    {f"{CONFIG}:additional_special_tokens": ["lampe"]},
    {f"{CONFIG}:extra_special_tokens": {"entity": "lampe"}},
    {f"{CONFIG}:added_tokens_decoder": {"1042": added("lampe", 1042)}},
    {f"{SPECIAL}:additional_special_tokens": [{"content": "lampe"}]},
    {ADDED: {"lampe": 1042}},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", TOKENS)
def test_added_tokens_are_refused(tmp_path, kind, changes):
    path = write(tmp_path, kind, changes)
    with refused(r'has added tokens=\["lampe"\].* looks for them in texts'):
        normalization.read(path, KINDS[kind])


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_added_tokens_of_rules_are_refused(tmp_path, kind, special, is_alone):
    path = write(tmp_path, kind, VOCABULARY[kind] if is_alone else {})
    rules = json.loads((tmp_path / RULES).read_text())
    rules["added_tokens"].append(
        added("lampe", len(rules["model"]["vocab"]), special=special)
    )
    (tmp_path / RULES).write_text(json.dumps(rules))
    with refused(r'tokenizer.json has added tokens=\["lampe"\]'):
        normalization.read(path, KINDS[kind])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {f"{NORMALIZER}.lowercase": False, CONFIG: ...},
            '"do_lower_case": false.*BertTokenizer of transf.*": true.*Write',
        ),
        (
            {
                f"{NORMALIZER}.strip_accents": False,
                f"{CONFIG}:do_lower_case": ...,
            },
            '"keep_accents": true.*takes',
        ),
    ],
)
def test_files_that_contradict_each_other_are_refused(
    tmp_path, changes, message
):
    path = write(tmp_path, "bert", changes)
    with refused(message):
        normalization.read(path, normalization.WORDPIECE)


def test_files_are_read_once_until_one_changes(tmp_path, monkeypatch):
    path = write(tmp_path, "bert", NO_RULES)
    counts = []
    whole = huggingface_rules.settings_beside

    def counted(*args, **kwargs):
        counts.append(args)
        return whole(*args, **kwargs)

    monkeypatch.setattr(huggingface_rules, "settings_beside", counted)
    for _ in range(3):
        assert normalization.read(path, normalization.WORDPIECE).do_lower_case
    assert len(counts) == 1
    write(tmp_path, "bert", {**NO_RULES, f"{CONFIG}:do_lower_case": False})
    found = normalization.read(path, normalization.WORDPIECE)
    assert not found.do_lower_case
    rule = dataclasses.replace(found, longest_word=200)
    normalization.write(path, rule)
    assert normalization.read(path, normalization.WORDPIECE) == rule


def test_the_class_may_be_named_by_the_model(tmp_path):
    """As in Japanese folders of transformers 3."""
    changes = {**NO_RULES, **V3}
    changes["config.json:tokenizer_class"] = "BertJapaneseTokenizer"
    path = write(tmp_path, "bert", changes)
    with refused(r'config.json has tokenizer_class="BertJapaneseTokenizer"'):
        normalization.read(path, normalization.WORDPIECE)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_both_files_are_compared(tmp_path, kind):
    path = write(tmp_path, kind, {})
    rules = json.loads((tmp_path / RULES).read_text())
    vocabulary = rules["model"]["vocab"]
    if kind != "albert":
        first, second = [p for p in vocabulary if p.isalpha()][:2]
        vocabulary[first], vocabulary[second] = (
            vocabulary[second],
            vocabulary[first],
        )
    else:
        vocabulary[20:22] = vocabulary[20:22][::-1]
    (tmp_path / RULES).write_text(json.dumps(rules))
    with refused("hold different pieces, or give them other ids"):
        normalization.read(path, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_added_to_our_own_folder_are_refused(tmp_path, kind):
    """As by `save_pretrained` of transformers, which leaves our description."""
    path = write(tmp_path, kind, {f"{CONFIG}:extra_special_tokens": ["[E1]"]})
    rule = normalization.Normalization(kind=KINDS[kind])
    normalization.write(path, rule)
    with refused(r'added tokens=\["\[E1\]"\]'):
        normalization.read(path, KINDS[kind])
    write(tmp_path, kind, {})
    assert normalization.read(path, KINDS[kind]) == rule
    write(tmp_path, kind, {f"{CONFIG}:do_lower_case": False})
    with refused("do_lower_case true, but .* says false. Correct the one"):
        normalization.read(path, KINDS[kind])
    keys = {f"{CONFIG}:do_lower_case": ...}  # As in folders of before.
    for key in ("keep_accents", "strip_accents"):
        keys[f"{CONFIG}:{key}"] = ...
    write(tmp_path, kind, keys)
    assert normalization.read(path, KINDS[kind]) == rule


@pytest.mark.parametrize("content", [b"[7]", b"{ // no JSON", b"{}"])
def test_a_config_of_something_else_says_nothing(tmp_path, content):
    changes = {**NO_RULES, CONFIG: ..., SPECIAL: ..., "config.json": content}
    path = write(tmp_path, "bert", changes)
    assert normalization.read(path, normalization.WORDPIECE) is None
    assert load("bert", path).longest_word == 200


def places(value, path=()):
    """Every key of a JSON value but those of vocabularies."""
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in items:
        yield (*path, key)
        if key != "vocab":
            yield from places(inner, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("odd", [None, 7, [{"x": 1}]])
@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_damaged_files_are_refused(tmp_path, kind, is_alone, odd):
    """Whatever stands in a place: it is read, or a user's mistake."""
    path = write(tmp_path, kind, VOCABULARY[kind] if is_alone else {})
    count = 0
    for file in sorted(tmp_path.glob("*.json")):
        content = file.read_text()
        for *outer, last in places(json.loads(content)):
            values = inner = json.loads(content)
            for key in outer:
                inner = inner[key]
            inner[last] = odd
            file.write_text(json.dumps(values))
            try:
                load(kind, path)
            except errors.UserError:
                count += 1
        file.write_text(content)
    load(kind, path)
    assert count > 20


VOCABULARY = {
    "bert": {"vocab.txt": ...},
    "mpnet": {"vocab.txt": ...},
    "albert": {"spiece.model": ...},
}
OPTIONS = {
    "bert": "vocab_file",
    "mpnet": "vocab_file",
    "albert": "spm_model_file",
}


def load(kind, path):
    options = {OPTIONS[kind]: str(path)}
    return tokenization.load(tokenization.VocabularyOptions(**options))


def open_alone(folder, kind, changes, name=RULES):
    """Open the vocabulary in a `tokenizer.json`, whatever its name."""
    write(folder, kind, {**VOCABULARY[kind], **changes})
    (folder / RULES).rename(folder / name)
    return load(kind, folder / name)


@pytest.mark.parametrize("name", [RULES, "cased.json", "vocab.txt"])
def test_a_tokenizer_json_is_a_vocabulary(tmp_path, name):
    changes = {f"{NORMALIZER}.lowercase": False, **FAST}
    found = open_alone(tmp_path, "bert", changes, name)
    expected = wordpiece.WordPieceTokenizer(
        str(OWN / "vocab.txt"), do_lower_case=False, longest_word=100
    )
    assert found.pieces == expected.pieces
    for text in tokenizer_check.HARD_TEXTS:
        assert found.encode(text) == expected.encode(text)


@pytest.mark.parametrize(
    "changes",
    [{}, {f"{RULES}:added_tokens": None}, {f"{MODEL}.type": "Unigram"}],
)
def test_a_model_is_made_of_pieces_and_scores(tmp_path, changes, own_lines):
    if f"{RULES}:added_tokens" in changes:  # As of transformers 4.
        tokens = foreign_tokenizers.albert_rules()["added_tokens"]
        changes = {f"{RULES}:added_tokens": tokens[:5]}
    found = open_alone(tmp_path, "albert", changes)
    expected = tokenization.Tokenizer(str(OWN / "spm.model"))
    assert found.pieces == expected.pieces
    texts = [*tokenizer_check.HARD_TEXTS, *own_lines]
    assert found.encode_batch(texts) == expected.encode_batch(texts)
    for text in texts[:30]:
        for ours, theirs in zip(
            found.encode_with_offsets(text),
            expected.encode_with_offsets(text),
            strict=True,
        ):
            assert ours.tolist() == theirs.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, None])
def test_the_released_model_can_be_made(tmp_path, shared_dir, count):
    """Of transformers 4, and of 5, which names symbols as added tokens."""
    source = shared_dir / "data/vocab/30k-clean.model"
    rules = foreign_tokenizers.albert_rules(source)
    rules["added_tokens"] = rules["added_tokens"][:count]
    found = open_alone(tmp_path, "albert", {RULES: rules})
    expected = tokenization.Tokenizer(str(source))
    texts = (
        lzma.decompress(
            (shared_dir / "data/corpora/movie_reviews.txt.xz").read_bytes()
        )
        .decode()
        .splitlines()
    )
    texts += tokenizer_check.HARD_TEXTS
    assert found.encode_batch(texts) == expected.encode_batch(texts)


@pytest.mark.parametrize("piece", ["first name", "a\nb", ""])
def test_pieces_with_white_space_are_refused(tmp_path, piece):
    vocabulary = foreign_tokenizers.bert_rules()["model"]["vocab"]
    vocabulary = {**vocabulary, piece: len(vocabulary)}
    with refused("white space are not supp"):
        open_alone(tmp_path, "bert", {f"{MODEL}.vocab": vocabulary})


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("bert", {f"{MODEL}.vocab": {"lampe": 9}}, "whose ids count from 0"),
        ("bert", {f"{RULES}:model": None}, "damaged, or of an unknown form"),
        (
            "bert",
            {f"{RULES}:added_tokens": [{"id": 5}]},
            "damaged, or of an unknown",
        ),
        ("albert", {NORMALIZER: None}, "normalizer=null"),
        (
            "albert",
            {NORMALIZER: sequence("normalizers", "NFKD"), **FAST},
            "Copy spiece.model into its folder, with spiece.norm",
        ),
    ],
)
def test_other_vocabularies_are_refused(tmp_path, kind, changes, message):
    with refused(message):
        open_alone(tmp_path, kind, changes)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
def test_own_folders_agree_with_their_description(
    tmp_path, lower, keep_accents
):
    path = write(tmp_path, "bert", {})
    tokenizer = wordpiece.WordPieceTokenizer(
        path, lower, keep_accents=keep_accents
    )
    rule = tokenizer.normalization
    normalization.write(path, rule)
    (tmp_path / RULES).write_text(tokenizer_json.make(tokenizer))
    content = {"tokenizer_class": "BertTokenizer", **rule.of_classes}
    (tmp_path / CONFIG).write_text(json.dumps(content))
    assert normalization.read(path, normalization.WORDPIECE) == rule


@pytest.mark.parametrize(
    ("lower", "keep_accents"), [(True, False), (True, True), (False, False)]
)
def test_own_rules_are_known_without_the_description(
    tmp_path, lower, keep_accents
):
    """As after `save_pretrained`; the library writes it in its own way."""
    path = write(tmp_path, "bert", {})
    tokenizer = wordpiece.WordPieceTokenizer(
        path, lower, keep_accents=keep_accents
    )
    content = tokenizer_json.make(tokenizer)
    library = tokenizers.Tokenizer.from_str(content)
    (tmp_path / RULES).write_text(library.to_str())
    (tmp_path / CONFIG).write_text('{"tokenizer_class": "TokenizersBackend"}')
    found = normalization.read(path, normalization.WORDPIECE)
    assert found == tokenizer.normalization
    rules = json.loads((tmp_path / RULES).read_text())
    for step in rules["normalizer"]["normalizers"]:
        pattern = step.get("pattern", {}).get("Regex", "")
        if pattern.startswith("(?<="):  # Up to 2026-11-30.
            step["pattern"]["Regex"] = pattern[4:].replace(")Σ", r"\KΣ", 1)
            assert r"\KΣ" in step["pattern"]["Regex"]
    (tmp_path / RULES).write_text(json.dumps(rules))
    assert normalization.read(path, normalization.WORDPIECE) == found
    rules["normalizer"]["normalizers"].pop()
    (tmp_path / RULES).write_text(json.dumps(rules))
    with refused("tokenizer.json has normalizer="):
        normalization.read(path, normalization.WORDPIECE)
