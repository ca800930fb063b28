import json
import tracemalloc

import numpy as np
import pytest

from albert_tf.data import manifests, marks
from albert_tf.text import tokenization
from data_prep.writer import corpus, decoding, token_blocks, units
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


# For private use (three planes), without a meaning in Unicode 15, marks of all
# kinds, controls, formats, spaces, ends of lines; alone and together.
LINES = [
    *"\ue000 \U000fdafa \U0010fffd \u0378 \U0001fae9 \u093f \u0301".split(" "),
    *"\u20dd \u0e31 \ufe0f \u200b \x07 \xa0 \u3000 \u2028 \x85".split(" "),
    *"\x1c \u0301\ue000 \ufffd \u00b4".split(" "),
    *("\ufffd\u0301 \x07", "\u200b \x07"),
]


@pytest.mark.parametrize("kind", ["sentencepiece", "keep_accents", "wordpiece"])
@pytest.mark.parametrize("line", LINES)
def test_a_line_counts_in_json_as_in_text(
    line, kind, undescribed_vocab, tmp_path
):
    """It is a sentence in both or in none; JSON has no line that ends one."""
    tokenizer = tokenization.Tokenizer(
        undescribed_vocab, keep_accents=kind == "keep_accents"
    )
    if kind == "wordpiece":
        pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] it ra ##ins".split()
        (tmp_path / "v").write_text("\n".join(pieces))
        vocabulary = tokenization.VocabularyOptions(vocab_file=f"{tmp_path}/v")
        tokenizer = tokenization.load(vocabulary)
    texts = f"it\n{line}\nrains\n", json.dumps({"text": f"it\n{line}\nrains"})
    found = []
    for input_format, text in zip(("lines", "jsonl"), texts, strict=True):
        options = corpus.CorpusOptions("x", input_format=input_format)
        block = corpus.Block(0, "x", 1, f"{text}\n".encode())
        lines, facts = decoding.decode_lines(block, options, tokenizer.clean)
        found.append(token_blocks.tokenize(lines, tokenizer, facts))
    of_text, of_json = found
    assert of_json.tokens.tolist() == of_text.tokens.tolist()
    assert of_json.sentence_ends.tolist() == of_text.sentence_ends.tolist()
    assert len(of_json) == 1
    assert len(of_text) == (1 if tokenizer.clean(line) else 2)


@pytest.mark.parametrize("lines_at_once", [1, 2, 3, 5])
def test_lines_are_encoded_a_few_at_a_time(
    tiny_tokenizer, monkeypatch, lines_at_once
):
    lines = ["a dog in the rain", "", "it rains", "\u200b", "the dog"]
    whole = token_blocks.tokenize(lines, tiny_tokenizer, {"lines_skipped": 7})
    assert whole.counts["lines_skipped"] == 7
    assert whole.counts["tokens"] == len(whole.tokens)
    names = "documents", "sentences", "lines_without_pieces"
    assert [whole.counts[name] for name in names] == [2, 3, 1]
    assert whole.counts["unknown_pieces"] == (
        (whole.tokens == tiny_tokenizer.unk_id).sum()
    )
    monkeypatch.setattr(token_blocks, "_LINES_AT_ONCE", lines_at_once)
    parts = token_blocks.tokenize(lines, tiny_tokenizer, {"lines_skipped": 7})
    for name in ("tokens", "sentence_ends", "document_ends"):
        expected, found = getattr(whole, name), getattr(parts, name)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert parts.counts == whole.counts


def test_no_line_is_an_empty_block(tiny_tokenizer):
    block = token_blocks.tokenize([], tiny_tokenizer, {})
    assert len(block) == len(block.tokens) == block.counts["tokens"] == 0


def test_a_large_block_takes_little_memory(tiny_tokenizer):
    lines = ["the dog and the cat in the rain"] * 2**16
    tracemalloc.start()
    block = token_blocks.tokenize(lines, tiny_tokenizer, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Ids as int32, then tokens as int16; lists would take 40 bytes for each.
    assert peak < 20 * len(block.tokens)


def test_documents_of_the_same_tokens_differ_by_their_sentences(tiny_tokenizer):
    lines = ["it rains", "we stay", "", "", "it rains we stay"]
    block = token_blocks.tokenize(lines, tiny_tokenizer, {})
    half = len(block.tokens) // 2
    assert (block.tokens[:half] == block.tokens[half:]).all()
    assert len(np.unique(block.fingerprints())) == 2
    assert block.counts["documents_of_one_sentence"] == 1
    rain = units.Units(frozenset({("it", "rains")}), {"it": (2,)})
    marking = token_blocks.Marking({"phrases": rain}, speakers=True)
    said = token_blocks.tokenize(
        [f"R\t{lines[-1]}", "Q\tit rains"], tiny_tokenizer, {}, marking=marking
    )
    assert said.counts["phrases"] == 2  # One in each line.
    assert (said.tokens >> marks.BITS)[:half].tolist() == (
        block.tokens[half:].tolist()
    )
    is_response = (said.tokens & marks.RESPONSE > 0).tolist()
    assert is_response == [n < half for n in range(len(said.tokens))]


def test_a_word_whose_first_piece_is_empty_has_its_letter(tiny_tokenizer):
    """A piece that starts a word is asked whether its letter is upper-case."""
    block = token_blocks.tokenize(
        ["We saw  Zoo", "we saw zoo "],
        tiny_tokenizer,
        {},
        marking=token_blocks.Marking({}),
    )
    pieces = tiny_tokenizer.ids_to_pieces((block.tokens >> marks.BITS).tolist())
    assert {"▁", "we", "z"} <= {*pieces}
    upper = (block.tokens & marks.UPPER > 0).tolist()
    found = list(zip(pieces, upper, strict=True))
    assert [u for p, u in found if p == "▁"] == [True, True, False, False]
    assert not any(u for p, u in found if p[:1] == "▁" and p[1:])
