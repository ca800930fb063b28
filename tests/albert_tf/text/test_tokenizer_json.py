"""`tokenizer.json` in the library tokenizers, against our tokenizers."""

import json
import re

import pytest
import tokenizers

from albert_tf.common import errors
from albert_tf.text import (
    tokenization,
    tokenizer_check,
    tokenizer_json,
    wordpiece,
)
from tests.albert_tf.text import hard_texts
from tests.conftest import FIXTURES

OWN = FIXTURES / "own_text"
# A number before a comma. The vocabulary of OWN has pieces like "5,".
DIGIT_COMMA = re.compile(r"\d\W*,")


def texts():
    masked = [f"{text}[MASK] {text}[MASK]b" for text in hard_texts.HARD]
    return [
        *tokenizer_check.HARD_TEXTS,
        *masked,
        *hard_texts.mixed(500),
        *hard_texts.random_texts(500),
    ]


def vocabularies():
    spm, words = str(OWN / "spm.model"), str(OWN / "vocab.txt")
    for lower in (True, False):
        for keep in (True, False):
            settings = {"do_lower_case": lower, "keep_accents": keep}
            yield tokenization.Tokenizer(spm, **settings)
            yield wordpiece.WordPieceTokenizer(words, **settings)


def same_or_tie(tokenizer, content, text, ids):
    ours = tokenizer.encode_with_masks(text)
    if ours == ids:
        return True
    scores = tokenizer_check._scores(content)
    return tokenizer_check._is_tie(ours, ids, scores)


@pytest.mark.parametrize(
    "tokenizer",
    list(vocabularies()),
    ids=lambda t: f"{t.normalization.kind}-{t.normalization.settings}",
)
def test_hard_texts_get_our_ids(tokenizer):
    content = tokenizer_json.make(tokenizer)
    library = tokenizers.Tokenizer.from_str(content)
    chosen = texts()
    if isinstance(tokenizer, tokenization.Tokenizer):
        chosen = [t for t in chosen if not DIGIT_COMMA.search(t)]
    assert len(chosen) > 700
    found = library.encode_batch(chosen, add_special_tokens=False)
    wrong = [
        text
        for text, encoding in zip(chosen, found, strict=True)
        if not same_or_tie(tokenizer, content, text, encoding.ids)
    ]
    assert not wrong


def read(path, lower):
    """Recorded texts; a mask in a text is none for the original."""
    rows = map(json.loads, path.read_text().strip().split("\n"))
    return [
        row
        for row in rows
        if row["lower"] == lower and "[MASK]" not in row["text"]
    ]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["wordpiece", "tokenization"])
def test_recorded_texts_get_the_ids_of_the_original(kind, lower):
    if kind == "wordpiece":
        words = str(OWN / "vocab.txt")
        tokenizer = wordpiece.WordPieceTokenizer(words, lower)
    else:
        tokenizer = tokenization.Tokenizer(str(OWN / "spm.model"), lower)
    content = tokenizer_json.make(tokenizer)
    library = tokenizers.Tokenizer.from_str(content)
    rows = read(OWN / f"original_{kind}.jsonl", lower)
    if kind == "tokenization":
        rows = [row for row in rows if not DIGIT_COMMA.search(row["text"])]
    assert len(rows) > 100
    for row in rows:
        assert tokenizer.encode(row["text"]) == row["ids"]
        found = library.encode(row["text"], add_special_tokens=False).ids
        assert same_or_tie(tokenizer, content, row["text"], found), row["text"]


def test_released_vocabulary_gets_the_ids_of_the_original(shared_dir):
    vocabulary = shared_dir / "data" / "vocab" / "30k-clean.model"
    tokenizer = tokenization.Tokenizer(str(vocabulary))
    library = tokenizers.Tokenizer.from_str(tokenizer_json.make(tokenizer))
    path = shared_dir / "fixtures" / "original_tokenization.jsonl"
    for row in read(path, lower=True):
        found = library.encode(row["text"], add_special_tokens=False)
        assert found.ids == row["ids"], row["text"]
    numbers = "In 2012, 1,000 of 10,000,000 (1,250), '13, 25,000,"
    assert library.encode(numbers, add_special_tokens=False).ids == (
        tokenizer.encode(numbers)
    )


def test_pairs_have_markers_and_segments(tiny_tokenizer):
    library = tokenizers.Tokenizer.from_str(tokenizer_json.make(tiny_tokenizer))
    found = library.encode("the lamp", "the rope")
    one, two = map(tiny_tokenizer.encode, ("the lamp", "the rope"))
    cls, sep = tiny_tokenizer.cls_id, tiny_tokenizer.sep_id
    assert found.ids == [cls, *one, sep, *two, sep]
    assert found.type_ids == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert library.decode(found.ids) == "the lamp the rope"


def test_model_of_another_kind_is_refused(tiny_tokenizer):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_tokenizer.model_bytes
    )
    model.normalizer_spec.add_dummy_prefix = False
    tiny_tokenizer.model_bytes = model.SerializeToString()
    with pytest.raises(errors.UserError, match="differs .* add_dummy_prefix"):
        tokenizer_json.make(tiny_tokenizer)
