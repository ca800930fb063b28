from albert_tf.text import tokenization
from data_prep.inspection import record_text


def test_wordpiece_is_joined(tmp_path):
    path = tmp_path / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "##s", "x"]
    path.write_text("\n".join(pieces))
    vocabulary = tokenization.VocabularyOptions(vocab_file=str(path))
    text = record_text.PieceText(tokenization.load(vocabulary))
    joined = text.join([2, 5, 6, 7, 4, 3], {2: 6, 4: 5}, 4)
    assert joined == "[CLS] rain[s→KEPT] x [rain→MASK] [SEP]"
