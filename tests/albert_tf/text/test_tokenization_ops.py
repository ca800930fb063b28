import pathlib
import random

import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import (
    cleaning,
    text_ops,
    tokenization,
    tokenization_ops,
    wordpiece,
)
from tests.albert_tf.text import hard_texts, vocabularies

TEXTS = tf.TensorSpec([None], tf.string)


WORDPIECES = (
    "今 天 年 un ##want ##ed , [ mask ] ##x x 😀 ##😀 ς ##σ σ e".split()
)


@pytest.fixture(scope="module")
def wordpiece_vocab(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    pieces = [*wordpiece.SPECIAL_PIECES, *WORDPIECES]
    path.write_text("\n".join(pieces), "utf-8")
    return str(path)


@pytest.fixture
def make_tokenizer(undescribed_vocab, wordpiece_vocab):
    def make(kind, *settings):
        spm = undescribed_vocab if kind == "sentencepiece" else None
        return tokenization.load(
            tokenization.VocabularyOptions(spm, wordpiece_vocab, *settings)
        )

    return make


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def any_tokenizer(request, make_tokenizer):
    return make_tokenizer(request.param)


def with_masks(texts):
    generator = random.Random(8)
    marks = ["[MASK]", " [MASK]", "[MASK] ", " [MASK] [MASK]", "[mask]", ""]
    return [t[:4] + generator.choice(marks) + t[4:] for t in texts]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_random_texts_equal_python(lower, keep_accents, kind, make_tokenizer):
    tokenizer = make_tokenizer(kind, lower, keep_accents)
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    texts = hard_texts.HARD + hard_texts.random_texts(1000)
    expected = tokenizer.encode_batch(texts)
    assert graph.tokenize(tf.constant(texts)).to_list() == expected
    masked = with_masks(texts)
    found = graph.tokenize_with_masks(tf.constant(masked)).to_list()
    assert found == [tokenizer.encode_with_masks(text) for text in masked]


def byte_offsets(tokenizer, text):
    """What Python says, with bytes in the place of characters."""
    if not tokenizer.encode(text):
        return [], [], []
    ids, *edges = tokenizer.encode_with_offsets(text)
    return ids.tolist(), *(
        [len(text[:edge].encode()) for edge in row.tolist()] for row in edges
    )


def assert_same_offsets(tokenizer, texts):
    graph = tokenization_ops.make_graph_tokenizer(tokenizer, with_offsets=True)
    found = graph.tokenize_with_offsets(tf.constant(texts))
    assert {rows.dtype for rows in found} == {tf.int32}
    rows = zip(*(part.to_list() for part in found), strict=True)
    for text, row in zip(texts, rows, strict=True):
        assert row == byte_offsets(tokenizer, text), text


@pytest.mark.parametrize(
    "kind, lower, keep_accents",
    [
        ("sentencepiece", True, False),
        ("sentencepiece", False, True),
        ("wordpiece", True, False),
        ("wordpiece", True, True),
        ("wordpiece", False, False),
    ],
)
def test_offsets_equal_python(kind, lower, keep_accents, make_tokenizer):
    assert_same_offsets(
        make_tokenizer(kind, lower, keep_accents),
        hard_texts.mixed(300) + hard_texts.random_texts(300),
    )


def test_offsets_of_a_vocabulary_with_bytes(tiny_vocab, tmp_path):
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(pathlib.Path(tiny_vocab).read_bytes())
    model.trainer_spec.byte_fallback = True
    for code in range(256):
        kind = model.SentencePiece.BYTE
        model.pieces.add(piece=f"<0x{code:02X}>", score=-9, type=kind)
    path = tmp_path / "bytes.model"
    path.write_bytes(model.SerializeToString())
    assert_same_offsets(
        tokenization.Tokenizer(str(path)), hard_texts.mixed(100)
    )


def test_offsets_count_bytes_of_the_text_as_given(any_tokenizer):
    graph = tokenization_ops.make_graph_tokenizer(
        any_tokenizer, with_offsets=True
    )
    text = b" a\xff \xe4\xbb x"
    found = graph.tokenize_with_offsets(tf.constant([text, b"x"]))
    ids, starts, ends = (rows.to_list() for rows in found)
    decoded = text.decode(errors="replace")
    expected = any_tokenizer.encode_with_offsets(decoded)
    # Three bytes are wrong, which make two characters.
    edges = [0, 1, 2, 3, 4, 6, 7, 8]
    assert ids[0] == expected[0].tolist()
    assert starts[0] == [edges[place] for place in expected[1].tolist()]
    assert ends[0] == [edges[place] for place in expected[2].tolist()]
    # What a text holds does not shift the next one.
    assert (starts[1][0], ends[1][-1]) == (0, 1)


@pytest.mark.parametrize("longest", [200, 100])
@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_longest_word(character, longest, wordpiece_vocab):
    """Google's and that of transformers, also with places of pieces."""
    tokenizer = wordpiece.WordPieceTokenizer(
        wordpiece_vocab, longest_word=longest
    )
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    word = character * longest
    texts = [word, word + character, f"un {word}{character} 今"]
    found = graph.tokenize(tf.constant(texts)).to_list()
    assert found == tokenizer.encode_batch(texts)
    assert [len(ids) for ids in found] == [longest, 1, 3]
    ids, _, ends = graph.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == found
    width = len(character.encode())
    assert [row[-1] for row in ends.to_list()[:2]] == [
        longest * width,
        (longest + 1) * width,
    ]
    assert len(tokenizer.encode_with_offsets(texts[1])[0]) == 1


def test_spurious_mark_vanishes_in_the_graph_too(tmp_path):
    path = vocabularies.write_model(
        tmp_path / "numbers.model", vocabularies.NUMBERS
    )
    for strip, number in ((False, "▁13"), (True, "13")):
        tokenizer = tokenization.Tokenizer(path, strip_spurious_marker=strip)
        graph = tokenization_ops.GraphTokenizer(tokenizer)
        (ids,) = graph.tokenize(tf.constant(["no13,"])).to_list()
        assert tokenizer.ids_to_pieces(ids) == ["▁no", number, ","]


def test_released_vocabulary_equals_python(released):
    """Texts without masks: parity/test_tokenization.py."""
    texts = hard_texts.mixed(200) + hard_texts.random_texts(500)
    assert_same_offsets(released, texts)
    masked = with_masks(texts)
    graph = tokenization_ops.GraphTokenizer(released)
    found = graph.tokenize_with_masks(tf.constant(masked)).to_list()
    assert found == [released.encode_with_masks(text) for text in masked]


@pytest.mark.parametrize("method", ["tokenize", "tokenize_with_masks"])
def test_dynamic_batch_inside_a_function_and_a_dataset(method, any_tokenizer):
    graph = tokenization_ops.make_graph_tokenizer(any_tokenizer)
    tokenize = getattr(graph, method)
    function = tf.function(tokenize, input_signature=[TEXTS])
    texts = ["The cat sat.", "", "in 2012, we  saw É 今天unwanted"]
    for size in (0, 1, 3):
        found = function(tf.constant(texts[:size], tf.string))
        assert found.dtype == tf.int32
        assert found.to_list() == any_tokenizer.encode_batch(texts[:size])
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(2)
    rows = [r.to_list() for r in batches.map(tokenize)]
    assert sum(rows, []) == any_tokenizer.encode_batch(texts)


def test_nul_and_bytes_that_are_not_utf8_do_no_harm(any_tokenizer):
    graph = tokenization_ops.make_graph_tokenizer(any_tokenizer)
    found = graph.tokenize(tf.constant([b"a \xff\xfe b"])).to_list()
    assert found == [any_tokenizer.encode("a \ufffd\ufffd b")]
    texts = ["The\0 Cat", "\0", "\0[MASK] It", "it \0\0"]
    found = graph.tokenize(tf.constant(texts)).to_list()
    assert found == any_tokenizer.encode_batch(texts)
    found = graph.tokenize_with_masks(tf.constant(texts)).to_list()
    assert found == [any_tokenizer.encode_with_masks(text) for text in texts]


def export(graph, path):
    """Write a SavedModel that tokenizes, with masks last."""
    methods = {
        "offsets": lambda texts: graph.tokenize_with_offsets(texts)[1],
        "plain": graph.tokenize,
        "masks": graph.tokenize_with_masks,
    }
    signatures = {
        name: tf.function(
            lambda texts, method=method: {"rows": method(texts).to_tensor(-1)},
            input_signature=[TEXTS],
        )
        for name, method in methods.items()
    }
    module = tf.Module()
    module.tokenizer = graph
    tf.saved_model.save(module, str(path), signatures)


def test_exported_model_equals_python(any_tokenizer, tmp_path):
    """Loading merges vocabularies of one name, so each has its own."""
    tokenizer = any_tokenizer
    graph = tokenization_ops.make_graph_tokenizer(tokenizer, with_offsets=True)
    export(graph, tmp_path)
    signatures = tf.saved_model.load(str(tmp_path)).signatures
    text = "The [MASK], 2012, unwanted"
    expected = {
        "plain": tokenizer.encode(text),
        "masks": tokenizer.encode_with_masks(text),
        "offsets": tokenizer.encode_with_offsets(text)[1].tolist(),
    }
    for name, row in expected.items():
        found = signatures[name](texts=tf.constant([text, ""]))["rows"]
        assert found.numpy().tolist() == [row, [-1] * len(row)]


def test_all_signatures_share_one_wordpiece_table(wordpiece_vocab, tmp_path):
    tokenizer = wordpiece.WordPieceTokenizer(wordpiece_vocab)
    graph = tokenization_ops.GraphWordPieceTokenizer(tokenizer)
    export(graph, tmp_path)
    saved = (tmp_path / "saved_model.pb").read_bytes()
    assert saved.count(graph._words._model.numpy().tobytes()) == 1


LONG = [
    "the cat\u3000sat. " * 9,
    "\u4e00" * 95 + " b",  # Unknown, in one word.
    "7" * 41,
    " " * 50 + "a  b" + "\t" * 30,
    "e" + "\u0301" * 60 + " a",
    "\u4e00 [MASK] x" * 9,
    *hard_texts.mixed(50),
]


@pytest.mark.parametrize("keep_accents", [True, False])
def test_long_texts_in_parts_equal_python(
    keep_accents, make_tokenizer, monkeypatch
):
    monkeypatch.setattr(cleaning, "LONGEST_PART", 8)
    tokenizer = make_tokenizer("sentencepiece", True, keep_accents)
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    texts = [*LONG, *(f"{one} {other}" for one in LONG for other in LONG[:6])]
    found = text_ops.split_parts(tf.constant(texts)).numpy().tolist()
    expected = [[*cleaning.split_parts(text)] for text in texts]
    for parts, row in zip(expected, found, strict=True):
        assert [*filter(None, row)] == [p.encode() for p in parts if p]
    ids = tokenizer.encode_batch(texts)
    assert ids == [[*map(int, tokenizer.encode_flat([t])[0])] for t in texts]
    assert graph.tokenize(tf.constant(texts)).to_list() == ids
    short = graph.tokenize(tf.constant(texts), 5).to_list()
    assert [row[:5] for row in short] == [row[:5] for row in ids]
    assert sum(map(len, short)) < sum(map(len, ids))
    masked = graph.tokenize_with_masks(tf.constant(texts)).to_list()
    assert masked == [tokenizer.encode_with_masks(text) for text in texts]
    assert_same_offsets(tokenizer, texts)


@pytest.mark.parametrize("text", LONG[:1] + LONG[3:6])
def test_parts_cut_words_that_are_not_long_as_the_whole_text(
    text, any_tokenizer, monkeypatch
):
    """Pieces do not cross white space; their places differ in it only."""

    def pieces():
        rows = any_tokenizer.encode_with_offsets(text)
        return [
            (id_, text[start:end].strip())
            for id_, start, end in zip(*map(list, rows), strict=True)
        ]

    whole, masked = pieces(), any_tokenizer.encode_with_masks(text)
    monkeypatch.setattr(cleaning, "LONGEST_PART", 20)
    assert pieces() == whole
    assert any_tokenizer.encode_with_masks(text) == masked
    assert any_tokenizer.encode(text) == [id_ for id_, _ in whole]


def test_time_of_unknown_characters_is_not_their_square(make_tokenizer):
    """Of the square each of these takes minutes."""
    tokenizer = make_tokenizer("sentencepiece")
    graph = tokenization_ops.make_graph_tokenizer(tokenizer, with_offsets=True)
    text = "\u4e00" * 1_000_000
    assert len(tokenizer.encode(text)) < 1000
    (ids,) = graph.tokenize(tf.constant([text])).to_list()
    assert ids == tokenizer.encode(text)
