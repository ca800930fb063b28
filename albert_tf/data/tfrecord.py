"""Write and read the bytes of TFRecord files, without TensorFlow.

NumPy encodes all instances of a batch together, and worker processes need not
load TensorFlow. The bytes are those of `tf.train.Example.SerializeToString(
deterministic=True)` and of `tf.io.TFRecordWriter`.

Sources: protobuf.dev/programming-guides/encoding for a message, example.proto
and feature.proto of TensorFlow for its fields, and TensorFlow's
lib/io/record_writer.h for the frame of a record.
"""

import functools
import io
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

import google_crc32c
import numpy as np

from albert_tf.common import errors, files
from albert_tf.data import layouts

# Tags of the fields, all of them of the wire type "length, then content".
# Field 1: Example.features, Features.feature, a key of the map, a list's value.
_FIRST = b"\x0a"
_MAP_VALUE = b"\x12"
_LIST = {"float32": b"\x12", "int64": b"\x1a"}  # float_list, int64_list.

# What may stand in an array of each type; "b" is bool, "u" unsigned.
_KINDS = {"float32": "fiub", "int64": "iub"}

# Records that are encoded together: few enough for the processor's cache.
_BLOCK = 256

# TensorFlow rotates a checksum and adds this, so that the checksum of data that
# holds checksums itself is still a good one (lib/hash/crc32c.h).
_MASK_DELTA = 0xA282EAD8
# What reading a damaged file raises.
_DAMAGES = ValueError, EOFError, zlib.error
_BAD_LENGTH, _NO_GZIP = "the length is damaged", "incorrect header check"
# Bytes of a record's length, and of a checksum, in a TFRecord file.
_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
# Read from a packed file at a time.
_CHUNK_BYTES = 1 << 16
# Header and checksum of gzip around the data, in zlib's terms.
_AS_GZIP = 16 + zlib.MAX_WBITS
# A message is shorter: protobuf's limit. TensorFlow asks for as much memory as
# the length says, and ends with a segmentation fault where there is none.
_TOO_LONG = 2**31


REMEDY = "Copy the file again, or write the records again."


def encode_batch(
    layout: layouts.Layout, values: Mapping[str, np.ndarray]
) -> list[bytes]:
    r"""Serialize many records; equal values give equal bytes.

    Example:
        layout = (Feature("a", (2,), "int64"),)
        values = {"a": [[1, 300], [0, 2]]}, as an array; 300 takes two bytes:
        result[0] = b"\n\x0e\n\x0c\n\x01a\x12\x07\x1a\x05\n\x03\x01\xac\x02"
        result[1] = b"\n\x0d\n\x0b\n\x01a\x12\x06\x1a\x04\n\x02\x00\x02"

    Args:
        values: By feature name, [n, *shape]: integers for int64, any numbers
            for float32. Negative integers take ten bytes each. Where a
            feature names its `padding`, tokens beyond `input_mask`, or of
            passages beyond the last one that is not 0, are left out.

    Returns:
        n serialized `tf.train.Example`s.
    """
    _check(layout, values)
    ordered = sorted(layout, key=lambda feature: feature.name.encode())
    num_instances = len(values[ordered[0].name])
    messages: list[bytes] = []
    for start in range(0, num_instances, _BLOCK):
        block = slice(start, min(start + _BLOCK, num_instances))
        messages += _encode_block(ordered, values, block)
    return messages


def _encode_block(
    layout: Sequence[layouts.Feature],
    values: Mapping[str, np.ndarray],
    block: slice,
) -> list[bytes]:
    """Serialize a block of the records; `layout` is sorted by name."""
    parts: list[Sequence[bytes]] = []
    for feature in layout:
        rows = values[feature.name][block]
        kept = None
        if feature.padding is not None:
            name = "input_mask" if "input_mask" in values else "tokens"
            mask = values[name][block] != 0
            # All sequences of a record are as long as the longest, which has
            # one token at least; padding is at their end.
            sums = mask.sum(-1).reshape(len(mask), -1)
            lengths = sums.max(1, initial=1, keepdims=True)
            within = np.arange(mask.shape[-1]) < lengths
            kept = np.tile(within, (1, sums.shape[1]))
        rows = rows.reshape(len(rows), -1 if rows.size else 0)
        if feature.dtype == "int64":
            payloads = _encode_integers(rows, kept)
        else:
            with np.errstate(over="ignore"):  # It becomes infinite.
                payloads = _split_evenly(np.ascontiguousarray(rows, "<f4"))
        name, dtype = feature.name, feature.dtype
        heads = [_feature_head(name, dtype, len(p)) for p in payloads]
        parts += [heads, payloads]
    bodies = map(b"".join, zip(*parts, strict=True))
    return [_FIRST + varint(len(body)) + body for body in bodies]


