"""The table of replacements, against SentencePiece itself."""

import re

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import charsmap, tokenization, tokenizer_check
from tests.conftest import FIXTURES


def test_replacements_are_those_that_sentencepiece_makes():
    data = (FIXTURES / "own_text" / "spm.model").read_bytes()
    model = sentencepiece_model_pb2.ModelProto.FromString(data)
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    table = charsmap.replacements(model.normalizer_spec.precompiled_charsmap)
    assert len(table) > 200_000
    assert table["\uff21"] == "A"
    assert table["\u1100\u1161\u11a8"] == "\uac01"
    for old, new in list(table.items())[::100]:
        assert processor.normalize(f"x{old}x") == (
            "▁" + " ".join(f"x{new}x".split()).replace(" ", "▁")
        )
    assert "a" not in table and "今" not in table
    assert charsmap.replacements(b"") == {}


@pytest.mark.slow
def test_a_model_cleans_text_by_itself():
    options = tokenization.VocabularyOptions(
        str(FIXTURES / "own_text/spm.model")
    )
    tokenizer = tokenization.load(options)
    assert tokenizer.digit_comma_ids
    model = charsmap.cleaning_model(tokenizer)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = (FIXTURES / "own_text/corpus.txt").read_text().splitlines()[:300]
    texts = [
        *tokenizer_check.HARD_TEXTS,
        "In 2012, we",
        *lines,
        *map(str.upper, lines),
    ]
    other = [t for t in texts if tokenizer.encode(t) != processor.encode(t)]
    # The final sigma; numbers with commas that continue a word.
    assert [text for text in other if not re.search(r"\u03a3|\d,", text)] == []
    assert "In 2012, we" not in other
