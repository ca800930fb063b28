import numpy as np

from albert_tf.text import tokenization
from data_prep.inspection import record_statistics, record_text
from tests.albert_tf.text import vocabularies
from tests.data_prep.one_record import features


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


def test_a_record_is_shown_by_its_segments():
    change = {"segment_ids": [0] * 3 + [1] * 6 + [0]}
    records = features(change, {**change, "next_sentence_labels": [-1]})
    special = record_statistics.SpecialIds(2, 3, 4)
    text = record_text.PieceText(None)
    lines = record_text.instance_lines(records, 1, text, special)
    assert lines == [
        "  tokens: 9 of 10, A: 3, B: 6; predictions: 3 (33.3%)",
        "  sentence-order label: -1 (none: a single segment)",
        "  A: 2 11 [12→MASK]",
        "  B: [13→KEPT] 3 21 [20→RANDOM:22] 23 3",
    ]
    first = record_text.instance_lines(records, 0, text, special)
    assert "1 (the segments are exchanged" in first[1]
