"""The exception for mistakes of the user."""

import re
import sys
from collections.abc import Container, Iterable

_ARGUMENT = re.compile(r"`(\w+)(=[^`]*)?`")


class UserError(ValueError):
    """A wrong argument, file or combination; shown without a traceback.

    The message says which argument or file, what it was, what is allowed, and
    what to do. Arguments are written in backticks, as Python users know them,
    such as "`vocab_file=v.txt` is not a file. Check it." `options.run_script`
    shows those that are options of the command as flags and exits with status
    2.
    """


def as_flags(message: str, names: Container[str]) -> str:
    """Return a message with the arguments of `names` as flags.

    Example:
        as_flags("`vocab_file=v.txt` is not a file.", ["vocab_file"]) =
            "--vocab_file=v.txt is not a file."
    """
    return _ARGUMENT.sub(
        lambda match: (
            f"--{match[1]}{match[2] or ''}" if match[1] in names else match[0]
        ),
        message,
    )


def require_known(
    kind: str, names: Iterable[str], allowed: Iterable[str]
) -> None:
    """Refuse names that are not allowed; the message lists those that are."""
    choices = sorted(allowed)
    for name in names:
        if name not in choices:
            raise UserError(
                f"{name!r} is no {kind}. There are "
                f"{', '.join(choices) or 'none'}."
            )


def or_tensorflow(*kinds: type[Exception]) -> tuple[type[Exception], ...]:
    """Return error classes for `except`: these, and TensorFlow's if loaded."""
    tensorflow = sys.modules.get("tensorflow")
    return (*kinds, tensorflow.errors.OpError) if tensorflow else kinds


def bad_byte(content: bytes, of: str) -> str:
    r"""Describe the first byte that is not UTF-8; the first of all is byte 1.

    Example:
        bad_byte(b"caf\xe9", "the line") = "byte 4 of the line is 0xe9"
    """
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        return f"byte {error.start + 1} of {of} is 0x{byte:02x}"
    raise AssertionError("This is UTF-8.")
