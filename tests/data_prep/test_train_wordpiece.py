"""Training of WordPiece and character vocabularies."""

import pytest

from albert_tf.text import normalization, tokenization, wordpiece
from data_prep import train_wordpiece
from tests.conftest import python, refused

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
        "overwrite": True,
        **changes,
    }
    train_wordpiece.run(train_wordpiece.Options(**values))
    path = str(tmp_path / "vocab.txt")
    return tokenization.load(tokenization.VocabularyOptions(None, path))


def test_german_words_keep_their_letters(tmp_path, caplog):
    caplog.set_level("INFO", "absl")
    tokenizer = train(tmp_path, GERMAN, vocab_size=115)
    assert tokenizer.vocab_size == 115
    assert tokenizer.pieces[:5] == wordpiece.SPECIAL_PIECES
    assert tokenizer.keep_accents
    ids = tokenizer.encode("Größere Öfen über Äpfel")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "größere öfen über äpfel"
    assert "häuser" in tokenizer.pieces
    assert "vocab.txt: 115 pieces. In the first 80 lines" in caplog.text


def test_chinese_characters_are_pieces(tmp_path):
    tokenizer = train(tmp_path, CHINESE, unit="character")
    pieces = tokenizer.encode_pieces("今天好 gpu 21")
    assert pieces == ["今", "天", "好", "g", "##p", "##u", "2", "##1"]
    assert not {"##天", "##。"} & {*tokenizer.pieces}
    assert not tokenizer.keep_accents
    rule = normalization.read(str(tmp_path / "vocab.txt"), "wordpiece")
    assert rule.unicode_form == "NFD"


@pytest.mark.parametrize(
    "text",
    [
        "한국어 글 이 있다",
        "हिन्दी की किताब",
        "ภาษาไทย ที่ นี้",
        "العَرَبِيَّة",
        "שָׁלוֹם",
        "tiếng việt",
        "ガギグ パピ",
        "λόγος",
    ],
)
def test_letters_are_neither_lost_nor_taken_apart(text, tmp_path):
    text = text.lower()
    tokenizer = train(tmp_path, f"{text}\n" * 50, unit="character")
    assert tokenizer.keep_accents
    assert {p[-1] for p in tokenizer.pieces[5:]} == {*text} - {" "}
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("unit", ["character", "wordpiece"])
def test_known_characters_make_no_word_unknown(unit, tmp_path):
    text = "so glad 😊 €5 ❤️\nwe 爿 a—b\n" * 40
    tokenizer = train(tmp_path, text, unit=unit)
    assert not tokenizer.keep_accents
    for word in ("glad😊", "😊glad", "5€s", "爿glad爿", "❤❤", "—a—"):
        assert tokenizer.unk_id not in tokenizer.encode(word), word


def test_left_out_words_are_counted(tmp_path, caplog):
    text = "it rains\n" * 9000 + "x" * 201 + " \u0416 it\u0416 rains\n"
    train(tmp_path, text)
    assert "1 words of more than 200 characters were left out" in caplog.text
    assert "2 words with characters that are too rare" in caplog.text
    with refused("200 characters .1 are longer"):
        train(tmp_path, "x" * 201)


def test_the_same_text_gives_the_same_bytes_in_another_process(tmp_path):
    train(tmp_path, GERMAN)
    python(
        "data_prep/train_wordpiece.py",
        f"--input_file={tmp_path}/corpus.txt",
        f"--output_prefix={tmp_path}/again",
        "--vocab_size=120",
    )
    first = (tmp_path / "vocab.txt").read_bytes()
    assert (tmp_path / "again.txt").read_bytes() == first


def test_rare_characters_have_no_piece(tmp_path):
    text = CHINESE * 20 + "稀\n"
    tokenizer = train(tmp_path, text, unit="character")
    assert "稀" not in tokenizer.pieces
    everything = train(tmp_path, text, unit="character", character_coverage=1.0)
    assert "稀" in everything.pieces


def test_words_count_as_often_as_they_occur():
    long = "x" * 200 + "y"  # Always unknown.
    lines = [f"it {'z' * 200} , it {long}", long]
    words, lost = train_wordpiece.count_words(lines)
    assert (words, lost) == ({"it": 2, "z" * 200: 1, ",": 1}, 2)
    lines = list(train_wordpiece._repeat_words({"b": 2001, "a": 2, "c": 1000}))
    assert lines[0] == "a a"
    assert " ".join(lines).split() == ["a"] * 2 + ["b"] * 2001 + ["c"] * 1000
    assert max(map(len, map(str.split, lines))) == 1000


def test_unusable_text_and_sizes_are_refused(tmp_path):
    with refused("`input_file=.* holds no word"):
        train(tmp_path, " \n\n", unit="character")
    cut = " ".join(f"▁{first}{last}" for first in "abcdefgh" for last in "xyz")
    with refused("`input_file=.* holds text that"):
        train(tmp_path, f"{cut}\n" * 99)
    assert not (tmp_path / "vocab.txt").exists()
    with refused("`vocab_size=20` is l") as found:
        train(tmp_path, GERMAN, vocab_size=20, unit="character")
    size = int(str(found.value).split("value is ")[1].split(".")[0])
    tokenizer = train(tmp_path, GERMAN, vocab_size=size, unit="character")
    assert tokenizer.vocab_size == size