def _check(layout: layouts.Layout, values: Mapping[str, np.ndarray]) -> None:
    if not layout:
        raise ValueError("The layout has no feature.")
    unknown = values.keys() - {feature.name for feature in layout}
    if unknown:
        raise ValueError(f"The layout has no features {sorted(unknown)}.")
    num_instances = 1
    for index, feature in enumerate(layout):
        if feature.name not in values:
            raise ValueError(f"The feature {feature.name} has no value.")
        array = values[feature.name]
        if index == 0 and array.ndim:
            num_instances = len(array)
        expected_shape = (num_instances, *feature.shape)
        if array.shape != expected_shape:
            raise ValueError(
                f"The feature {feature.name} has shape {array.shape}; the "
                f"layout wants {expected_shape}, the number of instances first."
            )
        if array.dtype.kind not in _KINDS[feature.dtype]:
            raise ValueError(
                f"The feature {feature.name} has numbers of type "
                f"{array.dtype}; the layout wants {feature.dtype}."
            )


@functools.lru_cache(maxsize=1 << 16)  # Lengths of a feature differ little.
def _feature_head(name: str, dtype: str, payload_length: int) -> bytes:
    """Return the bytes of a feature before its payload.

    They begin the entry of the feature in the map from names to lists.
    """
    key = _FIRST + varint(len(name.encode())) + name.encode()
    packed = _FIRST + varint(payload_length) if payload_length else b""
    values = _LIST[dtype] + varint(len(packed) + payload_length) + packed
    value = _MAP_VALUE + varint(len(values) + payload_length) + values
    return _FIRST + varint(len(key) + len(value) + payload_length) + key + value


