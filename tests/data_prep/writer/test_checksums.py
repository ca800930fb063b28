"""Sizes and CRC-32C of bytes, however they come."""

import hashlib
import io

import pytest

from data_prep.writer import checksums

# Source: RFC 3720, appendix B.4, and the check value of CRC-32C's catalogue.
KNOWN = {
    b"": 0,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
}


@pytest.mark.parametrize("content", KNOWN)
def test_published_checksums(content, tmp_path):
    expected = checksums.Checksum(len(content), KNOWN[content])
    (tmp_path / "x").write_bytes(content)
    assert checksums.of_bytes(content) == expected
    assert checksums.of_file(str(tmp_path / "x")) == expected


@pytest.mark.parametrize("at_once", [1, 3, 4, 9, 10])
def test_a_file_is_read_in_parts(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(checksums, "_READ_AT_ONCE", at_once)
    (tmp_path / "x").write_bytes(b"123456789")
    assert checksums.of_file(str(tmp_path / "x")) == (9, 0xE3069283)


def test_what_is_written_in_parts_has_the_checksum_of_the_whole():
    stream, sha256, md5 = io.BytesIO(), hashlib.sha256(), hashlib.md5()
    writer = checksums.Writer(stream, sha256, md5)
    assert writer.checksum == (0, 0)
    assert [writer.write(part) for part in (b"1234", b"", b"56789")] == [
        *(4, 0, 5),
    ]
    assert stream.getvalue() == b"123456789"
    assert writer.checksum == (9, 0xE3069283)
    for digest, function in ((sha256, hashlib.sha256), (md5, hashlib.md5)):
        assert digest.hexdigest() == function(b"123456789").hexdigest()


def test_flushing_reaches_the_stream(tmp_path):
    with open(tmp_path / "x", "wb") as stream:
        writer = checksums.Writer(stream)
        writer.write(b"123")
        writer.flush()
        assert checksums.of_file(str(tmp_path / "x")) == writer.checksum
