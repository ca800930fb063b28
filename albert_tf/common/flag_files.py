"""Flag files: options in a file, one on each line (`--flagfile=FILE`)."""

import io
import os
from collections.abc import Iterable, Iterator

from albert_tf.common import configs, errors

_NAMES = ("--flagfile", "-flagfile")
_COMMENTS = ("#", "//")


def expand(words: Iterable[str], inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Replace each flag file in a command line by its options.

    A flag file may name others. Those of this package are found by name.

    Example:
        expand(["--name=x", "--flagfile=configs/glue/rte.flags"]) yields
        "--name=x", "--task_name=rte", ...

    Args:
        words: The command line.
        inside: The flag files that contain it.

    Raises:
        errors.UserError: A flag file has no name, cannot be read, or includes
            itself.
    """
    words = iter(words)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _NAMES:
            yield word
            continue
        value = (value if equals else next(words, "")).strip()
        if not value:
            raise errors.UserError("--flagfile is empty. Name a file.")
        path = configs.find(os.path.expanduser(value))
        if path in inside:
            raise errors.UserError(
                f"--flagfile={path} includes itself. Remove that line."
            )
        yield from expand(_lines(path), (*inside, path))


def _lines(path: str) -> list[str]:
    """Return the lines of a flag file, without comments and empty ones."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name.
        raise errors.UserError(
            f"--flagfile={path} cannot be read: "
            f"{getattr(error, 'strerror', error)}. Name a file with one option "
            "on each line."
        ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise errors.UserError(
            f"--flagfile={path} is not UTF-8: "
            f"{errors.bad_byte(content, 'the file')}. Convert the file first."
        ) from None
    lines = map(str.strip, io.StringIO(text, newline=None))
    return [x for x in lines if x and not x.startswith(_COMMENTS)]
