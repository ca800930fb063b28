"""Python, graph and other programs cut the same text into the same ids."""

import functools
import json
import lzma
import tarfile
import unicodedata

import pytest
import tensorflow as tf

from albert_tf.text import cleaning, text_ops, tokenization_ops
from tests.parity.conftest import TEXT_SETS

CORPORA = [
    ("own_text", "corpus.txt"),
    ("real_text", "corpora/gutenberg.tar.xz"),
    ("real_text", "corpora/inaugural.tar.xz"),
    ("real_text", "corpora/movie_reviews.txt.xz"),
    ("real_text", "corpora/wiki_00"),
    ("real_text", "corpora/wikitext-2-valid.txt.xz"),
    ("real_text", "zh/CLUECorpusSmall_bert_sampled.txt.xz"),
    ("real_text", "zh/chnsenticorp_dev.tsv"),
    ("real_text", "zh/news_zh_1.txt"),
]
KINDS = ("sentencepiece", "wordpiece")
# Planes 4 to 13 are empty, and the last two private: some of them.
CHARACTERS = [
    chr(code)
    for codes in (
        *(range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0xF0000)),
        *(range(0x40000, 0xE0000, 499), range(0xF0000, 0x110000, 499)),
    )
    for code in codes
]
# TensorFlow's table of lower case does not know them as letters, Python 3.11's
# does. Whole blocks, with what is not assigned in them.
LETTERS_OF_UNICODE_14 = {
    *(0x2C2F, 0x2C5F, *range(0xA7C0, 0xA7DA), *range(0x10570, 0x105C0)),
    *(*range(0x10780, 0x107C0), *range(0x1DF00, 0x1DF20)),
}
# The text set, the kind of vocabulary, the recording, and its number of rows.
RECORDED = [
    ("own_text", "sentencepiece", "original_tokenization.jsonl", 300),
    ("own_text", "wordpiece", "original_wordpiece.jsonl", 300),
    ("real_text", "sentencepiece", "original_tokenization.jsonl", 32),
]


def read_lines(path):
    if path.name.endswith(".tar.xz"):
        with tarfile.open(path) as archive:
            files = [archive.extractfile(member) for member in archive]
            contents = [file.read() for file in files if file is not None]
    elif path.name.endswith(".xz"):
        contents = [lzma.decompress(path.read_bytes())]
    else:
        contents = [path.read_bytes()]
    return [line for c in contents for line in c.decode("utf-8").split("\n")]


def differing(tokenizer, texts):
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(4096)
    found = [ids for b in batches for ids in graph.tokenize(b).to_list()]
    expected = tokenizer.encode_batch(texts)
    pairs = zip(texts, expected, found, strict=True)
    return [text for text, ids, other in pairs if ids != other]


@functools.cache
def telling_lines(path):
    """A sample, and each line with neighbours that no line before it has."""
    known, found, lines = set(), [], read_lines(path)
    every = 1 + len(lines) // 5000
    for number, line in enumerate(lines):
        pairs = set(zip(" " + line, line + " ", strict=True))
        if number % every == 0 or not pairs <= known:
            known |= pairs
            found.append(line)
    return found


