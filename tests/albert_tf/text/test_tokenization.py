import hashlib
import itertools
import json
import pathlib
import pickle

import numpy as np
import pytest

from albert_tf.text import tokenization, wordpiece
from tests.albert_tf.text import vocabularies
from tests.conftest import refused


@pytest.fixture
def numbers_model(tmp_path):
    return vocabularies.write_model(tmp_path / "n.model", vocabularies.NUMBERS)


@pytest.fixture
def numbers(numbers_model):
    return tokenization.Tokenizer(numbers_model)


def test_published_ids(released, shared_dir):
    path = shared_dir / "data" / "expected" / "tokenizer.json"
    vocabulary = str(shared_dir / "data" / "vocab" / "30k-clean.model")
    keeping = tokenization.Tokenizer(vocabulary, keep_accents=True)
    for case in json.loads(path.read_text(encoding="utf-8")):
        tokenizer = released if case["strip_accents"] else keeping
        ids = tokenizer.encode(case["text"])
        if "pieces" in case:
            pieces = tokenizer.encode_pieces(case["text"])
            assert pieces == case["pieces"]
        if case["with_cls_sep"]:
            ids = [released.cls_id, *ids, released.sep_id]
        assert ids == case["ids"]


def test_special_ids_and_fingerprint(tiny, tiny_vocab):
    assert tiny.vocab_size == 400
    ids = [tiny.pad_id, tiny.unk_id, tiny.cls_id, tiny.sep_id, tiny.mask_id]
    assert tiny.ids_to_pieces(ids) == list(tokenization.SPECIAL_PIECES)
    assert tiny.pieces_to_ids(["none", "[SEP]"]) == [tiny.unk_id, tiny.sep_id]
    content = pathlib.Path(tiny_vocab).read_bytes()
    assert tiny.model_bytes == content
    assert tiny.fingerprint == hashlib.sha256(content).hexdigest()


def test_text_is_cleaned(tiny, tiny_vocab):
    cased = tokenization.Tokenizer(tiny_vocab, do_lower_case=False)
    assert cased.clean("ÉA") == "EA"
    keeping = tokenization.Tokenizer(tiny_vocab, keep_accents=True)
    assert keeping.clean("E\u0301") == "é"
    assert tiny.encode(" É") == tiny.encode("e")
    assert tiny.encode_pieces(" É") == tiny.encode_pieces("e")


def test_number_and_comma_are_cut_apart(numbers):
    """A number that continued a word gets a mark, as in the original."""
    assert numbers.encode_pieces("2012,") == ["▁2012", ","]
    assert numbers.encode("2012,") == [10, 5]
    assert numbers.encode_pieces("no13,") == ["▁no", "▁13", ","]
    assert numbers.encode_pieces("no7,") == ["▁no", "▁", "7", ","]
    assert numbers.digit_comma_ids == {8: (7, 5), 9: (10, 5), 13: (6, 14, 5)}
    # Unknown characters stay in pieces.
    assert numbers.encode_pieces("no xy") == ["▁no", "▁", "xy"]
    assert numbers.encode("no xy") == [11, 6, 1]


def test_spurious_mark_vanishes_on_request(numbers_model):
    numbers = tokenization.Tokenizer(numbers_model, strip_spurious_marker=True)
    assert numbers.encode_pieces("no13,") == ["▁no", "13", ","]
    assert numbers.encode_pieces("no7,") == ["▁no", "7", ","]
    assert numbers.encode_pieces("2012,") == ["▁2012", ","]
    assert numbers.digit_comma_ids == {8: (12, 5), 9: (10, 5), 13: (14, 5)}
    assert numbers.settings["strip_spurious_marker"]


def test_special_pieces_never_come_out_of_text(tiny_vocab):
    tiny = tokenization.Tokenizer(tiny_vocab, do_lower_case=False)
    text = " ".join(tokenization.SPECIAL_PIECES)
    pieces = tiny.encode_pieces(text)
    assert "".join(pieces) == "▁" + text.replace(" ", "▁")
    ids = tiny.encode(text)
    assert ids == [  # A run of unknown characters is a piece of its own.
        tiny.unk_id if piece in tokenization.SPECIAL_PIECES else id_
        for piece, id_ in zip(pieces, tiny.pieces_to_ids(pieces), strict=True)
    ]
    assert not {tiny.pad_id, tiny.cls_id, tiny.sep_id, tiny.mask_id} & {*ids}


def test_batch_and_flat_equal_single(tiny, numbers):
    texts = ["Émile  no 13,", "", "2012, 13,", "7, 7, a", "the cat's 12 hats,"]
    for tokenizer, some in itertools.product(
        (tiny, numbers), (texts, texts[::-1], ["", ""], [])
    ):
        expected = [tokenizer.encode(text) for text in some]
        assert tokenizer.encode_batch(some) == expected
        ids, lengths = tokenizer.encode_flat(some)
        assert ids.tolist() == [id_ for row in expected for id_ in row]
        assert lengths.tolist() == list(map(len, expected))
        assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("it is [MASK].", ["▁it", "▁is", "[MASK]", "."]),
        ("[MASK] ís It", ["[MASK]", "▁is", "▁it"]),
        ("It  is\t[MASK] [MASK]", ["▁it", "▁is", "[MASK]", "[MASK]"]),
        ("it[MASK]", ["▁it", "[MASK]"]),
        ("[MASK] (is", ["[MASK]", "▁", "(", "is"]),
        ("[MASK]", ["[MASK]"]),
        ("it, 2012, [MASK]", ["▁it", ",", "▁2012", ",", "[MASK]"]),
        ("", []),
    ],
)
def test_masked_text(text, pieces, released):
    ids = released.encode_with_masks(text)
    assert released.ids_to_pieces(ids) == pieces


