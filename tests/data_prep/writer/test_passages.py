"""Sentences packed into passages, and what their pieces are marked with."""

import pathlib

import numpy as np
import pytest

from albert_tf.data import manifests, marks, masking
from data_prep.writer import passages, token_blocks
from tests.conftest import refused
from tests.data_prep import writing
from tests.reference import sentence_packing

SEP = 3
# Odd ids start words.
VOCABULARY = masking.Vocabulary(100, 2, SEP, 4, np.arange(100, dtype="u1") % 2)


class Corpus:
    """One block of documents, which are lists of sentences of ids."""

    def __init__(self, documents, first=0):
        sentences = sum(documents, [])
        self._first = first
        self._block = token_blocks.TokenBlock(
            np.array(sum(sentences, []), np.uint32) << marks.BITS,
            np.cumsum([len(s) for s in sentences]),
            np.cumsum([len(d) for d in documents]),
            {},
        )

    def block(self, number):
        return self._block

    def first_document(self, number):
        return self._first + number * len(self._block)


def build(documents, limit, cross_documents=False, first=0):
    """The passages as arrays, in the order of the text, and their rows."""
    builder = passages.PassageBuilder(
        Corpus(documents, first), VOCABULARY, limit, cross_documents, False, 1
    )
    slices = []
    rows = builder._build_block(0, slices)
    found = [s.tokens[s.begin : s.end] for s in slices[::2]]
    assert [len(f) for f in found] == rows["first"].tolist()
    keys = [*rows["key"], *builder._build_block(1, [])["key"]]
    assert len(set(keys)) == 2 * len(rows)
    return [f.astype(int) for f in found], rows


def ids(documents, *args, **kwargs):
    return [
        (p >> marks.BITS).tolist() for p in build(documents, *args, **kwargs)[0]
    ]


@pytest.mark.parametrize("cross_documents", [False, True])
def test_random_documents_are_packed_as_in_fairseq(cross_documents):
    generator = np.random.default_rng(1)
    for _ in range(50):
        limit = int(generator.integers(4, 12))
        documents = [
            [
                generator.integers(
                    10, 90, generator.integers(1, limit)
                ).tolist()
                for _ in range(generator.integers(1, 6))
            ]
            for _ in range(generator.integers(1, 6))
        ]
        sizes = [[len(s) for s in d] for d in documents]
        expected = []
        for block in sentence_packing.pack(sizes, limit, cross_documents):
            tokens = []
            for number, sentence in block:
                tokens += [SEP] * (sentence == 0 and bool(tokens))
                tokens += documents[number][sentence]
            expected.append(tokens)
        assert ids(documents, limit, cross_documents) == expected


def test_long_sentences_are_cut_where_a_word_starts():
    long = [11, 12, 13, 14, 16, 18, 20, 22, 24]
    cut = [[11, 12], [13, 14, 16, 18], [20, 22, 24]]
    assert ids([[long]], 4) == cut
    assert ids([[[11, 12, 13, 14, 15, 16]]], 4) == [[11, 12, 13, 14], [15, 16]]
    documents = [[[15]], [long]]
    assert ids(documents, 4, True) == [[15, SEP, 11, 12], *cut[1:]]
    later = [[[17], [11, 12, 13, 14, 16, 15, 18]]]
    packed = [[17, 11, 12], [13, 14, 16], [15, 18]]
    assert ids(later, 4, True) == ids(later, 4) == packed
    found, rows = build(documents, 4, True, first=7)
    one, *other = rows["document"].tolist()
    assert other == [other[0]] * 2 != [one] * 2
    assert [int(p[0] & marks.SENTENCE > 0) for p in found] == [1, 0, 0]