@pytest.mark.parametrize(("text_set", "name"), CORPORA, indirect=["text_set"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_graph_equals_python_on_a_corpus(text_set, name, kind, lower):
    lines = telling_lines(text_set.data / name)
    tokenizer = text_set.tokenizer(kind, do_lower_case=lower)
    assert differing(tokenizer, lines) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("text_set", TEXT_SETS, indirect=True)
def test_only_characters_younger_than_pythons_tables_differ(
    text_set, kind, lower, request
):
    tokenizer = text_set.tokenizer(kind, do_lower_case=lower)
    texts = [around(character) for character in CHARACTERS]
    outlined = []
    if kind == "sentencepiece":
        # TensorFlow replaces the outlined letters and digits of Unicode 16 by
        # plain ones. So does the model of own_text itself, after lower case.
        own = request.node.callspec.params["text_set"] == "own_text"
        first = 0x1CCD6 if lower else 0x1CCF0
        end = 0x1CCF0 if own else 0x1CCFA
        outlined = [around(chr(code)) for code in range(first, end)]
    assert differing(tokenizer, texts) == outlined


def around(character):
    """A text with a character at all places of a word."""
    text = f"a{character}b {character}1今{character}"
    is_assigned = unicodedata.category(character) not in ("Cn", "Co")
    if is_assigned and ord(character) not in LETTERS_OF_UNICODE_14:
        # Behind a letter, a sigma at the end of a word has its own form.
        text += "Σ"
    return text


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def lower(request):
    return request.param


def recorded_cases(text_set, name, count, lower):
    rows = text_set.read_rows(name)
    assert len(rows) == count
    cases = [case for case in rows if case["lower"] is lower]
    assert cases
    return cases


@pytest.mark.parametrize(
    ("text_set", "kind", "name", "count"), RECORDED, indirect=["text_set"]
)
def test_python_equals_the_recorded_original(
    text_set, kind, name, count, lower
):
    cases = recorded_cases(text_set, name, count, lower)
    tokenizer = text_set.tokenizer(kind, do_lower_case=lower)
    texts = [case["text"] for case in cases]
    ids = [case["ids"] for case in cases]
    pieces = [tokenizer.encode_pieces(text) for text in texts]
    assert pieces == [case["pieces"] for case in cases]
    assert [tokenizer.encode(text) for text in texts] == ids
    assert tokenizer.encode_batch(texts) == ids
    offsets = [tokenizer.encode_with_offsets(text)[0] for text in texts]
    assert [found.tolist() for found in offsets] == ids


@pytest.mark.parametrize(
    ("text_set", "kind", "name", "count"), RECORDED, indirect=["text_set"]
)
def test_graph_equals_the_recorded_original(text_set, kind, name, count, lower):
    cases = recorded_cases(text_set, name, count, lower)
    tokenizer = text_set.tokenizer(kind, do_lower_case=lower)
    graph = tokenization_ops.make_graph_tokenizer(tokenizer)
    texts = tf.constant([case["text"] for case in cases])
    assert graph.tokenize(texts).to_list() == [case["ids"] for case in cases]


@pytest.mark.parametrize(
    ("text_set", "kind", "name", "count"),
    [case for case in RECORDED if case[1] == "sentencepiece"],
    indirect=["text_set"],
)
def test_cleaned_text_is_that_of_the_original(
    text_set, kind, name, count, lower
):
    cases = recorded_cases(text_set, name, count, lower)
    expected = [case["normalized"] for case in cases]
    texts = [case["text"] for case in cases]
    assert expected == [
        cleaning.preprocess_text(text, lower=lower) for text in texts
    ]
    cleaned = text_ops.normalize(tf.constant(texts), lower).numpy()
    assert [text.decode() for text in cleaned] == expected


def test_graph_equals_the_published_ids(real_text):
    path = real_text.data / "expected" / "tokenizer.json"
    uncased = real_text.tokenizer()
    keeping = real_text.tokenizer(keep_accents=True)
    for case in json.loads(path.read_text("utf-8")):
        tokenizer = uncased if case["strip_accents"] else keeping
        graph = tokenization_ops.make_graph_tokenizer(tokenizer)
        (ids,) = graph.tokenize(tf.constant([case["text"]])).to_list()
        if case["with_cls_sep"]:
            ids = [tokenizer.cls_id, *ids, tokenizer.sep_id]
        assert ids == case["ids"]


def unmasked_segments(example):
    """The two segments of a pretraining record, before they were masked."""
    feature = example.features.feature
    ids = list(feature["input_ids"].int64_list.value)
    length = sum(feature["input_mask"].int64_list.value)
    predictions = zip(
        feature["masked_lm_positions"].int64_list.value,
        feature["masked_lm_ids"].int64_list.value,
        feature["masked_lm_weights"].float_list.value,
        strict=True,
    )
    for position, id_, weight in predictions:
        if weight:
            ids[position] = id_
    first_end = sum(feature["segment_ids"].int64_list.value[:length])
    cut = length - first_end
    return ids[1 : cut - 1], ids[cut : length - 1]


def test_wordpiece_equals_another_writers_records(real_text, tmp_path):
    """Each segment is a run of what our tokenizer makes of the same text."""
    folder = real_text.data / "zh"
    tokenizer = real_text.tokenizer("wordpiece")
    documents = [""]
    for line in read_lines(folder / "news_zh_1.txt"):
        ids = tokenizer.encode(line)
        documents[-1] += "".join(f"{id_} " for id_ in ids)
        if not ids:
            documents.append("")
    # That writer marks the inner characters of Chinese words, as "##天".
    plain = {
        id_: tokenizer.pieces_to_ids([piece[2:]])[0]
        for id_, piece in enumerate(tokenizer.pieces)
        if piece.startswith("##") and "\u4e00" <= piece[2:] <= "\u9fa5"
    }
    packed = folder / "news_zh_1.other_writer.tfrecord.xz"
    path = tmp_path / "records"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    tokens = 0
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.train.Example.FromString(record.numpy())
        for segment in unmasked_segments(example):
            run = "".join(f" {plain.get(id_, id_)}" for id_ in segment) + " "
            assert any(run in f" {document}" for document in documents)
            tokens += len(segment)
    assert tokens == 103_758