def test_only_the_exact_marker_is_a_mask(tiny):
    for text in ("[mask] is it", "[CLS] it [SEP]", " a\x85\x1cit", "2012, a"):
        assert tiny.encode_with_masks(text) == tiny.encode(text)


def test_decode_drops_special_pieces(released):
    assert released.decode([2, 48, 25, 21, 1289, 3, 0]) == "this is a test"


def test_tokenizer_travels_to_other_processes(tiny):
    tiny.encode_with_masks("[MASK]")
    copy = pickle.loads(pickle.dumps(tiny))
    assert copy.encode("the cat") == tiny.encode("the cat")


def test_files_that_are_no_vocabulary(tmp_path):
    path = tmp_path / "30k-clean.vocab"
    for content in ("<pad>\t0\n<unk>\t0\n", ""):
        path.write_text(content)
        with refused("ends in .model.*.vocab_fi"):
            tokenization.Tokenizer(str(path))


@pytest.mark.parametrize("kind", ["USER_DEFINED", "NORMAL", "UNKNOWN", "BYTE"])
@pytest.mark.parametrize("piece", tokenization.SPECIAL_PIECES)
def test_special_pieces_that_text_may_hold_are_refused(piece, kind, tmp_path):
    others = {**vocabularies.SPECIALS}
    others[piece] = getattr(vocabularies.PIECE, kind)
    path = vocabularies.write_model(tmp_path / "v.model", ["▁", "▁a"], others)
    if (piece, kind) == ("<unk>", "UNKNOWN"):
        assert tokenization.Tokenizer(path).unk_id == 1
        return
    with refused("`spm_model_file=.*v.model`"):
        tokenization.Tokenizer(path)


@pytest.mark.parametrize(
    "pieces, flags, message",
    [
        (["▁", "a"], {"treat_whitespace_as_suffix": True}, "'a▁b▁' of"),
        (["▁", "a"], {"add_dummy_prefix": False}, "'a▁b' of"),
        (["▁", "a"], {"escape_whitespaces": False}, "' a b' of"),
        (["▁", "a", "##b", "##cd", "▁e"], {}, "pieces of WordPiece"),
    ],
)
def test_models_of_other_rules_are_refused(pieces, flags, message, tmp_path):
    path = vocabularies.write_model(tmp_path / "v.model", pieces, **flags)
    with refused(f"v.model`.*{message}"):
        tokenization.Tokenizer(path)


def test_unused_special_pieces_and_other_models_are_accepted(tmp_path):
    others = {**vocabularies.SPECIALS, "[MASK]": vocabularies.PIECE.UNUSED}
    path = vocabularies.write_model(
        tmp_path / "v.model",
        ["▁", "a", "##", "##b", "▁e"],
        others,
        remove_extra_whitespaces=False,
        model_type=4,  # Characters.
    )
    tokenizer = tokenization.Tokenizer(path)
    assert tokenizer.mask_id not in tokenizer.encode("[MASK] a")


def parts(tokenizer, text):
    """Each piece beside the part of the text that it comes from."""
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    assert {array.dtype.name for array in (ids, starts, ends)} == {"int32"}
    assert ids.tolist() == tokenizer.encode(text)
    pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
    assert all(0 <= start <= end <= len(text) for start, end in pairs)
    assert pairs == sorted(pairs)
    return [text[start:end] for start, end in pairs]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        (" \t ", []),
        ("It is", ["It", " is"]),
        # Every part of what one character became has the range of it.
        ("It\u2026", ["It", "\u2026", "\u2026", "\u2026"]),
        # A run of white space belongs to the next word from its first plain
        # space on.
        ("in\t  the", ["in", "  the"]),
        ("in\nthe", ["in", "\nthe"]),
        # Without a plain space, from its first character on.
        ("in\t\nthe", ["in", "\t\nthe"]),
        ("  in  ", ["  in"]),
        # The mark of a word's start comes from nowhere where no space stands.
        ('"In', ["", '"', "In"]),
        ("in 2012, we", ["in", " 2012", ",", " we"]),
        # An accent that is removed belongs to no piece.
        ("e\u0301 in", ["", "e", " in"]),
        # Hangul is taken apart by cleaning, put together by SentencePiece.
        ("\ud55c\uad6d in", ["", "\ud55c\uad6d", " in"]),
        ("\u1112\u1161\u11ab in", ["", "\u1112\u1161\u11ab", " in"]),
        # An accent that becomes a space beside other spaces.
        ("in \u00b4 the", ["in", " \u00b4 the"]),
        ("x\u200by", ["x", "\u200b", "y"]),
        ("\U0001f642 in", ["", "\U0001f642", " in"]),
    ],
)
def test_offsets(text, expected, released):
    assert parts(released, text) == expected


