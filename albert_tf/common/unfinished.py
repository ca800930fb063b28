"""Write answers to disk as they are computed, and continue after a kill.

They go to `PATH.unfinished`, as JSON lines. `PATH.unfinished.json` holds the
inputs and settings that they depend on. After a kill or an error both files
stay, and the same command continues after the last complete group of answers.
At the end the file gets its final name, or is converted to a table.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from absl import logging

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    strict_json,
)

ENDING = ".unfinished"
_FACTS_ENDING = f"{ENDING}.json"
ERROR = "error"


class Answers:
    """The answers of one command, including those of earlier starts.

    Attributes:
        count: Answers so far.
        first_error: That of the first line that could not be answered.
        num_errors: How many such lines there are.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        """Begin with none; see `keep`.

        Args:
            stream: Where they are written.
        """
        self._stream = stream
        self.count = 0
        self.num_errors = 0
        self.first_error = ""

    def take(self, answers: Iterable[Mapping[str, Any]]) -> None:
        """Count answers that are written already."""
        for answer in answers:
            self.count += 1
            if ERROR in answer:
                self.num_errors += 1
                self.first_error = self.first_error or str(answer[ERROR])

    @property
    def has_errors_only(self) -> bool:
        """Whether there are answers, and all of them are errors."""
        return 0 < self.count == self.num_errors

    def require_one(self) -> None:
        """Make sure that a line was answered, if there are any.

        Raises:
            errors.UserError: None was.
        """
        if self.has_errors_only:
            raise errors.UserError(
                f"No line can be answered. The first error: {self.first_error}"
            )

    def write(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Write answers and flush the file, so that readers see them."""
        text = "".join(
            strict_json.dumps(answer, ensure_ascii=False) + "\n"
            for answer in answers
        )
        self._stream.write(text.encode())
        self._stream.flush()
        self.take(answers)


@contextlib.contextmanager
def keep(
    path: str,
    facts: Mapping[str, Any] | None,
    group: int,
    to_table: Callable[[list[dict[str, Any]]], str] | None = None,
) -> Iterator[Answers]:
    """Collect answers for a local file, which appears when it is complete.

    Args:
        path: The file.
        facts: The inputs and settings that the answers depend on, as JSON
            values. None if they are unknown: then earlier answers cannot be
            continued.
        group: Answers that are written together.
        to_table: Returns the content of the file, given all answers; by default
            they are JSON lines.

    Raises:
        errors.UserError: There are unfinished answers of another command, or of
            one that still runs; or no line could be answered.
        OSError: The file cannot be written, or the disk is full.
    """
    target = os.path.realpath(path)
    kept = target + ENDING
    with (
        files.name_full_disk(path),
        folder_lock.hold_file(kept + folder_lock.NAME, "output_file", path),
        _open(kept) as stream,
    ):
        answers = Answers(stream)
        _go_on(stream, answers, target, facts, group)
        try:
            yield answers
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            _leave(answers, target)
            raise
        if answers.has_errors_only:
            _remove(target)
        answers.require_one()
        if to_table:
            files.write_text(path, to_table(list(_lines(stream))))
        else:
            os.replace(kept, target)
        _remove(target)


def _open(kept: str) -> IO[bytes]:
    if os.path.islink(kept):  # Not of this program: it makes no links.
        os.remove(kept)
    return open(kept, "a+b")


def _lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the whole answers at the beginning of a file."""
    stream.seek(0)
    for line in stream:
        try:
            answer = strict_json.loads(line)
        except strict_json.JsonError:
            return
        if not line.endswith(b"\n") or not isinstance(answer, dict):
            return
        yield answer


def _go_on(
    stream: IO[bytes],
    answers: Answers,
    target: str,
    facts: Mapping[str, Any] | None,
    group: int,
) -> None:
    """Keep the complete groups of an earlier start; write the facts.

    Raises:
        errors.UserError: They are those of another command.
    """
    if os.fstat(stream.fileno()).st_size:
        _check_facts(target, facts)
    whole = sum(1 for _ in _lines(stream)) // group * group
    answers.take(itertools.islice(_lines(stream), whole))
    stream.seek(0)
    size = sum(len(line) for line in itertools.islice(stream, whole))
    stream.truncate(size)
    stream.seek(size)
    if whole:
        logging.info(
            "Continuing after %d answers of an earlier start in %s",
            whole,
            target + ENDING,
        )
    text = strict_json.dumps(facts, indent=2, sort_keys=True) + "\n"
    files.write_text(target + _FACTS_ENDING, text)


def _check_facts(target: str, facts: Mapping[str, Any] | None) -> None:
    """Make sure that earlier answers are those of this command.

    Raises:
        errors.UserError: They are not, or this cannot be determined.
    """
    try:
        known = strict_json.loads(files.read_bytes(target + _FACTS_ENDING))
    except (OSError, strict_json.JsonError):
        known = None
    current = strict_json.loads(strict_json.dumps(facts))
    if known is not None and known == current:
        return
    differing = "unknown"
    if isinstance(known, dict) and isinstance(current, dict):
        names = sorted(known.keys() | current.keys())
        differing = ", ".join(
            n for n in names if known.get(n) != current.get(n)
        )
    raise errors.UserError(
        f"{target}{ENDING} holds answers of an unfinished command. It was "
        f"another command, or its files have changed ({differing}). Repeat "
        "that command to finish it, or remove the file."
    )


def _leave(answers: Answers, target: str) -> None:
    """Log where the answers are kept; remove a file without answers."""
    if not answers.count:
        _remove(target)
        return
    logging.warning(
        "%d answers are kept in %s. Run the same command again to continue.",
        answers.count,
        target + ENDING,
    )


def _remove(target: str) -> None:
    for ending in (ENDING, _FACTS_ENDING):
        with contextlib.suppress(FileNotFoundError):
            os.remove(target + ending)
