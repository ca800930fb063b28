import numpy as np

from albert_tf.text import tokenization
from data_prep.inspection import record_text
from tests.albert_tf.text import vocabularies


def test_wordpiece_is_joined(tmp_path):
    path = tmp_path / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "##s", "x"]
    path.write_text("\n".join(pieces))
    vocabulary = tokenization.VocabularyOptions(vocab_file=str(path))
    text = record_text.PieceText(tokenization.load(vocabulary))
    joined = text.join([2, 5, 6, 7, 4, 3], {2: 6, 4: 5}, 4)
    assert joined == "[CLS] rain[s→KEPT] x [rain→MASK] [SEP]"


def test_bytes_are_shown_as_characters(tmp_path):
    others = {**vocabularies.SPECIALS, **vocabularies.BYTES}
    path = vocabularies.write_model(
        tmp_path / "bytes.model", ["▁", "b"], others, byte_fallback=True
    )
    tokenizer = tokenization.Tokenizer(path)
    text = record_text.PieceText(tokenizer)
    ids = tokenizer.encode("b今🦒b \u200db")
    assert text.join(ids, {}, 4) == "b今🦒b \u200db"
    assert text.join(ids[:3], {}, 4) == "b�"  # A part.
    masked = [*ids[:2], 4, 9, *ids[4:]]
    joined = text.join(masked, {2: ids[2], 3: ids[3], 4: ids[4]}, 4)
    assert joined.startswith("b[今→MASK][→RANDOM:\ufffd][→KEPT]🦒b")


def test_other_records_are_shown_by_their_first_twenty_numbers():
    features = {
        "input_ids": np.arange(21),
        "input_mask": np.array([1] * 3 + [0] * 18),
        "b": np.arange(20),
        "a": np.array([2.5, 3], np.float32),
    }
    twenty = ", ".join(map(str, range(20)))
    text = record_text.PieceText(None)
    assert record_text.other_lines(features, text) == [
        "  a [2]: 2.5, 3",
        f"  b [20]: {twenty}",
        f"  input_ids [21]: {twenty}, ...",
        "    text: 0 1 2",
        "  input_mask [21]: 1, 1, 1" + 17 * ", 0" + ", ...",
    ]
