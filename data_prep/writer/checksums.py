"""Sizes and checksums of written files, to detect damage later."""

from typing import NamedTuple

import google_crc32c

from albert_tf.common import files

_READ_AT_ONCE = 1 << 20


class Checksum(NamedTuple):
    """Size and checksum of the content of a file."""

    size: int
    crc32c: int

    def extend(self, content: bytes) -> "Checksum":
        crc32c = google_crc32c.extend(self.crc32c, content)
        return Checksum(self.size + len(content), crc32c)


def of_bytes(content: bytes) -> Checksum:
    return Checksum(0, 0).extend(content)


def write(path: str, content: bytes) -> Checksum:
    """Write a file that its checksum protects."""
    with files.replace_atomically(path, unfinished_work=True) as stream:
        stream.write(content)
    return of_bytes(content)


def of_file(path: str) -> Checksum:
    checksum = Checksum(0, 0)
    with open(path, "rb", buffering=0) as stream:
        while content := stream.read(_READ_AT_ONCE):
            checksum = checksum.extend(content)
    return checksum