def test_offsets_where_composed_characters_stay(shared_dir):
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    composed = tokenization.Tokenizer(str(path), keep_accents=True)
    assert parts(composed, "e\u0301 in") == ["", "e\u0301", " in"]
    jamo = "\u1112\u1161\u11ab"
    assert parts(composed, jamo + jamo) == ["", jamo + jamo]
    # What does not compose has places of its own.
    half, third = "\u00bd", "\u2153"
    assert parts(composed, half + third) == [
        *(half, half, half + third, third, third)
    ]


@pytest.mark.parametrize("strip, piece", [(False, "▁13"), (True, "13")])
def test_offsets_of_a_number_that_continues_a_word(strip, piece, numbers_model):
    numbers = tokenization.Tokenizer(numbers_model, strip_spurious_marker=strip)
    assert numbers.encode_pieces("no13,") == ["▁no", piece, ","]
    assert parts(numbers, "no13,") == ["no", "13", ","]


def test_piece_that_stands_for_nothing_is_at_the_next_character(numbers):
    """The mark before 7 has no counterpart; the accents vanish in cleaning."""
    text = "no\u0301\u03017,"
    assert numbers.encode_pieces(text) == ["▁no", "▁", "7", ","]
    _, starts, ends = numbers.encode_with_offsets(text)
    assert starts.tolist() == [0, 4, 4, 5]
    assert ends.tolist() == [2, 4, 5, 6]


def test_offsets_where_unknown_characters_are_bytes(tmp_path):
    others = {**vocabularies.SPECIALS, **vocabularies.BYTES}
    path = vocabularies.write_model(
        tmp_path / "bytes.model", ["▁", "a", "b"], others, byte_fallback=True
    )
    # The three bytes of one character: the first one stands for all.
    tokenizer = tokenization.Tokenizer(path)
    assert parts(tokenizer, "a\u4ecab") == ["", "a", "\u4eca", "", "", "b"]
    # The accents vanish; bytes without a range stand at what follows, or end.
    text = "\u4eca\u0301b\u4eca\u0301"
    _, starts, ends = tokenizer.encode_with_offsets(text)
    assert starts.tolist() == [0, 0, 2, 2, 2, 3, 5, 5]
    assert ends.tolist() == [0, 1, 2, 2, 3, 4, 5, 5]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        ("今天 Wanted", ["今", "天", "Want", "ed"]),
        # A word that is not known is one piece, whatever it has become.
        (
            "Caf\u00e9\u0000 \u00bd \U0001f642x",
            ["Caf\u00e9", "\u00bd", "\U0001f642x"],
        ),
        ("  a\tb ", ["a", "b"]),
        ("it's 3.", ["it", "'", "s", "3", "."]),
        ("\u0130x", ["\u0130", "x"]),
    ],
)
def test_offsets_of_wordpiece(text, expected, released_chinese):
    assert parts(released_chinese, text) == expected


def test_vocabulary_that_is_not_used_is_told_once(caplog):
    files = {"spm_model_file": "told/a.model", "vocab_file": "told/b.txt"}
    for _ in range(2):
        options = tokenization.VocabularyOptions(**files)
        assert options.path == "told/a.model"
        assert options.vocab_file is None  # It need not exist.
    (message,) = caplog.messages
    assert "`vocab_file=told/b.txt` is not used" in message
    caplog.clear()
    for name, path in files.items():
        assert tokenization.VocabularyOptions(**{name: path}).path == path
    assert not caplog.messages


def test_load_chooses_by_the_option(undescribed_vocab, tmp_path):
    words = tmp_path / "v.txt"
    words.write_text("\n".join(wordpiece.SPECIAL_PIECES))
    loaded = tokenization.load(
        tokenization.VocabularyOptions(None, str(words), False)
    )
    assert isinstance(loaded, wordpiece.WordPieceTokenizer)
    assert not loaded.do_lower_case
    for vocab_file in (None, str(words), "ignored"):
        loaded = tokenization.load(
            tokenization.VocabularyOptions(
                undescribed_vocab,
                vocab_file,
                False,
                keep_accents=True,
                strip_spurious_marker=True,
            )
        )
        assert isinstance(loaded, tokenization.Tokenizer)
        assert loaded.settings == {
            "do_lower_case": False,
            "keep_accents": True,
            "strip_spurious_marker": True,
        }
    given = tokenization.VocabularyOptions(undescribed_vocab, keep_accents=True)
    assert given.resolved().settings == {
        "do_lower_case": True,
        "keep_accents": True,
        "strip_spurious_marker": False,
    }
    nothing = tokenization.VocabularyOptions(keep_accents=True)
    assert nothing.resolved() is nothing
    with refused("vocab_file` are both missing"):
        tokenization.load(nothing)
    with refused("=true` .* WordPiece"):
        tokenization.VocabularyOptions(
            None, "v.txt", strip_spurious_marker=True
        )
