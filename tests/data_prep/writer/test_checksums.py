"""Sizes and CRC-32C of bytes, however they come."""

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


@pytest.mark.parametrize("at_once", [1, 3, 9, 10, 2**20])
def test_published_checksums(tmp_path, monkeypatch, at_once):
    """Of bytes that are there at once, in parts, and in a file."""
    monkeypatch.setattr(checksums, "_READ_AT_ONCE", at_once)
    for content, crc32c in KNOWN.items():
        expected = checksums.Checksum(len(content), crc32c)
        (tmp_path / "x").write_bytes(content)
        assert checksums.of_bytes(content) == expected
        assert checksums.of_file(str(tmp_path / "x")) == expected
        first = checksums.of_bytes(content[:at_once])
        assert first.extend(content[at_once:]) == expected
