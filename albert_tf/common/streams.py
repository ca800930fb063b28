"""The standard streams of a command: closed, or without all characters."""

import io
import os
import sys

from albert_tf.common import errors


def prepare() -> None:
    """Make sure that a command can print anything; called at its start.

    A closed stream leads to the null device from now on. Otherwise the next
    file that is opened would have its number, and get what is printed. A
    character that the encoding of a stream lacks is printed as an escape.
    """
    if sys.getfilesystemencoding() == "ascii":
        # The C locale, without Python's UTF-8 mode: names of files are UTF-8.
        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, command)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free number.
            os.set_inheritable(number, True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def require_input() -> None:
    """Refuse to read a standard input that is closed."""
    if sys.stdin is None:
        raise errors.UserError(
            "`input_file=-` is standard input, which is closed. Pipe text into "
            "it, or name files."
        )


def require_output() -> None:
    """Refuse to answer on a standard output that was closed at the start."""
    if sys.__stdout__ is None:
        raise errors.UserError(
            "Standard output is closed, so there is no place for the answers. "
            "Leave it open, or send it to a file."
        )


def drop_output() -> None:
    """Drop what is printed from now on: its reader, such as `head`, has ended.

    Python would raise the error again when it closes the stream.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
