import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest
from backports import zstd

from albert_tf.common import errors
from albert_tf.text import normalization, tokenization
from data_prep import train_sentencepiece

ROOT = Path(__file__).parents[2]


def sentences(count=400):
    """Lines of 6 words, most of them of random syllables."""
    generator = random.Random(1)
    syllables = ["ka", "to", "ri", "mes", "lan", "Du", "É"]
    words = ["The cat", "2012, (a)", "in £5", "3, –"]
    words += ["".join(generator.choices(syllables, k=3)) for _ in range(80)]
    return "".join(
        " ".join(generator.choices(words, k=6)) + ".\n\n" for _ in range(count)
    )


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(sentences(), encoding="utf-8")
    return path


def settings(corpus, prefix="out", **changes):
    values = {
        "input_file": str(corpus),
        "output_prefix": str(corpus.parent / prefix),
        "vocab_size": 60,
    }
    return train_sentencepiece.Options(**(values | changes))


def test_result_has_the_released_layout_and_loads(corpus):
    train_sentencepiece.run(settings(corpus, "new/vocabulary"))
    prefix = corpus.parent / "new" / "vocabulary"
    tokenizer = tokenization.Tokenizer(f"{prefix}.model")
    assert tokenizer.vocab_size == 60
    special = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    assert tokenizer.pieces[:13] == (*special, *'()"-.–£€')
    assert tokenizer.decode(tokenizer.encode("The cat, É")) == "the cat, e"
    lines = Path(f"{prefix}.vocab").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == list(tokenizer.pieces)
    assert lines[4] == "[MASK]\t0"


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_text_gives_the_same_vocabulary(corpus, ending):
    opener = {".gz": gzip.open, ".zst": zstd.open}[ending]
    with opener(f"{corpus}{ending}", "wb") as stream:
        stream.write(corpus.read_bytes())
    train_sentencepiece.run(settings(corpus, "plain"))
    packed = settings(corpus, "packed", input_file=f"{corpus}{ending}")
    train_sentencepiece.run(packed)
    plain, packed = (
        (corpus.parent / f"{name}.vocab").read_bytes()
        for name in ("plain", "packed")
    )
    assert plain == packed


def test_case_is_kept_on_request(corpus):
    train_sentencepiece.run(
        settings(corpus, do_lower_case=False, keep_accents=False)
    )
    tokenizer = tokenization.Tokenizer(str(corpus.parent / "out.model"), False)
    ids = tokenizer.encode("The É")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "The E"


GERMAN = (
    "Größere Häuser müssen schöner sein, Übung führt über Straßen.\n"
    "Die Äpfel fallen für jeden Bären früh, wenn Öfen glühen.\n"
)


@pytest.fixture
def german(tmp_path):
    path = tmp_path / "de.txt"
    path.write_text(GERMAN * 60, encoding="utf-8")
    return path


def load(path, **changes):
    """Train the largest vocabulary that a text gives, and open it."""
    size = possible_size(path, 600, "is more than", **changes)
    train_sentencepiece.run(settings(path, vocab_size=size, **changes))
    model = str(path.parent / "out.model")
    return tokenization.load(tokenization.VocabularyOptions(model))


def test_accents_are_kept_where_the_text_has_many(german, caplog):
    caplog.set_level("INFO")
    tokenizer = load(german)
    assert tokenizer.keep_accents
    ids = tokenizer.encode("Größere Häuser für Öfen, Übung")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "größere häuser für öfen, übung"
    assert "--keep_accents=true, because " in caplog.text


def test_accents_are_removed_on_request(german):
    tokenizer = load(german, keep_accents=False)
    ids = tokenizer.encode("Größe")
    assert tokenizer.decode(ids) == "große"


def test_english_text_is_cleaned_as_the_original_does(tmp_path):
    path = tmp_path / "en.txt"
    path.write_text("It rains, and we stay at home.\n" * 100)
    assert load(path).normalization == normalization.Normalization()