@functools.lru_cache(maxsize=1 << 16)
def varint(number: int) -> bytes:
    r"""Encode a number as protobuf does: seven bits a byte, lowest first.

    Example:
        300 = 0b10_0101100 gives 0b1_0101100, 0b0_0000010: b"\xac\x02"
    """
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encode_integers(
    rows: np.ndarray, kept: np.ndarray | None = None
) -> list[bytes]:
    """Return the payload of each row: its varints, one behind the other.

    Args:
        rows: integers [n, k].
        kept: bool [n, k], which of them are written. None: all.

    Raises:
        ValueError: A number needs more than 63 bits and a sign.
    """
    if rows.dtype == np.bool_:
        rows = rows.astype(np.uint8)
    highest, lowest = int(rows.max(initial=0)), int(rows.min(initial=0))
    if highest >= 1 << 63:
        raise ValueError(f"The number {highest} is too large for int64.")
    width = -(-highest.bit_length() // 7)
    if lowest < 0 or width > 8:  # Not among ids: no need for speed.
        # A negative number is written as its 64 bits, read without a sign.
        unsigned = rows.astype(np.int64).view(np.uint64)
        if kept is None:
            kept = np.ones(rows.shape, bool)
        lists = [row[k].tolist() for row, k in zip(unsigned, kept, strict=True)]
        return [b"".join(map(varint, row)) for row in lists]
    if width <= 1:
        small = rows.astype(np.uint8)
        if kept is None:
            return _split_evenly(small)
        return _split(small[kept].tobytes(), np.cumsum(kept.sum(1)).tolist())
    spread, used = _spread_sevens(rows, width)
    if kept is not None:
        used.reshape(rows.size, -1)[~kept.ravel()] = False
    lengths = np.count_nonzero(used.reshape(len(rows), -1), axis=1)
    content = np.compress(used, spread).tobytes()  # Faster than spread[used].
    return _split(content, np.cumsum(lengths).tolist())


def _spread_sevens(
    rows: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Write each number as a varint at the start of a slot of fixed size.

    Example:
        rows = [[5, 300]], width = 2
        result = [5, 0, 0xac, 2], [True, False, True, True]

    Args:
        rows: integers [n, k], not negative.
        width: Most bytes of a varint, 2 to 8.

    Returns:
        uint8 and bool [n * k * slot]: the bytes, and which of them are used.
    """
    slot = 2 if width <= 2 else 4 if width <= 4 else 8
    dtype = np.dtype(f"<u{slot}")
    numbers = rows.astype(dtype, order="C")
    spread = numbers & dtype.type(0x7F)
    used = np.ones_like(numbers)
    for index in range(1, width):
        # Byte `index` has the seven bits from 7 * index on. Shifting by `index`
        # makes space for the highest bits of the bytes before it.
        used |= (numbers >= 1 << 7 * index) * dtype.type(1 << 8 * index)
        spread |= (numbers << index) & dtype.type(0x7F << 8 * index)
    spread |= used >> 1  # The highest bit: a byte follows this one.
    return spread.view(np.uint8).ravel(), used.view(np.bool_).ravel()


def _split_evenly(rows: np.ndarray) -> list[bytes]:
    """Return the bytes of each row of a contiguous array [n, k]."""
    width = rows.shape[1] * rows.itemsize
    ends = range(width, (len(rows) + 1) * width, width) if width else ()
    return _split(rows.tobytes(), ends) if width else [b""] * len(rows)


def _split(content: bytes, ends: Sequence[int]) -> list[bytes]:
    starts = (0, *ends)
    return [
        content[start:end] for start, end in zip(starts, ends, strict=False)
    ]


def frame_batch(messages: Sequence[bytes]) -> list[bytes]:
    """Make messages records of a TFRecord file.

    A file is its records, one behind the other, so the results may be joined
    and written in pieces of any size.

    Returns:
        For each: its length, a checksum of the length, itself, a checksum.
    """
    return [
        b"".join((_frame_head(len(message)), message, _checksum(message)))
        for message in messages
    ]


def unframe(record: bytes) -> bytes:
    """Return the message in a record of `frame_batch`, unchecked."""
    return record[_LENGTH_BYTES + _CHECKSUM_BYTES : -_CHECKSUM_BYTES]


def read_frames(
    stream: IO[bytes], size: int | None = None, *, skip: bool = False
) -> Iterator[bytes]:
    """Yield the messages of a TFRecord file; undoes `frame_batch`.

    Args:
        size: Bytes of the stream; None if they are not known.
        skip: Whether to yield b"" for each message, unread. Needs `size`.

    Raises:
        ValueError: The next record is damaged, or cut short.
    """
    end = 0
    while head := stream.read(_LENGTH_BYTES + _CHECKSUM_BYTES):
        if len(head) < _LENGTH_BYTES + _CHECKSUM_BYTES:
            raise ValueError("the file ends")
        length = head[:_LENGTH_BYTES]
        if _checksum(length) != head[_LENGTH_BYTES:]:
            raise ValueError(_BAD_LENGTH)
        (num_bytes,) = struct.unpack("<Q", length)
        end += len(head) + num_bytes + _CHECKSUM_BYTES
        if num_bytes >= _TOO_LONG:
            raise ValueError(f"its length is {num_bytes:,} bytes")
        if size is not None and end > size:
            raise ValueError("the file ends")
        if skip:
            stream.seek(end)
            yield b""
            continue
        body = stream.read(num_bytes + _CHECKSUM_BYTES)
        if len(body) < num_bytes + _CHECKSUM_BYTES:
            raise ValueError("the file ends")
        if _checksum(body[:num_bytes]) != body[num_bytes:]:
            raise ValueError("the checksum does not fit the content")
        yield body[:num_bytes]


class _GzipFile(io.RawIOBase):
    """The content of all streams of a .gz file, and of nothing else.

    `gzip.open` accepts zeros between and behind them, at which TensorFlow
    stops with an error.
    """

    def __init__(self, stored: IO[bytes]) -> None:
        self._stored = stored
        self._decoder = zlib.decompressobj(_AS_GZIP)
        self._is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            packed = self._decoder.unused_data or self._decoder.unconsumed_tail
            packed = packed or self._stored.read(_CHUNK_BYTES)
            if self._decoder.eof or self._is_first:
                if not packed:
                    return 0
                self._decoder = zlib.decompressobj(_AS_GZIP)
                self._is_first = False
            data = self._decoder.decompress(packed, len(buffer))
            if not packed and not data and not self._decoder.eof:
                raise EOFError("it ends within a stream")
        buffer[: len(data)] = data
        return len(data)


def count_records(path: str, remedy: str = REMEDY) -> int:
    """Count the records of a file, and make sure that it holds all of them.

    Only lengths are read, unless the file is compressed or elsewhere.
    """
    skip = not (path.endswith(".gz") or files.is_remote(path))
    return sum(1 for _ in read_records(path, remedy, skip=skip))


def read_records(
    path: str, remedy: str = REMEDY, *, skip: bool = False
) -> Iterator[bytes]:
    """Yield the messages of a file, decompressed if its name ends in .gz."""
    if not files.exists(path):
        raise errors.UserError(
            f"The record file {path} does not exist. Check the path (the "
            f"current folder is {os.getcwd()})."
        )
    files.require_regular(path)
    number = 1
    try:
        with files.open_binary(path) as stored:
            frames = read_frames(stored, files.size(path), skip=skip)
            if path.endswith(".gz"):
                unpacked = io.BufferedReader(_GzipFile(stored), _CHUNK_BYTES)
                frames = read_frames(cast(IO[bytes], unpacked))
            for message in frames:
                yield message
                number += 1
    except _DAMAGES as error:
        is_other = _NO_GZIP in str(error) or str(error) == _BAD_LENGTH
        if number == 1 and is_other:
            raise errors.UserError(
                f"The record file {path} is not a TFRecord file, or its first "
                "bytes are damaged. A TFRecord file is needed, such as "
                "data_prep.create_pretraining_data writes; its name ends in "
                ".gz if and only if it is compressed by gzip. Check the path."
            ) from error
        raise errors.UserError(
            f"The record file {path} is damaged: record {number:,} cannot be "
            f"read ({error}). {remedy}"
        ) from error


@functools.lru_cache(maxsize=1 << 16)
def _frame_head(length: int) -> bytes:
    """Return the length of a message and its checksum, 12 bytes."""
    encoded = struct.pack("<Q", length)
    return encoded + _checksum(encoded)


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC-32C of some bytes, 4 bytes."""
    crc = google_crc32c.value(content)
    rotated = crc >> 15 | crc << 17
    return struct.pack("<I", rotated + _MASK_DELTA & 0xFFFFFFFF)
