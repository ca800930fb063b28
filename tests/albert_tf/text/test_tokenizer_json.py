"""`tokenizer.json` in the library tokenizers, against our tokenizers."""

import json
import re

import pytest
import tokenizers

from albert_tf.text import (
    tokenization,
    tokenizer_check,
    tokenizer_json,
    wordpiece,
)
from tests.albert_tf.text import hard_texts, vocabularies
from tests.conftest import FIXTURES, refused

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


def vocabulary(kind, lower, keep_accents=False):
    """A vocabulary, and what tells in which texts both must agree."""
    settings = {"do_lower_case": lower, "keep_accents": keep_accents}
    if kind == "wordpiece":
        words = str(OWN / "vocab.txt")
        return wordpiece.WordPieceTokenizer(words, **settings), lambda t: True
    tokenizer = tokenization.Tokenizer(str(OWN / "spm.model"), **settings)
    return tokenizer, lambda text: not DIGIT_COMMA.search(text)


def wrong(tokenizer, chosen):
    """Those of some texts that the library cuts in another way."""
    content = tokenizer_json.make(tokenizer)
    library = tokenizers.Tokenizer.from_str(content)
    scores = tokenizer_check._scores(content)
    found = library.encode_batch(chosen, add_special_tokens=False)
    for text, encoding in zip(chosen, found, strict=True):
        ours = tokenizer.encode_with_masks(text)
        is_tie = tokenizer_check._is_tie(ours, encoding.ids, scores)
        if ours != encoding.ids and not is_tie:
            yield text


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
@pytest.mark.parametrize("kind", ["wordpiece", "tokenization"])
def test_hard_texts_get_our_ids(kind, lower, keep_accents):
    tokenizer, agrees = vocabulary(kind, lower, keep_accents)
    chosen = list(filter(agrees, texts()))
    assert len(chosen) > 700
    assert not list(wrong(tokenizer, chosen))


def read(path, lower):
    """Recorded texts and ids; a mask in a text is none for the original."""
    rows = map(json.loads, path.read_text().strip().split("\n"))
    return {
        row["text"]: row["ids"]
        for row in rows
        if row["lower"] == lower and "[MASK]" not in row["text"]
    }


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["wordpiece", "tokenization"])
def test_recorded_texts_get_the_ids_of_the_original(kind, lower):
    tokenizer, agrees = vocabulary(kind, lower)
    recorded = read(OWN / f"original_{kind}.jsonl", lower)
    chosen = list(filter(agrees, recorded))
    assert len(chosen) > 100
    for text in chosen:
        assert tokenizer.encode(text) == recorded[text]
    assert not list(wrong(tokenizer, chosen))


def test_released_vocabulary_gets_the_ids_of_the_original(released, shared_dir):
    library = tokenizers.Tokenizer.from_str(tokenizer_json.make(released))
    path = shared_dir / "fixtures" / "original_tokenization.jsonl"
    for text, ids in read(path, lower=True).items():
        found = library.encode(text, add_special_tokens=False)
        assert found.ids == ids, text
    numbers = "In 2012, 1,000 of 10,000,000 (1,250), '13, 25,000,"
    assert library.encode(numbers, add_special_tokens=False).ids == (
        released.encode(numbers)
    )


def test_pairs_have_markers_and_segments(tiny_tokenizer):
    library = tokenizers.Tokenizer.from_str(tokenizer_json.make(tiny_tokenizer))
    found = library.encode("the lamp", "the rope")
    one, two = map(tiny_tokenizer.encode, ("the lamp", "the rope"))
    cls, sep = tiny_tokenizer.cls_id, tiny_tokenizer.sep_id
    assert found.ids == [cls, *one, sep, *two, sep]
    assert found.type_ids == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert library.decode(found.ids) == "the lamp the rope"


def test_user_defined_symbols_always_win(tiny_tokenizer):
    vocabulary = json.loads(tokenizer_json.make(tiny_tokenizer))["model"][
        "vocab"
    ]
    best = max(score for _, score in vocabulary[13:])
    assert dict(vocabulary)["–"] == pytest.approx(3 * best - 0.1)  # 3 bytes.


def test_bytes_are_decoded_to_their_characters(tmp_path):
    others = {**vocabularies.SPECIALS, **vocabularies.BYTES}
    path = vocabularies.write_model(
        tmp_path / "bytes.model", ["▁", "▁a", "b"], others, byte_fallback=True
    )
    tokenizer = tokenization.Tokenizer(path)
    content = tokenizer_json.make(tokenizer)
    tokenizer_check.check(content, tokenizer)
    library = tokenizers.Tokenizer.from_str(content)
    for text in ("a b今🦒 a🦒🦒b", "🦒", "", "a b"):
        ids = tokenizer.encode(text)
        assert library.decode(ids) == tokenizer.decode(ids) == text


def test_model_of_another_kind_is_refused(tiny_tokenizer):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_tokenizer.model_bytes
    )
    model.trainer_spec.model_type = model.trainer_spec.BPE
    tiny_tokenizer.model_bytes = model.SerializeToString()
    with refused("differs .* model_type"):
        tokenizer_json.make(tiny_tokenizer)