@pytest.mark.parametrize(
    "text",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u0922\u093c",  # Hindi
        "\u0e44\u0e1b\u0e17\u0e35\u0e48\u0e19\u0e31\u0e48\u0e19",  # Thai
        "\u0643\u064e\u062a\u064e\u0628 \u0625\u0644\u0649",  # Arabic
        "ガギグ ぱぴぷ",  # Japanese
    ],
)
def test_vowel_signs_and_dakuten_survive(text, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(f"{text}\n" * 300, encoding="utf-8")
    tokenizer = load(path)
    assert tokenizer.clean(text) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_chinese_text_has_a_lower_coverage(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "zh.txt"
    rare = "".join(map(chr, range(0x5000, 0x5002)))
    path.write_text("今天天气很好\n" * 2000 + f"{rare}\n", encoding="utf-8")
    load(path)
    assert "--character_coverage=0.9995, because 100 %" in caplog.text
    listed = (tmp_path / "out.vocab").read_text(encoding="utf-8")
    assert "天" in listed and rare[0] not in listed
    load(path, character_coverage=1.0)
    listed = (tmp_path / "out.vocab").read_text(encoding="utf-8")
    assert rare[0] in listed


def test_bytes_stand_for_characters_without_a_piece(corpus):
    train_sentencepiece.run(
        settings(corpus, vocab_size=330, byte_fallback=True)
    )
    model = str(corpus.parent / "out.model")
    tokenizer = tokenization.load(tokenization.VocabularyOptions(model))
    assert tokenizer.pieces[:5] == (
        "<pad>",
        "<unk>",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    )
    ids = tokenizer.encode("the 天 cat")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "the 天 cat"
    assert "<0xE5>" in tokenizer.ids_to_pieces(ids)


def test_too_few_pieces_for_bytes(corpus):
    with pytest.raises(
        errors.UserError, match="`vocab_size=200` is too small.* needs 270"
    ):
        settings(corpus, vocab_size=200, byte_fallback=True)


def test_readable_list_equals_the_released_one(shared_dir):
    vocab = shared_dir / "data" / "vocab"
    model = (vocab / "30k-clean.model").read_bytes()
    expected = (vocab / "30k-clean.vocab").read_text(encoding="utf-8")
    assert train_sentencepiece.readable_vocab(model) == expected


@pytest.mark.parametrize("how", ["script", "module"])
def test_same_text_gives_same_bytes_in_another_process(how, corpus):
    options = settings(corpus, input_sentence_size=200)
    train_sentencepiece.run(options)
    script = {
        "script": ["data_prep/train_sentencepiece.py"],
        "module": ["-m", "data_prep.train_sentencepiece"],
    }[how]
    done = subprocess.run(
        [
            sys.executable,
            *script,
            f"--input_file={corpus}",
            f"--output_prefix={corpus.parent}/again",
            "--vocab_size=60",
            "--input_sentence_size=200",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for ending in (".model", ".vocab"):
        first = corpus.with_name(f"out{ending}").read_bytes()
        assert corpus.with_name(f"again{ending}").read_bytes() == first
    assert "400 sentences" in done.stderr
    assert "60 pieces in" in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_no_text(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("\n \n")
    with pytest.raises(errors.UserError, match="holds no sentence"):
        train_sentencepiece.run(settings(path))
    assert not list(tmp_path.glob("out*"))


def possible_size(corpus, vocab_size, message, **changes):
    with pytest.raises(errors.UserError, match=message) as caught:
        train_sentencepiece.run(
            settings(corpus, vocab_size=vocab_size, **changes)
        )
    assert f"--vocab_size={vocab_size}" in str(caught.value)
    return int(str(caught.value).split("possible value is ")[1].split(".")[0])


def test_too_large_a_vocabulary_names_the_largest(corpus):
    largest = possible_size(corpus, 5000, "largest possible value")
    train_sentencepiece.run(settings(corpus, vocab_size=largest))
    assert possible_size(corpus, largest + 1, "largest") == largest


def test_too_small_a_vocabulary_names_the_smallest(corpus):
    smallest = possible_size(corpus, 15, "smallest possible value")
    train_sentencepiece.run(settings(corpus, vocab_size=smallest))
    assert possible_size(corpus, smallest - 1, "smallest") == smallest


def test_text_that_is_not_utf8_is_located(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(errors.UserError, match="latin.txt`: line 2 is not UTF"):
        train_sentencepiece.run(settings(path))


def test_bytes_that_are_no_text_are_located(tmp_path):
    path = tmp_path / "zeros"
    path.write_bytes(b"fine\n" + bytes(500))
    with pytest.raises(errors.UserError, match="zeros`: line 2 is not text"):
        train_sentencepiece.run(settings(path))


def test_sentences_too_long_are_counted(corpus, caplog):
    with corpus.open("a") as stream:
        stream.write("ab " * 3000)
    train_sentencepiece.run(settings(corpus))
    assert "1 sentences of more than 4192 bytes" in caplog.text


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"output_prefix": ""}, "`output_prefix` is empty"),
        ({"vocab_size": 13}, "`vocab_size=13` is below 14"),
        ({"character_coverage": 99.9}, "99.9` is above 1"),
        ({"input_sentence_size": 50}, "input_sentence_size=50"),
        ({"input_sentence_size": -1}, "input_sentence_size=-1"),
    ],
)
def test_options_are_checked(changes, message, corpus):
    with pytest.raises(errors.UserError, match=message):
        settings(corpus, **changes)
