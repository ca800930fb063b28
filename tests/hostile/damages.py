"""Damages to files of any kind, one line each."""

import json
import os
import pathlib
from collections.abc import Callable

Damage = Callable[[bytes], bytes]
UTF8_MARK = b"\xef\xbb\xbf"


def flip(share: float) -> Damage:
    """Flip one bit of the byte at this share of the file's length."""

    def damage(whole: bytes) -> bytes:
        place = int(share * (len(whole) - 1))
        changed = bytes([whole[place] ^ 0x10])
        return whole[:place] + changed + whole[place + 1 :]

    return damage


def zero(whole: bytes) -> bytes:
    """Lose what a disk had not written: the second quarter is zeros."""
    quarter = len(whole) // 4
    return whole[:quarter] + bytes(quarter) + whole[2 * quarter :]


# Of any file.
BYTES: dict[str, Damage] = {
    "empty": lambda whole: b"",
    "one line end": lambda whole: b"\n",
    "zeros": lambda whole: bytes(2000),
    "all bits set": lambda whole: b"\xff" * 2000,
    "first half": lambda whole: whole[: len(whole) // 2],
    "all but the last byte": lambda whole: whole[:-1],
    "all but the first byte": lambda whole: whole[1:],
    "twice": lambda whole: whole * 2,
    "a quarter of zeros": zero,
    "bit in the first byte": flip(0),
    "bit in the middle": flip(0.5),
    "bit in the last byte": flip(1),
}
# Of text: lines, tables and JSON.
TEXTS: dict[str, Damage] = {
    "byte order mark first": lambda whole: UTF8_MARK + whole,
    "UTF-16": lambda whole: whole.decode().encode("utf-16"),
    "Latin-1": lambda whole: whole.replace(b"e", b"\xe9"),
    "half a character": lambda whole: whole.replace(b"e", b"\xed\xa0\xbd"),
    "NUL for e": lambda whole: whole.replace(b"e", b"\0"),
    "CR for LF": lambda whole: whole.replace(b"\n", b"\r"),
    "CRLF": lambda whole: whole.replace(b"\n", b"\r\n"),
    "no line ends": lambda whole: whole.replace(b"\n", b""),
    "tabs for spaces": lambda whole: whole.replace(b" ", b"\t"),
    "first line gone": lambda whole: whole.partition(b"\n")[2],
    "empty lines between": lambda whole: whole.replace(b"\n", b"\n\n"),
    "100,000 tabs": lambda whole: b"\t" * 100_000 + b"\n" + whole,
    "line of two megabytes": lambda whole: b"a" * 2_000_000 + b"\n" + whole,
    "word of combining marks": lambda whole: (
        whole + "a\u0301\u0327".encode() + "\u0301".encode() * 2000
    ),
    "no letters": lambda whole: "\u200b \u3000\ufeff\n".encode() * 9,
    "HTML": lambda whole: b"<!DOCTYPE html><html>Not Found</html>\n",
    "JSON null": lambda whole: b"null",
    "JSON number": lambda whole: b"1e400",
    "JSON list": lambda whole: b"[]\n",
    "JSON object": lambda whole: b"{}\n",
    "JSON nothing": lambda whole: b'{"": ""}\n',
    "100,000 brackets": lambda whole: b"[" * 100_000,
    "number of 6,000 digits": lambda whole: b'{"id": ' + b"9" * 6000 + b"}\n",
}


def first_json(whole: bytes) -> tuple[object, str]:
    """Return what a JSON file, or its first line, holds, and the rest."""
    text = whole.decode()
    try:
        return json.loads(text), "\n"
    except ValueError:
        first, end, rest = text.partition("\n")
        return json.loads(first), end + rest


def values_of(whole: bytes) -> list[bytes]:
    """Put each of `VALUES` in the place of each value of a JSON file.

    Of lists only the first entry is changed, and of JSON lines the first one.
    """
    content, rest = first_json(whole)
    return [
        (json.dumps(replaced(content, place, value)) + rest).encode()
        for place in places(content)
        for value in VALUES
    ]


def places(content: object) -> list[tuple]:
    """Return the ways to all values, such as ("data", 0, "title")."""
    found: list[tuple] = []
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = list(enumerate(content[:1]))
    else:
        return []
    for key, value in entries:
        found += [(key,), *((key, *rest) for rest in places(value))]
    return found


def replaced(content: object, place: tuple, value: object) -> object:
    """Return JSON values with another one in one place; `_Gone` removes it."""
    if not place:
        return value
    copy = json.loads(json.dumps(content))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    if value is _Gone:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return copy


class _Gone:
    """Stands for a key that is removed."""


# Wrong types; numbers and texts at and beyond their limits.
INTEGERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30]
FLOATS = [0.5, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")]
TEXTS_IN_JSON = [
    "",
    " ",
    "\0",
    "\ud83d",
    "0",
    "../../x",
    "~",
    "%s{0}",
    "a" * 5000,
]
CONTAINERS = [[], {}, [[]], {"": None}, ["\0"], [None, 1]]
CONSTANTS = [None, True, False, _Gone]
VALUES = [*INTEGERS, *FLOATS, *TEXTS_IN_JSON, *CONTAINERS, *CONSTANTS]


def _to_loop(path: pathlib.Path) -> None:
    path.symlink_to(path.name)


# Other things than a file. They are called after the file is removed.
KINDS: dict[str, Callable[[pathlib.Path], None]] = {
    "nothing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": _to_loop,
    "link to a folder": lambda path: path.symlink_to("/"),
    "link to /dev/null": lambda path: path.symlink_to(os.devnull),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
}
