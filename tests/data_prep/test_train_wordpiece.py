"""Training of WordPiece and character vocabularies."""

import subprocess
import sys

import pytest

from albert_tf.common import errors
from albert_tf.text import normalization, tokenization
from data_prep import train_wordpiece
from tests.conftest import ROOT

GERMAN = (
    "Größere Häuser müssen schöner sein, Übung führt über Straßen.\n"
    "Die Äpfel fallen für jeden Bären früh, wenn Öfen glühen.\n\n"
) * 40
CHINESE = "今天天气很好。我们去公园散步吧！GPU 12\n" * 40


def train(tmp_path, text, **changes):
    (tmp_path / "corpus.txt").write_text(text, encoding="utf-8")
    values = {
        "input_file": str(tmp_path / "corpus.txt"),
        "output_prefix": str(tmp_path / "vocab"),
        "vocab_size": 120,
        **changes,
    }
    train_wordpiece.run(train_wordpiece.Options(**values))
    path = str(tmp_path / "vocab.txt")
    return tokenization.load(tokenization.VocabularyOptions(None, path))


def test_german_words_keep_their_letters(tmp_path):
    tokenizer = train(tmp_path, GERMAN, vocab_size=100)
    assert tokenizer.vocab_size == 100
    assert tokenizer.pieces[:5] == (
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    )
    assert tokenizer.keep_accents
    ids = tokenizer.encode("Größere Öfen über Äpfel")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "größere öfen über äpfel"
    assert "häuser" in tokenizer.pieces


def test_chinese_characters_are_pieces(tmp_path):
    tokenizer = train(tmp_path, CHINESE, unit="character")
    pieces = tokenizer.encode_pieces("今天好 gpu 21")
    assert pieces == ["今", "天", "好", "g", "##p", "##u", "[UNK]"]
    assert "##天" not in tokenizer.pieces
    assert not tokenizer.keep_accents
    rule = normalization.read(str(tmp_path / "vocab.txt"), "wordpiece")
    assert rule.unicode_form == "NFD"


def test_the_same_text_gives_the_same_bytes_in_another_process(tmp_path):
    train(tmp_path, GERMAN)
    first = (tmp_path / "vocab.txt").read_bytes()
    for number in range(2):
        subprocess.run(
            [
                *(sys.executable, "data_prep/train_wordpiece.py"),
                f"--input_file={tmp_path}/corpus.txt",
                f"--output_prefix={tmp_path}/again",
                "--vocab_size=120",
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        assert (tmp_path / "again.txt").read_bytes() == first, number


def test_rare_characters_have_no_piece(tmp_path):
    text = CHINESE * 20 + "稀\n"
    tokenizer = train(tmp_path, text, unit="character")
    assert "稀" not in tokenizer.pieces
    everything = train(tmp_path, text, unit="character", character_coverage=1.0)
    assert "稀" in everything.pieces


def test_the_most_frequent_characters_come_first():
    words = {"ab": 9, "c": 1, "d": 1}
    assert train_wordpiece.choose_characters(words, 0.9) == ["a", "b"]
    assert train_wordpiece.choose_characters(words, 1.0) == list("abcd")


def test_words_that_are_always_unknown_do_not_count():
    words = train_wordpiece.count_words(["it rains , it " + "x" * 201])
    assert words == {"it": 2, "rains": 1, ",": 1}


def test_too_few_pieces(tmp_path):
    with pytest.raises(
        errors.UserError, match="`vocab_size=20` is less .* value is [0-9]+"
    ):
        train(tmp_path, GERMAN, vocab_size=20, unit="character")


def test_no_text(tmp_path):
    with pytest.raises(errors.UserError, match="`input_file=.* holds no word"):
        train(tmp_path, " \n\n", unit="character")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        errors.UserError,
        match="`unit=wordpiece` needs .*pip install tokenizers; or use `unit=c",
    ):
        train(tmp_path, GERMAN)


def test_no_prefix():
    with pytest.raises(errors.UserError, match="`output_prefix` is empty"):
        train_wordpiece.Options("x", "")
