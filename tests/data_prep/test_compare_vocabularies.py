"""The report on vocabularies."""

import pytest

from albert_tf.common import errors
from albert_tf.text import wordpiece
from data_prep import compare_vocabularies
from data_prep.compare_vocabularies import CompareOptions, Report


@pytest.fixture
def vocab(tmp_path):
    pieces = [*wordpiece.SPECIAL_PIECES, "it", "rain", "##s", "今", "天"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(pieces), encoding="utf-8")
    return str(path)


def test_counts_of_a_text(vocab):
    tokenizer = wordpiece.WordPieceTokenizer(vocab)
    found = compare_vocabularies.report(["It rains", "it ☃ it"], tokenizer)
    assert found == Report(
        pieces=6, unknown=1, characters=12, words=5, whole_words=3
    )


def test_words_of_a_segmenter(vocab):
    tokenizer = wordpiece.WordPieceTokenizer(vocab)
    found = compare_vocabularies.report(
        ["今天天"], tokenizer, lambda text: ["今天", "天"]
    )
    assert found == Report(3, 0, 3, 2, 1)


def test_two_vocabularies_stand_side_by_side(
    vocab, tiny_vocab, tmp_path, capsys
):
    (tmp_path / "dev.txt").write_text("It rains\n\nit rains it\n")
    compare_vocabularies.run(
        CompareOptions(str(tmp_path / "dev.txt"), f"{vocab},{tiny_vocab}")
    )
    first, second = capsys.readouterr().out.splitlines()[2:]
    assert first == f"| {vocab} | 10 | 1.40 | 2.29 | 0.00% | 60.0% |"
    assert second.startswith(f"| {tiny_vocab} | 400 | ")


def test_no_text(vocab, tmp_path):
    (tmp_path / "dev.txt").write_text("\n\n")
    with pytest.raises(errors.UserError, match="`input_file=.* holds no text"):
        compare_vocabularies.run(
            CompareOptions(str(tmp_path / "dev.txt"), vocab)
        )
