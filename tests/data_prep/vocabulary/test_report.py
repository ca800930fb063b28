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


def test_numbers_of_a_text(vocab, tiny_vocab, caplog):
    tokenizer, _ = report.load([vocab, tiny_vocab]).values()
    lines = ["It rains", " it ☃ its it é"]
    found = report.measure(lines, tokenizer)
    with caplog.at_level("INFO", "absl"):
        report.log(lines, {"v.txt": tokenizer})
    assert caplog.messages == [
        "v.txt: 9 pieces. In the first 2 lines 1.29 pieces a word, 1.78 "
        "characters a piece, 11.11 % unknown pieces, 57.1 % of the words in "
        "one piece"
    ]
    assert found == {
        "pieces a word": 9 / 7,
        "characters a piece": 16 / 9,
        "unknown pieces": 1 / 9,
        "words in one piece": 4 / 7,  # Neither ☃, nor "rains" and "its".
    }
