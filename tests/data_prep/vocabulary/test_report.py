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


def test_numbers_of_a_text(vocab, tiny_vocab):
    tokenizer, _ = report.load([vocab, tiny_vocab]).values()
    found = report.measure(["It rains", " it ☃ its it é"], tokenizer)
    assert found == {
        "pieces a word": 9 / 7,
        "characters a piece": 16 / 9,
        "unknown pieces": 1 / 9,
        "words in one piece": 4 / 7,  # Neither ☃, nor "rains" and "its".
    }
