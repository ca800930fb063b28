"""Sizes and checksums of written files, to detect damage later."""

from collections.abc import Sequence
from typing import IO, Any, NamedTuple, Protocol

import google_crc32c

_READ_AT_ONCE = 1 << 20


class Checksum(NamedTuple):
    """Size and checksum of the content of a file.

    Attributes:
        size: Bytes.
        crc32c: Their CRC-32C.
    """

    size: int
    crc32c: int


class Digest(Protocol):
    """A digest, such as those of `hashlib`."""

    def update(self, content: bytes, /) -> Any:
        """Add bytes."""


class Writer:
    """Writes bytes to a stream and computes their checksum."""

    def __init__(self, stream: IO[bytes], *digests: Digest) -> None:
        """Start with no bytes.

        Args:
            stream: Takes the bytes.
            digests: Updated with the same bytes.
        """
        self._stream = stream
        self._digests: Sequence[Digest] = digests
        self.checksum = Checksum(0, 0)

    def write(self, content: bytes) -> int:
        """Write all bytes."""
        self._stream.write(content)
        size, crc32c = self.checksum
        self.checksum = Checksum(
            size + len(content), google_crc32c.extend(crc32c, content)
        )
        for digest in self._digests:
            digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


def of_bytes(content: bytes) -> Checksum:
    """Return the checksum of some bytes."""
    return Checksum(len(content), google_crc32c.value(content))


def of_file(path: str) -> Checksum:
    """Return the checksum of the content of a local file."""
    size = crc32c = 0
    with open(path, "rb", buffering=0) as stream:
        while content := stream.read(_READ_AT_ONCE):
            size += len(content)
            crc32c = google_crc32c.extend(crc32c, content)
    return Checksum(size, crc32c)
