r"""JSON, read and written strictly; no other module parses it.

Python's reader accepts NaN and Infinity, which are not JSON, and half of a
character (a lone surrogate such as "\ud83d"), which cannot be stored as UTF-8.
It raises different exceptions for bytes that are not UTF-8, for long numbers
and for deeply nested values. Here all of these raise a `JsonError` with the
reason. `dumps` writes JSON that every reader accepts.

If an object has a key twice, the last value counts, as in Python and in the
original.
"""

import json
import math
import re
from typing import Any, NoReturn

from albert_tf.common import errors, files

# Deeper than useful values, and far from the interpreter's own limit, which
# depends on the caller.
_MAX_DEPTH = 100
_MAX_SHOWN = 60
# An integer of so many digits fits a float; the largest has 309.
_SURELY_FLOAT = 300
_REPLACEMENT = "\ufffd"
# May hold half of a character: written as such, or as an escape.
_SUSPICIOUS = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
# The escapes of a JSON text; group 1 matches half of a character only.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff])"
    r"|\\.",
    re.DOTALL,
)


class JsonError(ValueError):
    """An error in a JSON text; the message does not name the file."""


def loads(
    text: str | bytes,
    *,
    replace_halves: bool = False,
    replace_nan: bool = False,
) -> Any:
    r"""Return the value of a JSON text.

    Args:
        text: Bytes must be UTF-8; a byte order mark is ignored.
        replace_halves: Whether half of a character, as in "\ud83d", becomes
            U+FFFD. Otherwise it is an error.
        replace_nan: Whether NaN, Infinity and -Infinity, which Python writes
            and JSON does not have, become None. Otherwise they are errors.

    Raises:
        JsonError: It is not JSON, or not UTF-8, holds half of a character or a
            number that no float can hold, or is nested too deeply.
    """
    text = _decode(text) if isinstance(text, bytes) else text
    if _SUSPICIOUS.search(text):
        if replace_halves:
            text = _replace_halves(text)
        _check_halves(text)
    try:
        value = json.loads(
            text,
            parse_constant=_to_none if replace_nan else _refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise JsonError(str(error)) from None
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        _check_depth(value)
    return value


def read(path: str, advice: str, what: str | None = None) -> Any:
    """Return the value in a file.

    Args:
        path: The file.
        advice: What to do if it is not JSON, a sentence.
        what: How messages name it; by default by its path.

    Raises:
        errors.UserError: See `loads`.
    """
    try:
        return loads(files.read_bytes(path))
    except JsonError as error:
        raise errors.UserError(
            f"{what or path} is not JSON: {error}. {advice}"
        ) from None


def read_object(
    path: str, advice: str, what: str | None = None
) -> dict[str, Any]:
    """Return the object in a file; see `read`.

    Raises:
        errors.UserError: It is not JSON, or another value.
    """
    value = read(path, advice, what)
    if not isinstance(value, dict):
        raise errors.UserError(
            f"{what or path} holds {shown(value)}, which is not a JSON object. "
            + advice
        )
    return value


def dumps(
    value: Any,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = True,
) -> str:
    """Return a value as JSON that every reader accepts.

    So that writing at the end of a run cannot fail, a number that is not finite
    becomes null, and half of a character becomes U+FFFD.

    Args:
        value: Dictionaries, lists, texts, numbers, truth values and None.
        indent: Spaces for each level, one entry a line; None for one line.
        sort_keys: Whether keys are sorted.
        ensure_ascii: Whether other characters are written as escapes.
    """

    def write(value: Any) -> str:
        return json.dumps(
            value,
            allow_nan=False,
            indent=indent,
            sort_keys=sort_keys,
            ensure_ascii=ensure_ascii,
        )

    try:
        text = write(value)
    except ValueError:
        text = write(_without_nan(value))
    return _replace_halves(text) if _SUSPICIOUS.search(text) else text


def shown(value: Any) -> str:
    """Return the beginning of a value as JSON, for messages."""
    return dumps(value)[:_MAX_SHOWN]


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        found = errors.bad_byte(content, "the text")
        raise JsonError(f"{found}, which is not UTF-8") from None


def _check_halves(text: str) -> None:
    for escape in _ESCAPE.finditer(text):
        if escape[1]:
            line = text.count("\n", 0, escape.start()) + 1
            column = escape.start() - text.rfind("\n", 0, escape.start())
            near = text[max(0, escape.start() - 20) : escape.end()]
            raise JsonError(
                f"{ascii(escape[1])} is half of a character, the other half is "
                f"missing: line {line} column {column}, at the end of "
                f"{ascii(near)}"
            )


def _replace_halves(text: str) -> str:
    return _ESCAPE.sub(lambda e: _REPLACEMENT if e[1] else e[0], text)


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is not a JSON number")


def _to_none(name: str) -> None:
    del name


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _too_large(digits)
    return number


def _parse_int(digits: str) -> int:
    if len(digits) > _SURELY_FLOAT:
        _parse_float(digits)  # Refuses a number that no float can hold.
    return int(digits)


def _too_large(digits: str) -> JsonError:
    return JsonError(
        f"the number {digits[:20]}... of {len(digits):,} characters is too "
        "large"
    )


def _too_deep() -> JsonError:
    return JsonError(
        f"lists and objects are nested too deeply, in more than {_MAX_DEPTH} "
        "levels"
    )


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [outer for outer in level if isinstance(outer, (dict, list))]
        if not level:
            return
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    raise _too_deep()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
