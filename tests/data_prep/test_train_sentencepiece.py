import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest
from backports import zstd

from albert_tf import errors, tokenization
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
    train_sentencepiece.run(settings(corpus, do_lower_case=False))
    tokenizer = tokenization.Tokenizer(str(corpus.parent / "out.model"), False)
    ids = tokenizer.encode("The É")
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == "The E"


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


def possible_size(corpus, vocab_size, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        train_sentencepiece.run(settings(corpus, vocab_size=vocab_size))
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
    with pytest.raises(
        errors.UserError, match="latin.txt, line 2, is not UTF-8"
    ):
        train_sentencepiece.run(settings(path))


def test_bytes_that_are_no_text_are_located(tmp_path):
    path = tmp_path / "zeros"
    path.write_bytes(b"fine\n" + bytes(500))
    with pytest.raises(errors.UserError, match="zeros: line 2 is no text"):
        train_sentencepiece.run(settings(path))


def test_sentences_too_long_are_counted(corpus, caplog):
    with corpus.open("a") as stream:
        stream.write("ab " * 3000)
    train_sentencepiece.run(settings(corpus))
    assert "1 sentences of more than 4192 bytes" in caplog.text


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"output_prefix": ""}, "--output_prefix is empty"),
        ({"vocab_size": 13}, "--vocab_size=13 is below 14"),
        ({"character_coverage": 99.9}, "99.9 is above 1"),
        ({"input_sentence_size": 50}, "--input_sentence_size=50"),
        ({"input_sentence_size": -1}, "--input_sentence_size=-1"),
    ],
)
def test_options_are_checked(changes, message, corpus):
    with pytest.raises(errors.UserError, match=message):
        settings(corpus, **changes)
