"""Text that is not divided into sentences, and articles of WikiExtractor.

WikiExtractor writes articles between tags, or as JSON lines. Each of its lines
is a paragraph. The first one may be the title, which is no sentence. "&", "<"
and ">" are written as in HTML, unless it was told otherwise.
"""

import html
import itertools
import re
import typing
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf.common import errors, strict_json
from data_prep.writer import text_lines

MAX_LINE_BYTES = 2**24  # Of a paragraph before it is cut into sentences.
# After an article. It is known by its identity, because a text may hold it, and
# has two characters, because Python shares strings of one.
END = "\f\x1e"
_LOOKED_AT = 9  # Lines that show whether a text is JSON.
_ENTITY = re.compile("&(?:amp|lt|gt);")
_KEYS = frozenset({"id", "url", "title", "text"})  # In its JSON lines.
_TAG = re.compile(r'<doc\s+id="[^"]*"(?:.*?\stitle="(?P<title>.*)"\s*|[^\n]*)>')


def is_tag(line: str) -> bool:
    return _TAG.fullmatch(line.strip()) is not None


def read(
    stream: IO[bytes], path: str, *, keep_titles: bool = False
) -> Iterator[str]:
    """Yield the lines of a text; of articles, with an empty one after each.

    They have no ends, and no byte order mark. The first line that is not empty
    shows whether there are articles: it is a tag, or a JSON object with a text.
    `END` comes after each article.
    """
    numbered: Iterator[tuple[int, str]] = itertools.dropwhile(
        lambda pair: not pair[1].strip(), enumerate(_decode(stream, path), 1)
    )
    begin = list(itertools.islice(numbered, _LOOKED_AT))
    numbered = itertools.chain(begin, numbered)
    first = begin[0][1] if begin else ""
    is_text = not is_tag(first)
    if is_text and _parse(first) is None:
        text_lines.refuse_document(
            "\n".join(line for _, line in begin),
            path,
            'JSON lines are read if each is an object with a "text".',
        )
        yield from (line for _, line in numbered)
        return
    title: str | None = None  # That of an article that begins.
    plain: Callable[[str], str] = _plain
    for number, line in numbered:
        parts = [line]
        if is_text and line.strip():
            article = _parse(line)
            if article is None:
                raise errors.UserError(
                    f"{text_lines.tell_line(path, number)} is no JSON object "
                    "with a text, as lines before it are. Correct the line."
                )
            plain = _plain if article.keys() >= _KEYS else str
            title = plain(str(article.get("title", "")))
            parts = [*article["text"].split("\n"), "</doc>"]
        for part in map(str.strip, parts):
            if tag := _TAG.fullmatch(part):
                title = plain(tag["title"] or "")
            if tag or part == "</doc>":
                yield END
            elif part:
                if keep_titles or plain(part) != title:
                    yield plain(part)
                    yield ""
                title = None


def _parse(line: str) -> dict[str, Any] | None:
    """Return a JSON object with a text; None of another line."""
    try:
        values = strict_json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not isinstance(values.get("text"), str):
        return None
    return values


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _decode(stream: IO[bytes], path: str) -> Iterator[str]:
    def refuse(number: int) -> typing.NoReturn:
        raise errors.UserError(
            f"{text_lines.tell_line(path, number)} is longer than "
            f"{MAX_LINE_BYTES:,} bytes. Paragraphs of text are read, "
            "separated by empty lines. Is this the right file?"
        )

    lines = text_lines.read_lines([stream], MAX_LINE_BYTES, refuse)
    for number, line in enumerate(lines, 1):
        try:
            if text_lines.is_binary(line):
                raise ValueError
            decoded = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except ValueError as error:
            where = text_lines.tell_line(path, number)
            near = [line, *itertools.islice(lines, text_lines.NEAR_LINES)]
            near = [other.removesuffix(b"\n") for other in near]
            raise text_lines.bad_line(near, 0, where) from error
        yield decoded.removesuffix("\n")
