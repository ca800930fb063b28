"""Deliberate differences from the original: docs/differences.md."""

import json

import numpy as np
import pytest

from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from data_prep.writer import corpus, decoding, token_blocks

# Number of the question, the piece, its text here and in the original. These
# are runs of characters that become one space.
SPACES = [
    (0, "▁", "", " "),
    (1, "▁not", "▁ not", " not"),
    (2, "▁", " \u200b", " "),
    (3, "▁", " \ufeff", " "),
    (4, ".", "…", "\u2028…"),
]
KOREAN = 5


@pytest.fixture(scope="module")
def questions(own_text):
    path = own_text.data / "differences/squad.json"
    return squad_data.read(str(path), "file")


@pytest.fixture(scope="module")
def recorded(own_text):
    rows = own_text.read_rows("differences/original_squad_384_128_64.jsonl")
    return {int(row["qas_id"]): row for row in rows}


@pytest.mark.parametrize("case", SPACES)
def test_odd_spaces_belong_to_another_piece(
    own_text, questions, recorded, case
):
    number, *expected = case
    tokenizer, text = own_text.tokenizer(), questions[number].context
    _, starts, ends = tokenizer.encode_with_offsets(text)
    # The original's ends are those of the last character, never before 0.
    here = zip(starts, np.maximum(ends, 1) - 1, strict=True)
    row = recorded[number]
    there = zip(
        row["tok_start_to_orig_index"],
        row["tok_end_to_orig_index"],
        strict=True,
    )
    pieces = tokenizer.encode_pieces(text)
    differing = {
        (name, text[a[0] : a[1] + 1], text[b[0] : b[1] + 1])
        for name, a, b in zip(pieces, here, there, strict=True)
        if tuple(a) != tuple(b)
    }
    assert differing == {tuple(expected)}


def test_questions_in_korean_are_kept(own_text, questions, recorded):
    assert recorded.keys() == {number for number, *_ in SPACES}
    windows = squad_features.make_windows(
        questions, own_text.tokenizer(), squad_features.PassageWindows(), 384
    )
    assert KOREAN in windows.question


def test_wordpiece_documents_end_at_lines_without_visible_text(own_text):
    """Zero-width characters or accents only; the original needs white space."""
    options = corpus.CorpusOptions(
        str(own_text.data / "differences/corpus.txt")
    )
    (block,) = corpus.CorpusReader(
        corpus.find_files(options), options
    ).read_blocks()
    lines, facts = decoding.decode_lines(block, options)
    theirs = json.loads(own_text.read("differences/original_documents.json"))
    counts = {}
    for kind, expected in theirs.items():
        tokenizer = own_text.tokenizer(kind)
        found = token_blocks.tokenize(lines, tokenizer, facts)
        documents = [
            [
                tokenizer.ids_to_pieces(flat[a:b].tolist())
                for a, b in zip(bounds, bounds[1:], strict=False)
            ]
            for flat, bounds in map(found.document, range(len(found)))
        ]
        assert sorted(sum(documents, [])) == sorted(sum(expected, []))
        counts[kind] = len(documents), len(expected)
    assert counts == {"sentencepiece": (3, 3), "wordpiece": (4, 2)}
