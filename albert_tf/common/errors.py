"""The exception for mistakes of the user."""

import re
from collections.abc import Container
from typing import Any

_ARGUMENT = re.compile(r"`(\w+)(=[^`]*)?`")


class UserError(ValueError):
    """A wrong argument, file or combination; shown without a traceback.

    The message has four parts: which argument or file, what it was, what is
    allowed, and what to do. Arguments are written in backticks, `name` or
    `name=value`, as Python users know them. `options.run_script` shows those
    that are options of the command as flags and exits with status 2.

    Example:
        str(UserError("is not a file. Check it.", "vocab_file", "v.txt")) =
            "`vocab_file=v.txt` is not a file. Check it."
    """

    def __init__(
        self, problem: str, argument: str = "", value: Any = None
    ) -> None:
        """Make the message.

        Args:
            problem: The message; with an argument, what comes after it.
            argument: Name of the argument that is wrong.
            value: Its value; None leaves it out.
        """
        given = "" if value is None else f"={value}"
        subject = f"`{argument}{given}` " if argument else ""
        super().__init__(f"{subject}{problem}")
        self.argument = argument


def as_flags(message: str, names: Container[str]) -> str:
    """Return a message with the arguments of `names` as flags.

    Example:
        as_flags("`vocab_file=v.txt` is not a file.", ["vocab_file"]) =
            "--vocab_file=v.txt is not a file."
    """
    return _ARGUMENT.sub(
        lambda found: (
            f"--{found[1]}{found[2] or ''}" if found[1] in names else found[0]
        ),
        message,
    )
