import hashlib
import pathlib

import pytest

from albert_tf.text import wordpiece
from tests.conftest import refused

# The original's test vocabulary, with what it lacks at its end.
ORIGINAL = "[UNK] [CLS] [SEP] want ##want ##ed wa un runn ##ing , [PAD] [MASK]"


def write_vocab(path, pieces):
    path.write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")
    return str(path)


@pytest.fixture
def wordpiece_vocab(tmp_path):
    """A small vocabulary with Chinese characters, marks and digits."""
    words = "今 天 年 un ##want ##ed ing ##ing 2020 [ ] , ! mask".split()
    pieces = ["[PAD]", "[unused1]", *wordpiece.SPECIAL_PIECES[1:], *words]
    return write_vocab(tmp_path / "chinese.txt", pieces)


@pytest.fixture
def original(tmp_path):
    path = write_vocab(tmp_path / "v.txt", ORIGINAL.split())
    return wordpiece.WordPieceTokenizer(path)


@pytest.fixture
def chinese(wordpiece_vocab):
    return wordpiece.WordPieceTokenizer(wordpiece_vocab)


@pytest.mark.parametrize(
    "text, pieces, ids",
    [
        (
            "UNwant\u00e9d,running",
            ["un", "##want", "##ed", ",", "runn", "##ing"],
            [7, 4, 5, 10, 8, 9],
        ),
        ("unwantedX running", ["[UNK]", "runn", "##ing"], [0, 8, 9]),
        ("", [], []),
    ],
)
def test_vectors_of_the_original(text, pieces, ids, original):
    assert original.encode_pieces(text) == pieces
    assert original.encode(text) == original.pieces_to_ids(pieces) == ids
    assert original.encode_batch([text, ""]) == [ids, []]
    flat, lengths = original.encode_flat([text, "wa"])
    assert (flat.tolist(), lengths.tolist()) == ([*ids, 6], [len(ids), 1])


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("今[MASK]天", ["今", "[MASK]", "天"]),
        ("[MASK] [MASK]", ["[MASK]", "[MASK]"]),
        ("un[MASK]ing", ["un", "[MASK]", "ing"]),
        # Only the exact marker is a mask.
        ("[mask]天", ["[", "mask", "]", "天"]),
        ("", []),
    ],
)
def test_masked_text(text, pieces, chinese):
    ids = chinese.encode_with_masks(text)
    assert chinese.ids_to_pieces(ids) == pieces
    assert chinese.encode_pieces("[MASK]") == ["[", "mask", "]"]


def test_attributes(chinese, wordpiece_vocab):
    content = pathlib.Path(wordpiece_vocab).read_bytes()
    assert chinese.fingerprint == hashlib.sha256(content).hexdigest()
    assert chinese.vocab_size == len(chinese.pieces)
    assert chinese.settings == {"do_lower_case": True, "keep_accents": False}


def test_decode(chinese):
    ids = chinese.encode("今天 unwanted, ☃ un")
    ids = [chinese.cls_id, *ids, chinese.sep_id, chinese.pad_id]
    assert chinese.decode(ids) == "今天unwanted , ⁇ un"


def test_released_vocabulary(released_chinese):
    released = released_chinese
    ids = [released.pad_id, released.unk_id, released.cls_id]
    ids += [released.sep_id, released.mask_id]
    assert ids == [0, 100, 101, 102, 103]
    assert released.pieces_to_ids(wordpiece.SPECIAL_PIECES) == ids
    # Two lines hold a line separator, which is white space to Python.
    assert released.pieces[343] == " " and released.pieces[13502] == "##"
    assert released.encode("今天 Unwanted!") == [
        *(791, 1921),
        *(163, 8171, 9951, 9255, 106),
    ]
    assert released.decode([101, 791, 1921, 9951, 9255, 102]) == "今天wanted"


def test_only_the_first_field_of_a_line_is_the_piece(tmp_path):
    path = tmp_path / "v.txt"
    lines = [f"{piece} 7\r\n" for piece in wordpiece.SPECIAL_PIECES]
    path.write_text("\ufeff" + "".join(lines) + "\n今\t3\nĠ\n▁", "utf-8")
    tokenizer = wordpiece.WordPieceTokenizer(str(path))
    # Letters, and no marks of SentencePiece or BPE.
    assert tokenizer.pieces == (*wordpiece.SPECIAL_PIECES, *" 今Ġ▁")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty.*one piece a line"),
        (b"\x80\xff\x00", "not UTF-8 text.*`spm_model_file="),
        ("<pad>\t0\n[CLS]\t0\n▁a\t-3\n".encode(), "of SentencePiece or BPE"),
        ("[CLS]\na\nb\nc\nĠd\n".encode(), "is a list of .* or BPE"),
        (b"[PAD]\n[UNK]\n[CLS]\n", r"has no piece \[SEP\] \[MASK\]\."),
        (
            "\n".join([*wordpiece.SPECIAL_PIECES, "▁a", "##b", "▁c"]).encode(),
            "is a list of pieces of SentencePiece.* ends in .model",
        ),
        (
            "\n".join([*wordpiece.SPECIAL_PIECES, *"今a今"]).encode(),
            "'今' in line 6 and again in line 8.*unused-8",
        ),
    ],
)
def test_unusable_vocabularies_are_named(content, message, tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with refused(f"`vocab_file=.*{message}"):
        wordpiece.WordPieceTokenizer(str(path))


def test_accents_of_lower_cased_text_can_be_kept(wordpiece_vocab):
    text = "Größe É \u0939\u093f\u0928\u094d\u0926\u0940"
    keeping = wordpiece.WordPieceTokenizer(wordpiece_vocab, keep_accents=True)
    assert keeping.clean(text) == text.lower()
    assert keeping.normalization.unicode_form == "none"
    losing = wordpiece.WordPieceTokenizer(wordpiece_vocab)
    assert losing.clean(text) == "große e \u0939\u093f\u0928\u0926\u0940"
