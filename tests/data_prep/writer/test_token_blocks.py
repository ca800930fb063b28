import tracemalloc

import numpy as np
import pytest

from albert_tf.data import manifests
from data_prep.writer import token_blocks
from tests.data_prep import writing


def test_duplicates_are_dropped_and_counted(base, tmp_path):
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "c.txt").write_text(text + "\nsomething else\nand more\n")
    writing.run(base, drop_duplicates=True)
    manifest = manifests.find(base.output_file)
    assert manifest.corpus["duplicate_documents"] == 12
    (tmp_path / "c.txt").write_text("something else\nand more\n")
    other = writing.run(base, output_file=str(tmp_path / "y"))
    np.testing.assert_array_equal(
        np.sort(writing.restore(writing.read_arrays(base)), axis=0),
        np.sort(writing.restore(writing.read_arrays(other)), axis=0),
    )


@pytest.mark.parametrize("lines_at_once", [1, 2, 3, 5])
def test_lines_are_encoded_a_few_at_a_time(
    tiny_tokenizer, monkeypatch, lines_at_once
):
    lines = ["a dog in the rain", "", "it rains", "\u200b", "the dog"]
    whole = token_blocks.tokenize(lines, tiny_tokenizer, {})
    monkeypatch.setattr(token_blocks, "_LINES_AT_ONCE", lines_at_once)
    parts = token_blocks.tokenize(lines, tiny_tokenizer, {})
    for name in ("tokens", "sentence_ends", "document_ends"):
        expected, found = getattr(whole, name), getattr(parts, name)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert parts.facts == whole.facts


def test_no_line_is_an_empty_block(tiny_tokenizer):
    block = token_blocks.tokenize([], tiny_tokenizer, {})
    assert len(block) == len(block.tokens) == block.facts["tokens"] == 0


def test_a_large_block_takes_little_memory(tiny_tokenizer):
    lines = ["the dog and the cat in the rain"] * 2**16
    tracemalloc.start()
    block = token_blocks.tokenize(lines, tiny_tokenizer, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Ids as int32, then tokens as int16; lists would take 40 bytes for each.
    assert peak < 20 * len(block.tokens)
