"""Training of SentencePiece vocabularies."""

import random

import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import tokenization, tokenization_ops
from data_prep import train_sentencepiece
from tests.albert_tf.text import hard_texts
from tests.conftest import python, refused

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


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


def settings(corpus, **changes):
    values = {
        "input_file": str(corpus),
        "output_prefix": str(corpus.parent / "out"),
        "vocab_size": 60,
        "overwrite": True,
    }
    return train_sentencepiece.Options(**(values | changes))


def train(corpus, **changes):
    """Train a vocabulary, and open it."""
    train_sentencepiece.run(settings(corpus, **changes))
    model = str(corpus.parent / "out.model")
    return tokenization.load(tokenization.VocabularyOptions(model))


def possible_size(corpus, vocab_size, message, **changes):
    with refused(message) as caught:
        train_sentencepiece.run(
            settings(corpus, vocab_size=vocab_size, **changes)
        )
    assert f"`vocab_size={vocab_size}`" in str(caught.value)
    return int(str(caught.value).split("possible value is ")[1].split(".")[0])


def train_largest(tmp_path, text, **changes):
    """Train the largest vocabulary that a text gives, and open it."""
    path = tmp_path / "corpus.txt"
    path.write_text(text, encoding="utf-8")
    size = possible_size(path, 600, "is more than", **changes)
    return train(path, vocab_size=size, **changes)


def test_result_has_the_released_layout_and_loads(corpus):
    tokenizer = train(corpus)
    assert tokenizer.vocab_size == 60
    assert tokenizer.pieces[:13] == (*SPECIAL, *'()"-.–£€')
    assert tokenizer.decode(tokenizer.encode("The cat, É")) == "the cat, é"
    listed = corpus.with_name("out.vocab").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in listed] == list(tokenizer.pieces)
    assert listed[4] == "[MASK]\t0"
    cased = train(corpus, do_lower_case=False, keep_accents=False)
    assert cased.decode(cased.encode("The É")) == "The E"


@pytest.mark.parametrize(
    "text",
    [
        "größere häuser für öfen, übung",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u0922\u093c",  # Hindi
        "\u0e44\u0e1b\u0e17\u0e35\u0e48\u0e19\u0e31\u0e48\u0e19",  # Thai
        "\u0643\u064e\u062a\u064e\u0628 \u0625\u0644\u0649",  # Arabic
        "ガギグ ぱぴぷ",  # Japanese
    ],
)
def test_accents_vowel_signs_and_dakuten_survive(text, tmp_path, caplog):
    caplog.set_level("INFO", "absl")
    tokenizer = train_largest(tmp_path, f"{text}\n" * 300)
    assert tokenizer.clean(text) == text
    ids = tokenizer.encode(text)
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == text
    assert "--keep_accents=true, because " in caplog.text


def test_chinese_text_has_a_lower_coverage(tmp_path):
    text = "今天天气很好\n" * 2000 + "\u5000\u5001\n"
    tokenizer = train_largest(tmp_path, text)
    assert "天" in tokenizer.pieces and "\u5000" not in tokenizer.pieces
    tokenizer = train_largest(tmp_path, text, character_coverage=1.0)
    assert "\u5000" in "".join(tokenizer.pieces)


def test_bytes_stand_for_characters_without_a_piece(corpus):
    tokenizer = train(corpus, vocab_size=330, byte_fallback=True)
    assert tokenizer.pieces[:5] == SPECIAL
    ids = tokenizer.encode("the 天 cat")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "the 天 cat"
    assert "<0xE5>" in tokenizer.ids_to_pieces(ids)
    settings(corpus, vocab_size=270, byte_fallback=True)  # The smallest.
    settings(corpus, vocab_size=14, input_sentence_size=101)
    for name, value in (("vocab_size", 269), ("input_sentence_size", 100)):
        with refused(f"`{name}={value}` is "):
            settings(corpus, byte_fallback=True, **{name: value})


