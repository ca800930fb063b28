r"""JSON, read strictly by orjson; no other module parses it.

NaN, Infinity, numbers that no float can hold, and half of a character (a lone
surrogate such as "\ud83d", which cannot be stored as UTF-8) are refused, and so
is an object that has a key twice: one of the values would be lost. Whole
numbers of any size keep all of their digits.
"""

import json
import math
import re
from typing import Any

import orjson

from albert_tf.common import errors, files

# Deeper than useful values, and far from the interpreter's own limit, which
# depends on the caller.
_MAX_DEPTH = 100
_MAX_SHOWN = 60
# The escapes of a JSON text; group 1 matches half of a character only.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff])"
    r"|\\.",
    re.DOTALL,
)
# Every key, and strings that only look like one.
_KEY = re.compile(r'"[ \t\r\n]*:')
# Each whole number that orjson takes for a float has as many digits.
_LONG = re.compile(r"[0-9]{19}")


class JsonError(ValueError):
    """An error in a JSON text; the message does not name the file."""


def loads(text: str | bytes) -> Any:
    """Parse a JSON text, or bytes in UTF-8, with or without byte order mark."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        value = orjson.loads(text)
    except UnicodeDecodeError as error:
        fault = errors.bad_byte(error.object, "the text")
        raise JsonError(f"{fault}, which is not UTF-8") from None
    except orjson.JSONDecodeError as error:
        raise JsonError(str(error)) from None
    if len(_KEY.findall(text)) != _count_keys(value, _MAX_DEPTH):
        _refuse_duplicate_keys(text)
    return json.loads(text) if _LONG.search(text) else value


def _count_keys(value: Any, levels: int) -> int:
    """Count the keys of all objects in a value; refuse one of more levels."""
    if not isinstance(value, (dict, list)):
        return 0
    if not levels:
        raise JsonError(
            "lists and objects are nested too deeply, in more than "
            f"{_MAX_DEPTH} levels"
        )
    num_keys = 0
    if isinstance(value, dict):
        num_keys, value = len(value), [*value.values()]
    return num_keys + sum(_count_keys(item, levels - 1) for item in value)


def _refuse_duplicate_keys(text: str) -> None:
    """Refuse an object that has a key twice; orjson would drop a value."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(
                    f"an object has the key {brief(key)} twice. Keep one of "
                    "them"
                )
            seen.add(key)

    json.loads(text, object_pairs_hook=check, parse_int=str, parse_float=str)


def read(path: str, advice: str, source: str | None = None) -> Any:
    """Return the value in a file.

    Args:
        advice: What to do if it is not JSON, a sentence.
        source: How messages name it; by default by its path.
    """
    try:
        return loads(files.read_bytes(path))
    except JsonError as error:
        raise errors.UserError(
            f"{source or path} is not JSON: {error}. {advice}"
        ) from None


def read_object(
    path: str, advice: str, source: str | None = None
) -> dict[str, Any]:
    """Return the object in a file; another value is an error; see `read`."""
    value = read(path, advice, source)
    if not isinstance(value, dict):
        raise errors.UserError(
            f"{source or path} holds {brief(value)}, which is not a JSON "
            f"object. {advice}"
        )
    return value


def dumps(
    value: Any,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = True,
) -> str:
    """Return a value as `json.dumps` does, but so that every reader accepts it.

    So that writing at the end of a run cannot fail, a number that is not finite
    becomes null, and half of a character becomes U+FFFD.
    """
    encoder = json.JSONEncoder(
        allow_nan=False,
        indent=indent,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
    )
    try:
        text = encoder.encode(value)
    except ValueError:
        text = encoder.encode(_replace_nan(value))
    return replace_lone_surrogates(text)


def replace_lone_surrogates(text: str) -> str:
    """Return a JSON text with U+FFFD for each lone surrogate, or its escape."""
    return _ESCAPE.sub(lambda found: "\ufffd" if found[1] else found[0], text)


def brief(value: Any) -> str:
    """Return the beginning of a value as JSON, for messages."""
    return dumps(value)[:_MAX_SHOWN]


def _replace_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_nan(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
