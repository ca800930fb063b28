"""What vocabularies make of a text."""

import pytest

from albert_tf.text import normalization, wordpiece
from data_prep.vocabulary import report


@pytest.fixture
def vocab(tmp_path):
    pieces = [*wordpiece.SPECIAL_PIECES, "it", "rain", "##s", "é"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(pieces), encoding="utf-8")
    rule = normalization.Normalization(keep_accents=True, kind="wordpiece")
    normalization.write(str(path), rule)
    return str(path)


def test_numbers_of_a_text(vocab):
    (tokenizer,) = report.load(vocab).values()
    found = report.measure(["It rains", " it ☃ its it é"], tokenizer)
    assert found == {
        "pieces a word": 9 / 7,
        "characters a piece": 16 / 9,
        "unknown pieces": 1 / 9,
        "words in one piece": 4 / 7,  # Neither ☃, nor "rains" and "its".
    }


def test_each_vocabulary_has_a_line(vocab, tiny_vocab, caplog):
    caplog.set_level("INFO", "absl")
    report.log(["it rains"], report.load(f"{vocab}, {tiny_vocab}"))
    first, second = caplog.messages[-2:]
    assert first == (
        f"{vocab}: 9 pieces. In the first 1 lines 1.50 pieces a word, 2.33 "
        "characters a piece, 0.00 % unknown pieces, 50.0 % of the words in "
        "one piece"
    )
    assert second.startswith(f"{tiny_vocab}: 400 pieces. In the first 1 lines")


def test_no_other_vocabulary():
    assert report.load("") == {}
