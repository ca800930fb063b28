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
    """Yield the lines of a text or of articles, without line ends.

    The first line that is not empty shows whether there are articles: it is a
    tag, or a JSON object with a text. Then an empty line comes after each line,
    and `END` after each article.
    """
    numbered: Iterator[tuple[int, str]] = itertools.dropwhile(
        lambda pair: not pair[1].strip(), enumerate(_decode(stream, path), 1)
    )
    first_lines = list(itertools.islice(numbered, _LOOKED_AT))
    numbered = itertools.chain(first_lines, numbered)
    first = first_lines[0][1] if first_lines else ""
    is_text = not is_tag(first)
    if is_text and _parse_article(first) is None:
        text_lines.refuse_document(
            "\n".join(line for _, line in first_lines),
            path,
            'JSON lines are read if each is an object with a "text".',
        )
        yield from (line for _, line in numbered)
        return
    title: str | None = None  # That of an article that begins.
    unescape: Callable[[str], str] = _unescape
    for number, line in numbered:
        article_lines = [line]
        if is_text and line.strip():
            article = _parse_article(line)
            if article is None:
                raise errors.UserError(
                    f"{text_lines.line_name(path, number)} is no JSON object "
                    "with a text, as lines before it are. Correct the line."
                )
            unescape = _unescape if article.keys() >= _KEYS else str
            title = unescape(str(article.get("title", "")))
            article_lines = [*article["text"].split("\n"), "</doc>"]
        for article_line in map(str.strip, article_lines):
            if tag := _TAG.fullmatch(article_line):
                title = unescape(tag["title"] or "")
            if tag or article_line == "</doc>":
                yield END
            elif article_line:
                if keep_titles or unescape(article_line) != title:
                    yield unescape(article_line)
                    yield ""
                title = None


def _parse_article(line: str) -> dict[str, Any] | None:
    """Parse a JSON object that has a text; None for another line."""
    try:
        values = strict_json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not isinstance(values.get("text"), str):
        return None
    return values


def _unescape(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _decode(stream: IO[bytes], path: str) -> Iterator[str]:
    def refuse(number: int) -> typing.NoReturn:
        raise errors.UserError(
            f"{text_lines.line_name(path, number)} is longer than "
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
            where = text_lines.line_name(path, number)
            near = [line, *itertools.islice(lines, text_lines.NEAR_LINES)]
            near = [other.removesuffix(b"\n") for other in near]
            raise text_lines.bad_line(near, 0, where) from error
        yield decoded.removesuffix("\n")