def test_pairs_are_merged_and_no_text_is_unknown(corpus):
    """Pieces and their offsets are the same in TensorFlow's graph."""
    options = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330}
    tokenizer = train(corpus, **options)
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    assert model.trainer_spec.model_type == model.trainer_spec.BPE
    texts = hard_texts.mixed(200)
    ids = tokenizer.encode_batch(texts)
    assert any(ids)
    assert all(tokenizer.unk_id not in row for row in ids)
    graph = tokenization_ops.make_graph_tokenizer(tokenizer, with_offsets=True)
    found = graph.tokenize_with_offsets(tf.constant(texts))[0].to_list()
    assert found == ids == graph.tokenize(tf.constant(texts)).to_list()
    others = train(corpus, **{**options, "model_type": "unigram"}).pieces
    assert tokenizer.pieces[:269] == others[:269] != tokenizer.pieces[:330]


def test_readable_list_equals_the_released_one(shared_dir):
    vocab = shared_dir / "data" / "vocab"
    model = (vocab / "30k-clean.model").read_bytes()
    expected = (vocab / "30k-clean.vocab").read_text(encoding="utf-8")
    assert train_sentencepiece.readable_vocab(model) == expected


def test_same_text_gives_same_bytes_in_another_process(corpus, tiny_vocab):
    train(corpus, input_sentence_size=200)
    done = python(
        "data_prep/train_sentencepiece.py",
        f"--input_file={corpus}",
        f"--output_prefix={corpus.parent}/new/again",
        "--vocab_size=60",
        "--input_sentence_size=200",
        f"--compare_with={tiny_vocab}",
    )
    for ending in (".model", ".vocab"):
        first = corpus.with_name(f"out{ending}").read_bytes()
        again = corpus.parent / "new" / f"again{ending}"
        assert again.read_bytes() == first
    _, count, drawn, new, other = done.stderr.splitlines()
    assert "400 sentences" in count
    assert "--input_sentence_size=200 of them" in drawn
    assert "again.model: 60 pieces. In the first 400 lines" in new
    assert "tiny.model: 400 pieces. In the first 400 lines" in other


def test_sizes_that_a_text_does_not_allow_name_the_limit(corpus):
    largest = possible_size(corpus, 5000, "largest possible value")
    train(corpus, vocab_size=largest)
    assert possible_size(corpus, largest + 1, "largest") == largest
    smallest = possible_size(corpus, 15, "smallest possible value")
    train(corpus, vocab_size=smallest)
    assert possible_size(corpus, smallest - 1, "smallest") == smallest


@pytest.mark.parametrize(
    "content, message",
    [
        (b"\n \n", "holds no sentence to learn from; left out: none. Give"),
        (
            b"\xe2\x96\x85 a\n" * 9,
            "no sentence .* 9 with U.2585 .reserved by .* Give",
        ),
        (b"\xe2\x80\x8b\n" * 8, "no sentence .* 8 of invisible characters"),
        (b"\xef\xbf\xbd\n" * 7, "no sentence .* 7 of invisible characters"),
        (b"a" * 5000, "no sentence .* 1 of more than 4192 bytes"),
        (b"fine\ncaf\xe9\n", "corpus.txt`: line 2 is not UTF"),
        (b"fine\n" + bytes(500), "corpus.txt`: line 2 is not text"),
    ],
)
def test_what_is_no_text_is_refused(content, message, corpus):
    corpus.write_bytes(content)
    with refused(message):
        train(corpus)
    assert [p.name for p in corpus.parent.iterdir()] == ["corpus.txt"]


def test_dropped_sentences_are_counted(corpus, caplog):
    caplog.set_level("INFO", "absl")
    with corpus.open("a") as stream:
        stream.write("ab " * 3000 + "\na \u2585 b\n\u2585\n\u200b\n")
    train(corpus, input_sentence_size=0)
    assert "400 sentences read" in caplog.text
    assert "drawn" not in caplog.text
    assert "1 sentences of more than 4192 bytes were left out" in caplog.text
    assert "2 sentences with U+2585 (reserved" in caplog.text
    assert "1 sentences of invisible characters were" in caplog.text
