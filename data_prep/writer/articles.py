"""Articles as WikiExtractor writes them: between tags, or as JSON lines.

Each of its lines is a paragraph. The first one may be the title, which is no
sentence. "&", "<" and ">" are written as in HTML, unless it was told otherwise.
"""

import html
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.common import errors, strict_json
from data_prep.writer import text_lines

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
    lines: Iterator[str], path: str, *, keep_titles: bool = False
) -> Iterator[str]:
    """Yield the lines of a text; of articles, with an empty one after each.

    The first line that is not empty shows which it is: a tag, or a JSON object
    with a text. `END` comes after each article.
    """
    numbered: Iterator[tuple[int, str]] = itertools.dropwhile(
        lambda pair: not pair[1].strip(), enumerate(lines, 1)
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
        found = [line]
        if is_text and line.strip():
            article = _parse(line)
            if article is None:
                raise errors.UserError(
                    f"{text_lines.tell_line(path, number)} is no JSON object "
                    "with a text, as lines before it are. Correct the line."
                )
            plain = _plain if article.keys() >= _KEYS else str
            title = plain(str(article.get("title", "")))
            found = [*article["text"].split("\n"), "</doc>"]
        for part in map(str.strip, found):
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
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)
