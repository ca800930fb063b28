import json
import lzma
import pathlib
import random

import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import (
    packing_ops,
    tokenization,
    tokenization_ops,
    wordpiece,
)
from tests.albert_tf.text import hard_texts, vocabularies
from tests.conftest import FIXTURES

TEXTS = tf.TensorSpec([None], tf.string)


@pytest.fixture(scope="module")
def tiny(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab)


@pytest.fixture  # For each test: seeding TensorFlow would destroy it.
def tiny_graph(tiny):
    return tokenization_ops.GraphTokenizer(tiny)


@pytest.fixture(scope="module")
def released(shared_dir):
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    return tokenization.Tokenizer(str(path))


WORDPIECES = (
    "今 天 年 un ##want ##ed , [ mask ] ##x x 😀 ##😀 ς ##σ σ e".split()
)


@pytest.fixture(scope="module")
def wordpiece_vocab(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    pieces = [*wordpiece.SPECIAL_PIECES, *WORDPIECES]
    path.write_text("\n".join(pieces), "utf-8")
    return str(path)


@pytest.fixture(params=["sentencepiece", "wordpiece"])
def any_tokenizer(request, tiny_vocab, wordpiece_vocab):
    spm = tiny_vocab if request.param == "sentencepiece" else None
    return tokenization.load(
        tokenization.VocabularyOptions(spm, wordpiece_vocab)
    )


def with_masks(texts):
    generator = random.Random(8)
    marks = ["[MASK]", " [MASK]", "[MASK] ", " [MASK] [MASK]", "[mask]", ""]
    return [t[:4] + generator.choice(marks) + t[4:] for t in texts]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_random_texts_equal_python(
    lower, keep_accents, kind, undescribed_vocab, wordpiece_vocab
):
    spm = undescribed_vocab if kind == "sentencepiece" else None
    tokenizer = tokenization.load(
        tokenization.VocabularyOptions(
            spm, wordpiece_vocab, lower, keep_accents
        )
    )
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
def test_offsets_equal_python(
    kind, lower, keep_accents, undescribed_vocab, wordpiece_vocab
):
    spm = undescribed_vocab if kind == "sentencepiece" else None
    tokenizer = tokenization.load(
        tokenization.VocabularyOptions(
            spm, wordpiece_vocab, lower, keep_accents=keep_accents
        )
    )
    assert_same_offsets(
        tokenizer, hard_texts.mixed(300) + hard_texts.random_texts(300)
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


def test_masks_and_offsets_must_be_asked_for(tiny, tiny_graph):
    plain = tokenization_ops.make_graph_tokenizer(tiny, with_masks=False)
    with pytest.raises(ValueError, match="with_masks=True"):
        plain.tokenize_with_masks(tf.constant(["a"]))
    with pytest.raises(ValueError, match="with_offsets=True"):
        tiny_graph.tokenize_with_offsets(tf.constant(["a"]))


@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_longest_word(character, wordpiece_vocab):
    tokenizer = wordpiece.WordPieceTokenizer(wordpiece_vocab)
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    texts = [character * 200, character * 201, f"un {character * 201} 今"]
    found = graph.tokenize(tf.constant(texts)).to_list()
    assert found == tokenizer.encode_batch(texts)
    assert [len(ids) for ids in found] == [200, 1, 3]


def test_spurious_mark_vanishes_in_the_graph_too(tmp_path):
    path = vocabularies.write_model(
        tmp_path / "numbers.model", vocabularies.NUMBERS
    )
    for strip, number in ((False, "▁13"), (True, "13")):
        tokenizer = tokenization.Tokenizer(path, strip_spurious_marker=strip)
        graph = tokenization_ops.GraphTokenizer(tokenizer)
        (ids,) = graph.tokenize(tf.constant(["no13,"])).to_list()
        assert tokenizer.ids_to_pieces(ids) == ["▁no", number, ","]


def test_released_vocabulary_equals_python(released, shared_dir):
    assert_same_offsets(
        released, hard_texts.mixed(200) + hard_texts.random_texts(200)
    )
    graph = tokenization_ops.GraphTokenizer(released)
    recorded = (FIXTURES / "original_tokenization.jsonl").read_text("utf-8")
    texts = [json.loads(line)["text"] for line in recorded.splitlines()]
    corpora = shared_dir / "data" / "corpora"
    for name in ("wikitext-2-valid.txt.xz", "movie_reviews.txt.xz"):
        with lzma.open(corpora / name, "rt", encoding="utf-8") as lines:
            texts += list(lines)[:4000:8]
    texts += hard_texts.random_texts(500)
    expected = released.encode_batch(texts)
    assert graph.tokenize(tf.constant(texts)).to_list() == expected
    masked = with_masks(texts)
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


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def exported_tokenizer(request, tiny_vocab, wordpiece_vocab):
    spm = tiny_vocab if request.param == "sentencepiece" else None
    return tokenization.load(
        tokenization.VocabularyOptions(spm, wordpiece_vocab)
    )


def export(graph, path):
    """Write a SavedModel that tokenizes."""

    def pack(texts):
        segments = [graph.tokenize(texts)]
        return packing_ops.pack_inputs(segments, 16, 2, 3)

    def masked(texts):
        return {"ids": graph.tokenize_with_masks(texts).to_tensor(-1)}

    module = tf.Module()
    module.tokenizer = graph
    signatures = {
        "pack": tf.function(pack, input_signature=[TEXTS]),
        "masked": tf.function(masked, input_signature=[TEXTS]),
    }
    tf.saved_model.save(module, str(path), signatures)


@pytest.fixture(scope="module")
def exported(exported_tokenizer, tmp_path_factory):
    """A folder with a SavedModel that tokenizes."""
    folder = tmp_path_factory.mktemp("exported")
    graph = tokenization_ops.make_graph_tokenizer(exported_tokenizer)
    export(graph, folder / "model")
    return folder


def test_exported_model_equals_python(exported, exported_tokenizer):
    tiny = exported_tokenizer
    signatures = tf.saved_model.load(str(exported / "model")).signatures
    text = "The [MASK], 2012,今天 unwanted"
    texts = tf.constant([text, ""])
    packed = signatures["pack"](texts=texts)["input_ids"].numpy().tolist()
    expected = [2, *tiny.encode(text)[:14], 3]
    assert packed == [expected, [2, 3] + [0] * (len(expected) - 2)]
    masked = signatures["masked"](texts=texts)["ids"].numpy().tolist()
    ids = tiny.encode_with_masks(text)
    assert masked == [ids, [-1] * len(ids)]


def test_loaded_vocabularies_stay_apart(tiny, tmp_path):
    graph = tokenization_ops.make_graph_tokenizer(tiny, with_offsets=True)
    module = tf.Module()
    module.tokenizer = graph
    # The order of the old error: masks last got the plain vocabulary.
    methods = {
        "offsets": lambda texts: {
            "found": graph.tokenize_with_offsets(texts)[1].values
        },
        "masks": lambda texts: {
            "found": graph.tokenize_with_masks(texts).values
        },
        "plain": lambda texts: {"found": graph.tokenize(texts).values},
    }
    signatures = {
        name: tf.function(method, input_signature=[TEXTS])
        for name, method in methods.items()
    }
    tf.saved_model.save(module, str(tmp_path), signatures)
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    text = "it [MASK]."
    expected = {
        "plain": tiny.encode(text),
        "masks": tiny.encode_with_masks(text),
        "offsets": tiny.encode_with_offsets(text)[1].tolist(),
    }
    for name, ids in expected.items():
        found = loaded[name](texts=tf.constant([text]))["found"]
        assert found.numpy().tolist() == ids


def test_all_signatures_share_one_wordpiece_table(wordpiece_vocab, tmp_path):
    tokenizer = wordpiece.WordPieceTokenizer(wordpiece_vocab)
    graph = tokenization_ops.GraphWordPieceTokenizer(tokenizer)
    export(graph, tmp_path / "model")
    saved = (tmp_path / "model" / "saved_model.pb").read_bytes()
    assert saved.count(graph._words._model.numpy().tobytes()) == 1