def test_marks_of_pieces():
    documents = [[[11, 12], [13, 12, 14]], [[12, 14, 12]]]
    found, rows = build(documents, 3)
    *one, other = rows["document"].tolist()
    assert one == [one[0]] * 2 != [other] * 2
    w, s, d, e = marks.WORD, marks.SENTENCE, marks.DOCUMENT, marks.ELSEWHERE
    # 12 is in two passages of the first document; in the second one it is
    # twice, but nowhere else.
    assert [(p & 255).tolist() for p in found] == [
        [w | s | d, e],
        [w | s, e, 0],
        [w | s | d, 0, 0],
    ]
    (whole,), _ = build(documents, 20, True)
    assert (whole >> 8).tolist() == [11, 12, 13, 12, 14, SEP, 12, 14, 12]
    assert not (whole & e).any()
    assert whole[5] & 255 == 0
    # The second 12 is elsewhere in its document; the third only in its passage.
    first, second = build([[[12, 11, 13], [12]], [[12]]], 3, True)[0]
    assert [int(p & e) for p in first] == [e, 0, 0]
    assert [int(p & e) for p in second] == [e, 0, 0]


def test_the_number_of_a_document_follows_from_its_text():
    """So documents of several calls of the writer have several numbers."""
    one, two = [[11, 12], [13]], [[11, 12], [15]]
    _, rows = build([one, two], 3)
    numbers = rows["document"].tolist()
    assert len(set(numbers)) == 2 and max(numbers) < 2**31
    for document, number in zip((one, two), numbers, strict=True):
        _, alone = build([document], 3, first=5)
        assert alone["document"].tolist() == [number]


def in_one(base, **changes):
    given = {"records": "passages", "dupe_factor": 40, **changes}
    masks = masking.MaskingOptions()
    return writing.run(base, masks=masks, **given)


def test_records_hold_the_text_in_any_number_of_pieces(base, many_pieces):
    options = in_one(base)
    arrays = writing.read_arrays(options)
    manifest = manifests.find(options.output_file)
    assert manifest.kind == "passages" and not manifest.has_masks
    tokens = np.count_nonzero(arrays["tokens"], axis=1)
    assert tokens.sum() == manifest.corpus["tokens"]
    assert tokens.max() <= 30 and len(tokens) == manifest.num_examples
    starts = arrays["marks"] & marks.SENTENCE > 0
    assert starts.sum() == manifest.corpus["sentences"]
    assert len(set(arrays["document"].tolist())) == 24
    # Passages are whole documents or begin with a sentence.
    assert starts[:, 0].all()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cross_documents": True},
        {"input_format": "dialogues"},
        {"phrase_file": "phrases", "entity_file": "entities"},
    ],
)
def test_bytes_depend_on_text_and_options_only(
    base, tmp_path, monkeypatch, many_pieces, changes
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phrases").write_text("at home\nold books\n")
    (tmp_path / "entities").write_text("the fire\n")
    if changes.get("input_format"):
        for path in tmp_path.glob("*.txt"):
            turns = enumerate(path.read_text().split("\n"))
            lines = ("QR"[n % 2] + "\t" + t if t else "" for n, t in turns)
            path.write_text("\n".join(lines))
    one, two = (
        writing.in_folder(
            base,
            tmp_path / name,
            records="passages",
            **changes,
            dupe_factor=40,
            masks=masking.MaskingOptions(),
            num_workers=workers,
        )
        for name, workers in (("a", 1), ("b", 2))
    )
    assert one == two


@pytest.mark.parametrize("text", ["\u0301\n", None])
def test_a_block_without_documents(base, tmp_path, text):
    """Its lines are empty after cleaning, or all of it is there already."""
    text = text or (tmp_path / "a.txt").read_text()
    (tmp_path / "b.txt").write_text(text)
    options = in_one(base, drop_duplicates=True)
    found = writing.read_arrays(options)["document"]
    assert len(set(found.tolist())) == 12


def test_bytes_do_not_depend_on_how_the_text_is_stored(base, tmp_path):
    """Each file begins a block."""
    options = in_one(base)
    whole = pathlib.Path(options.output_file).read_bytes()
    texts = [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")]
    (tmp_path / "b.txt").unlink()
    (tmp_path / "a.txt").write_text("".join(texts))
    in_one(base, overwrite=True)
    assert pathlib.Path(options.output_file).read_bytes() == whole


def test_id_0_must_be_padding(base, tmp_path):
    pieces = "[UNK] [PAD] [CLS] [SEP] [MASK] it ##s".split()
    (tmp_path / "vocab").write_text("\n".join(pieces))
    other = {"spm_model_file": None, "vocab_file": str(tmp_path / "vocab")}
    with refused("id 0 is padding.*'.UNK.'"):
        in_one(base, **other)
    writing.run(base, **other)
