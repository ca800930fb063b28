import gzip
import lzma

import pytest

from albert_tf import errors, tokenization
from data_prep import documents


@pytest.fixture(scope="module")
def tokenizer(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab, do_lower_case=True)


def read(tokenizer, *paths):
    return list(documents.read_documents([str(p) for p in paths], tokenizer))


def test_empty_lines_divide_documents(tmp_path, tokenizer):
    path = tmp_path / "a.txt"
    # Not only spaces: nothing is left of a lone accent after the clean-up.
    path.write_text("\n\none\ntwo\n \t\u00a0\r\n\u0301\nthree\n\n", "utf-8")
    one, two, three = tokenizer.encode_batch(["one", "two", "three"])
    assert read(tokenizer, path) == [[one, two], [three]]


def test_line_without_pieces_does_not_end_a_document(tmp_path, tokenizer):
    path = tmp_path / "a.txt"
    path.write_text("one\n\u200b\u0001\ntwo\n", "utf-8")
    assert tokenizer.clean("\u200b\u0001")
    if tokenizer.encode("\u200b\u0001"):
        pytest.skip("This vocabulary has pieces for control characters.")
    one, two = tokenizer.encode_batch(["one", "two"])
    assert read(tokenizer, path) == [[one, two]]


def test_files_are_document_boundaries(tmp_path, tokenizer):
    paths = [tmp_path / "a.txt", tmp_path / "empty.txt", tmp_path / "b.txt"]
    for path, text in zip(paths, ["one\ntwo", "", "three"], strict=True):
        path.write_text(text)
    one, two, three = tokenizer.encode_batch(["one", "two", "three"])
    assert read(tokenizer, *paths) == [[one, two], [three]]


def test_more_lines_than_are_handed_over_at_once(tmp_path, tokenizer):
    path = tmp_path / "a.txt"
    path.write_text("one\n\n" * 1500)
    assert len(read(tokenizer, path)) == 1500


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_packed_files_are_unpacked(tmp_path, tokenizer, ending, pack):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(pack(b"one\n"))
    assert read(tokenizer, path) == [[tokenizer.encode("one")]]
    path.write_bytes(pack(b"one\n" * 1000)[:-12])
    with pytest.raises(errors.UserError, match="cannot be unpacked"):
        read(tokenizer, path)
    path.write_bytes(b"plain text")
    with pytest.raises(errors.UserError, match="cannot be unpacked"):
        read(tokenizer, path)


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\ncaf\xe9 au lait\n")
    with pytest.raises(
        errors.UserError, match=r"a\.txt is not UTF-8: line 2, byte 4 is 0xe9"
    ):
        list(documents.read_lines(str(path)))


def test_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n\ufefftwo".encode())
    assert list(documents.read_lines(str(path))) == ["one", "\ufefftwo"]
