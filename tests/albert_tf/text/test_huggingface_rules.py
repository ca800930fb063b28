"""Vocabulary and casing of Hugging Face folders."""

import json

import pytest

from albert_tf.text import huggingface_rules, normalization, wordpiece
from tests.conftest import refused

PIECES = ["[UNK]", "[CLS]", "[PAD]", "[SEP]", "[MASK]", "Ab", "##c"]


def write_rules(folder, pieces=PIECES, **normalizer):
    vocab = {piece: index for index, piece in enumerate(pieces)}
    values = {
        "model": {"type": "WordPiece", "vocab": vocab},
        "added_tokens": [{"id": len(pieces), "content": "[NEW]"}],
        "normalizer": {"type": "BertNormalizer", **normalizer},
    }
    (folder / "tokenizer.json").write_text(json.dumps(values))
    return str(folder / "tokenizer.json")


def test_a_tokenizer_json_is_a_vocabulary(tmp_path):
    path = write_rules(tmp_path, lowercase=False)
    assert huggingface_rules.is_wordpiece(path)
    tokenizer = wordpiece.WordPieceTokenizer(path, do_lower_case=False)
    assert tokenizer.pieces == (*PIECES, "[NEW]")
    assert tokenizer.pad_id == 2
    assert tokenizer.encode("Abc") == [5, 6]
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    values["added_tokens"][0]["id"] = 99
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with refused("whose ids count from 0"):
        wordpiece.WordPieceTokenizer(path)


@pytest.mark.parametrize(
    ("rules", "config", "lower", "keep"),
    [
        ({"lowercase": False}, None, False, False),
        ({"lowercase": True, "strip_accents": False}, None, True, True),
        ({"lowercase": True}, {"do_lower_case": False}, False, False),
        ({"lowercase": False, "strip_accents": False}, None, False, False),
        (
            {"lowercase": False, "strip_accents": False},
            {"do_lower_case": True},
            True,
            True,
        ),
        (
            {"lowercase": False},
            {"do_lower_case": True, "strip_accents": False},
            True,
            True,
        ),
    ],
)
def test_casing_is_the_folder_s(tmp_path, rules, config, lower, keep):
    write_rules(tmp_path, handle_chinese_chars=True, **rules)
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = normalization.read(
        str(tmp_path / "vocab.txt"), normalization.WORDPIECE
    )
    assert (found.do_lower_case, found.keep_accents) == (lower, keep)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars=false"),
        ({"do_lower_case": False, "strip_accents": True}, "strip_accents=true"),
        ({"do_lower_case": "no"}, "do_lower_case='no' for its tokenizer"),
        ({"word_tokenizer_type": "mecab"}, 'word_tokenizer_type="mecab"'),
        ({"subword_tokenizer_type": "character"}, '_type="character"'),
        (
            {"tokenizer_class": "BertJapaneseTokenizer"},
            'tokenizer_class="BertJapaneseTokenizer"',
        ),
    ],
)
def test_other_rules_are_refused(tmp_path, config, message):
    values = {"do_lower_case": True, **config}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
    with refused(message):
        huggingface_rules.settings_beside(str(tmp_path / "vocab.txt"))


def test_cutters_are_known_without_casing(tmp_path):
    """As BERT's, or others, which are refused."""
    path, vocabulary = tmp_path / "tokenizer_config.json", tmp_path / "vocab"
    same = {"word_tokenizer_type": "basic", "subword_tokenizer_type": None}
    path.write_text(json.dumps(same))
    assert huggingface_rules.settings_beside(str(vocabulary)) is None
    path.write_text(json.dumps({"word_tokenizer_type": "sudachi"}))
    with refused('"sudachi". Words are cut at'):
        huggingface_rules.settings_beside(str(vocabulary))


def test_without_these_files_nothing_is_known(tmp_path):
    path = str(tmp_path / "vocab.txt")
    assert huggingface_rules.settings_beside(path) is None
    write_rules(tmp_path, type="Lowercase", lowercase=True)
    assert huggingface_rules.settings_beside(path) is None


@pytest.mark.parametrize("piece", ["first name", "a\nb", ""])
def test_pieces_with_white_space_are_refused(tmp_path, piece):
    path = write_rules(tmp_path, [*PIECES, piece])
    with refused("white space are not supp"):
        wordpiece.WordPieceTokenizer(path)
