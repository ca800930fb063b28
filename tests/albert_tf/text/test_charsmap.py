"""The table of replacements, against SentencePiece itself."""

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import charsmap
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
