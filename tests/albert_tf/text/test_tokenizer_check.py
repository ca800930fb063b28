"""Which `tokenizer.json` passes for that of a vocabulary."""

import json
import types

import pytest

from albert_tf.text import tokenizer_check, tokenizer_json, wordpiece
from tests.conftest import refused


def test_check_refuses_other_rules(tiny_tokenizer):
    content = tokenizer_json.make(tiny_tokenizer)
    tokenizer_check.check(content, tiny_tokenizer)
    values = json.loads(content)
    values["normalizer"] = {"type": "Lowercase"}
    with refused("tokenizers cuts '.*' into"):
        tokenizer_check.check(json.dumps(values), tiny_tokenizer)


def test_check_refuses_words_that_begin_at_the_space_before_them(
    tiny_tokenizer,
):
    content = json.loads(tokenizer_json.make(tiny_tokenizer))
    steps = content["pre_tokenizer"]["pretokenizers"]
    marks = {**steps[2], "prepend_scheme": "first"}
    steps[:] = [{**steps[3], "pattern": {"Regex": "\U0010ffff"}}, marks]
    with refused("places .▁.*. of .* at . "):
        tokenizer_check.check(json.dumps(content), tiny_tokenizer)


def test_check_refuses_unknown_words(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*wordpiece.SPECIAL_PIECES, "lamp", "##s"]))
    tokenizer = wordpiece.WordPieceTokenizer(str(path))
    content = tokenizer_json.make(tokenizer)
    assert tokenizer_check._scores(content) == []
    content = content.replace('"lamp"', '"lamq"')
    with refused(r"into .*\[UNK\]"):
        tokenizer_check.check(content, tokenizer)


@pytest.mark.parametrize(
    "ours, theirs, expected",
    [
        ([0, 1], [2], True),  # -3.0 and -3.0005.
        ([0], [2], False),
        ([0, 1], [3], False),  # -3.002.
        ([3], [0, 1], False),
        ([], [], True),
    ],
)
def test_cuts_of_equal_probability_pass(ours, theirs, expected):
    scores = [-1.0, -2.0, -3.0005, -3.002]
    assert tokenizer_check._is_tie(ours, theirs, scores) is expected
    assert not tokenizer_check._is_tie(ours, theirs, [])  # WordPiece.


def test_texts_are_made_of_all_ordinary_pieces():
    special = ("[CLS]", "[MASK]", "<pad>", "<0xE5>")
    pieces = (*special, "▁a", "b", "▁5,", "[", "<")

    def decode(ids):
        return "".join(pieces[id_] for id_ in ids).replace("▁", " ")

    tokenizer = types.SimpleNamespace(pieces=pieces, decode=decode)
    texts = tokenizer_check._texts_of_pieces(tokenizer)
    assert texts == tokenizer_check._texts_of_pieces(tokenizer)
    assert len(set(texts)) == len(texts) == 1000
    assert set("".join(texts)) == set(" ab5[<")
