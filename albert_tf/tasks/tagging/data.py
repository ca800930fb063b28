"""Files of words with tags, and of texts with spans.

Three kinds are read: columns with a word in each line, as in the files of
CoNLL; JSON objects with `words` and `tags`; JSON objects with `text` and
`spans`. All become texts whose words have tags. Tags of entities are BIO then:
`O`, `B-TYPE` for the first word of an entity, `I-TYPE` for its others.
"""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, ranges, rows, strict_json
from albert_tf.common.options import checked, option
from albert_tf.tasks.tagging import portable
from albert_tf.text import words

_DOCUMENT = "-DOCSTART-"
_NOT_IN_WORDS = frozenset("\t\n\r")


@dataclasses.dataclass(frozen=True)
@checked
class ColumnOptions:
    """Where words and tags stand in a file of columns."""

    word_column: int = option(
        1,
        "Number of the column with the words, from 1. -1 is the last one.",
        within=ranges.Range(-99, 99),
    )
    tag_column: int = option(
        -1, "Number of the column with the tags.", within=ranges.Range(-99, 99)
    )


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """A text, its words, and a tag for each.

    Attributes:
        words: First character of each word, and its last one plus 1.
        tags: None where they are not known.
        joined: What the text was joined from, if spans are to be of these.
    """

    guid: Any  # See `rows.key_of`.
    text: str
    words: tuple[tuple[int, int], ...]
    tags: tuple[str, ...] | None = None
    joined: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [self.text[start:end] for start, end in self.words]

    @classmethod
    def of_text(cls, guid: Any, text: str) -> "TaggedText":
        """Return an example with the words that a text itself has."""
        pairs = np.stack(words.ranges(text), 1).tolist()
        return cls(guid, text, tuple(map(tuple, pairs)))

    def cut(self) -> "tuple[TaggedText, np.ndarray]":
        """Cut the words as texts are cut.

        Example: `J.` with the tag B-PER becomes `J` and `.` with B-PER, I-PER.

        Returns:
            An example of the parts; bool [parts], which of them begin a word.
        """
        given = np.array(self.words, np.int64).reshape(-1, 2)
        ranges = np.stack(words.ranges(self.text), 1)
        starts = np.union1d(given[:, 0], ranges[:, 0])
        edges = np.union1d(given, ranges)
        ends = edges[np.searchsorted(edges, starts, "right")]
        begins = np.isin(starts, given[:, 0])
        parts = tuple(zip(starts.tolist(), ends.tolist(), strict=True))
        tags = self.tags
        if tags is not None:
            owners = zip(begins, np.cumsum(begins) - 1, strict=True)
            tags = tuple(
                tags[i] if first else portable.continued(tags[i])
                for first, i in owners
            )
        return dataclasses.replace(self, words=parts, tags=tags), begins


# A text with tags as they are written, and the place of each of its words.
_Read = tuple[TaggedText, Sequence[str]]


def read(
    path: str,
    columns: ColumnOptions,
    labels: Collection[str] | None = None,
    *,
    needs_tags: bool = True,
) -> list[TaggedText]:
    """Read a file with tags, strictly.

    Tags that do not fit together are counted, and read as seqeval does: an `I-`
    without an entity of its type before it begins one.

    Args:
        labels: All tags that are allowed. None: those of the file.
        needs_tags: Whether a file without tags is refused.
    """
    if rows.holds_objects(path):
        found = list(_objects(path, needs_tags=needs_tags))
    else:
        found = list(_columns(path, columns, needs_tags=needs_tags))
    # Without words there is nothing to learn or to score.
    rows.require_examples(
        [e for e, _ in found if e.words or not needs_tags], path
    )
    if portable.are_entities(
        labels or {t for e, _ in found for t in e.tags or ()}
    ):
        found = _to_bio(path, found)
    for example, places in found:
        for tag, place in zip(example.tags or (), places, strict=False):
            if labels is not None and tag not in labels:
                raise errors.UserError(
                    f"{place}: the tag {tag!r} is not among those of the "
                    f"model: {', '.join(labels)}. Correct it, or add examples "
                    "to the training file."
                )
    return [example for example, _ in found]


def bio_of(labels: Iterable[str]) -> tuple[str, ...]:
    """Return all tags of BIO for the types in some, `O` first.

    Where no tag is of an entity, they stay as they are, sorted.
    """
    tags = set(labels)
    types = sorted({m[2] for m in map(portable.ENTITY.fullmatch, tags) if m})
    if not types:
        return tuple(sorted(tags))
    pairs = (f"{prefix}-{type_}" for type_ in types for prefix in "BI")
    return (portable.OUTSIDE, *pairs)


def labels_of(examples: Iterable[TaggedText], path: str) -> tuple[str, ...]:
    """Return the tags that a training file has, two at least."""
    found = bio_of(tag for example in examples for tag in example.tags or ())
    if len(found) < 2:
        raise errors.UserError(
            f"{path}: every word has the tag {found[0]}. Training needs others "
            "too; give another file, or name their column as `tag_column`."
        )
    outside = [tag for tag in found if tag.upper() == portable.OUTSIDE]
    if outside and not portable.are_entities(found):
        logging.warning(
            "%s has the tag %s, but no B-TYPE or I-TYPE. So its tags are "
            "learnt as parts of speech, also %r; write those of entities in "
            "BIO or BIOES, with capital letters.",
            path,
            outside[0],
            next(tag for tag in found if tag != outside[0]),
        )
    return found


def read_own(path: str) -> list[TaggedText | rows.BadLine]:
    """Read texts, each a `text`, or `words` that are joined to one."""

    def parse(entry: rows.Row) -> list[TaggedText]:
        values = {**entry.values, "tags": None, "spans": None}
        example, _ = _object(dataclasses.replace(entry, values=values))
        text = TaggedText.of_text(example.guid, example.text)
        joined = tuple(example.texts) if "words" in values else ()
        return [dataclasses.replace(text, joined=joined)]

    return list(rows.read_user_file(path, ["text"], parse))


def _to_bio(path: str, found: Sequence[_Read]) -> list[_Read]:
    result, misfits = [], []
    for example, places in found:
        for tag, place in zip(example.tags or (), places, strict=False):
            if tag != portable.OUTSIDE and not portable.ENTITY.fullmatch(tag):
                raise errors.UserError(
                    f"{place}: {tag!r} is no tag of BIO or BIOES, as others "
                    "of the file are: O, B-TYPE, I-TYPE, E-TYPE, S-TYPE. "
                    "Correct it, or choose another `tag_column`."
                )
        if example.tags is not None:
            tags, numbers = portable.to_bio(example.tags)
            misfits += [places[number] for number in numbers]
            example = dataclasses.replace(example, tags=tuple(tags))
        result.append((example, places))
    if misfits:
        logging.warning(
            "%s: %d tags do not fit to the one before them, and begin an "
            "entity, as in seqeval. The first: %s",
            path,
            len(misfits),
            misfits[0],
        )
    return result


_Row = tuple[int, list[str]]  # Number of the line, its columns.


def _columns(
    path: str, columns: ColumnOptions, *, needs_tags: bool
) -> Iterator[_Read]:
    """Yield the sentences of a file of columns; an empty line ends one."""
    first: _Row | None = None
    blocks = [*_blocks(path)]
    says_blanks = any(_is_joined(row) for block in blocks for row in block)
    for block in blocks:
        for row in block:
            first = first or row
            if len(row[1]) != len(first[1]):
                raise errors.UserError(
                    f"{path}, line {row[0]} has {len(row[1])} columns, but "
                    f"line {first[0]} has {len(first[1])}. Each word needs the "
                    "same, separated by tabs or by spaces."
                )
        assert first
        width, place = len(first[1]), f"{path}, line {block[0][0]}"
        word = _column("word_column", columns.word_column, width, place)
        blanks = None
        if word > 0 and _are_numbered(block):
            blanks = _blanks(block, word) if says_blanks else None
            block = [row for row in block if row[1][0].isdecimal()]
        has_tags = needs_tags or width > 1
        tag = word
        if has_tags:
            tag = _column("tag_column", columns.tag_column, width, place)
        if has_tags and tag == word:
            raise errors.UserError(
                f"`tag_column={columns.tag_column}` is the column of the "
                f"words, too: {place} has {width} columns. Name that of the "
                "tags."
            )
        places = [f"{path}, line {line}" for line, _ in block]
        written = [row[word] for _, row in block]
        tags = None
        if has_tags:
            pairs = zip(block, places, strict=True)
            tags = tuple(_tag(row[tag], at) for (_, row), at in pairs)
        guid = rows.LineKey({"line": block[0][0]})
        yield _of_words(guid, written, tags, places, blanks), places


def _tag(written: str, where: str) -> str:
    """Return a tag, or the label of a span, without what is not seen."""
    tag = rows.strip_invisible(written)
    if not tag or _NOT_IN_WORDS & {*tag}:
        raise errors.UserError(
            f"{where}: the tag {written!r} is empty, or has a tab or a line "
            "end. Correct it."
        )
    return tag


def _is_joined(row: _Row) -> bool:
    return any("SpaceAfter=No" in field.split("|") for field in row[1])


def _blanks(block: Sequence[_Row], word: int) -> list[bool]:
    """Return before which words a sentence of CoNLL-U has a blank.

    `1-2 don't` before the words `do` and `n't` is what is written.
    """
    joined = {row[1][0]: _is_joined(row) for row in block}
    forms = {fields[0]: fields[word] for _, fields in block}
    for number in [number for number in forms if "-" in number]:
        first, last = map(int, number.split("-"))
        end = min(last, first + len(block)) + 1
        parts = [str(n) for n in range(first, end)]
        written = "".join(forms.get(part, "") for part in parts)
        joined |= dict.fromkeys(parts, written == forms[number])
        joined[str(last)] = joined[number]
    after = [not joined[number] for number in forms if number.isdecimal()]
    return [False, *after[:-1]]


def _are_numbered(rows: Sequence[_Row]) -> bool:
    """Tell whether the first column counts words as CoNLL-U does.

    There, `1-2` before word 1 is divided into words, and `2.1` after word 2 is
    not written. The count may go on from the sentence before.
    """
    begin = re.fullmatch(r"(\d+)(-\d+)?", rows[0][1][0])
    start = word = max(0, int(begin[1]) - 1) if begin else 0
    unwritten = 0
    for _, (number, *_) in rows:
        if number == f"{word + 1}":
            word, unwritten = word + 1, 0
        elif number == f"{word}.{unwritten + 1}":
            unwritten += 1
        elif not re.fullmatch(rf"{word + 1}-\d+", number):
            return False
    return word > start


def _blocks(path: str) -> Iterator[list[_Row]]:
    """Yield the rows between empty lines.

    Comments and marks of documents are left out. A comment stands before the
    words, and has not their number of columns.
    """
    lines = enumerate((fields for _, fields in rows.read_rows(path)), 1)
    for is_empty, group in itertools.groupby(
        lines, lambda line: not "\t".join(line[1]).strip(" ")
    ):
        if is_empty:
            continue
        block = _without_comments(group)
        for number, (line, fields) in enumerate(block):
            if len(fields) == 1:
                block[number] = line, [f for f in fields[0].split(" ") if f]
        words = [
            (number, fields)
            for number, fields in _without_comments(block)
            if not fields[0].startswith(_DOCUMENT)
        ]
        if words:
            yield words


def _without_comments(block: Iterable[_Row]) -> list[_Row]:
    block = list(block)
    width = len(block[-1][1])
    while block[0][1][0].startswith("#") and len(block[0][1]) != width:
        del block[0]
    return block


def _column(name: str, wanted: int, width: int, place: str) -> int:
    if not 0 < abs(wanted) <= width:
        raise errors.UserError(
            f"`{name}={wanted}` is not there: {place} has the columns 1 to "
            f"{width}. Choose one of them; -1 is the last."
        )
    return wanted - 1 if wanted > 0 else width + wanted


def _of_words(
    guid: Any,
    written: Sequence[str],
    tags: tuple[str, ...] | None,
    places: Sequence[str],
    blanks: Sequence[bool] | None = None,
) -> TaggedText:
    for word, place in zip(written, places, strict=True):
        if not word:
            raise errors.UserError(
                f"{place}: the word is empty. Write it, or leave the line out."
            )
        if _NOT_IN_WORDS & {*word}:
            raise errors.UserError(
                f"{place}: the word {word!r} has a tab or a line end. Remove "
                "it: files of predictions have a word in each line."
            )
    text, starts = words.join(written, blanks)
    pairs = zip(starts.tolist(), written, strict=True)
    spans = tuple((start, start + len(word)) for start, word in pairs)
    return TaggedText(guid, text, spans, tags)


# What happens to spans, in the order of `_Counts`.
_REMARKS = (
    "%s: %d spans do not stand at their start and end, and are moved to the "
    "nearest place of their text. These are numbers of characters, not of "
    "bytes or UTF-16 units. The first: %s",
    "%s: %d texts have a span that begins or ends inside a word; it is "
    "widened. The first: %s",
    "%s: %d spans are left out, since the word that they are in has the tag of "
    "the span before. The first: %s",
)
_Counts = tuple[int, int, int]


def _objects(path: str, *, needs_tags: bool) -> Iterator[_Read]:
    remarks: list[list[str]] = [[] for _ in _REMARKS]
    for number, entry in enumerate(rows.read_objects(path), 1):
        entry = dataclasses.replace(entry, key={"object": number})
        has_words = "words" in entry.values
        if not has_words and "text" not in entry.values:
            entry.require(["text", "spans"], "It needs 'words' and 'tags', or")
        if needs_tags:
            name = "tags" if has_words else "spans"
            entry.require([name])
            if entry.values[name] is None:
                raise errors.UserError(
                    f"{entry.where}: {name!r} is null. Write a list: [] where "
                    "there are none."
                )
        example, (num_moved, num_widened, num_lost) = _object(entry)
        counts = num_moved, num_widened > 0, num_lost
        for places, count in zip(remarks, counts, strict=True):
            places += [entry.where] * count
        yield example, [entry.where] * len(example.words)
    for remark, places in zip(_REMARKS, remarks, strict=True):
        if places:
            logging.warning(remark, path, len(places), places[0])


def _object(entry: rows.Row) -> tuple[TaggedText, _Counts]:
    """Return an example, and how many of its spans each remark is about."""
    guid, values, where = entry.guid, entry.values, entry.where
    if "words" in values:
        written = rows.text_list(values["words"], "words", where)
        tags = None
        if values.get("tags") is not None:
            given = rows.text_list(values["tags"], "tags", where)
            tags = tuple(_tag(tag, where) for tag in given)
            if len(tags) != len(written):
                raise errors.UserError(
                    f"{where}: {len(written)} words, but {len(tags)} tags. "
                    "Each word needs one."
                )
        places = [where] * len(written)
        return _of_words(guid, written, tags, places), (0, 0, 0)
    (text,) = entry.texts(["text"])
    example = TaggedText.of_text(guid, text)
    if values.get("spans") is None:
        return example, (0, 0, 0)
    spans, num_moved = _checked_spans(values["spans"], text, where)
    example, counts = with_spans(example, spans)
    return example, (num_moved, *counts)


def with_spans(
    example: TaggedText, spans: Iterable[tuple[int, int, str]]
) -> tuple[TaggedText, tuple[int, int]]:
    """Give tags of BIO to the words that spans touch.

    A word that two spans touch belongs to the first.

    Args:
        spans: Start, end and label of each, in their order.

    Returns:
        The example, and how many spans do not begin and end with words, and how
        many have no word of their own.
    """
    tags = [portable.OUTSIDE] * len(example.words)
    num_widened = num_lost = 0
    rest = iter(enumerate(example.words))
    word = next(rest, None)
    for start, end, label in spans:
        touched = []
        while word and word[1][0] < end:
            if word[1][1] > start:
                touched.append(word)
            word = next(rest, None)
        if not touched:
            num_lost += 1
            continue
        for number, _ in touched:
            tags[number] = f"{'I' if number != touched[0][0] else 'B'}-{label}"
        stripped = example.text[start:end].strip()
        covered = example.text[touched[0][1][0] : touched[-1][1][1]]
        num_widened += covered != stripped
    tagged = dataclasses.replace(example, tags=tuple(tags))
    return tagged, (num_widened, num_lost)


def _checked_spans(
    spans: Any, text: str, where: str
) -> tuple[list[tuple[int, int, str]], int]:
    """Return start, end and label of each span, and how many were moved."""
    checked = []
    num_moved = 0
    for span in spans if isinstance(spans, list) else [spans]:
        shown = strict_json.brief(span)
        values = span if isinstance(span, dict) else {}
        start, end, label = (values.get(n) for n in ("start", "end", "label"))
        if not (
            isinstance(start, int)
            and isinstance(end, int)
            and isinstance(label, str)
            and label.strip()
        ):
            raise errors.UserError(
                f"{where}: the span {shown} must have a start and an end, "
                "numbers of characters, and a label. Correct it."
            )
        part = values.get("text")
        is_there = start >= 0 and text[start:end].strip() == str(part).strip()
        if isinstance(part, str) and not is_there:
            start = words.nearest(text, part.strip(), start)
            end = start + len(part.strip())
            num_moved += 1
            if start < 0:
                raise errors.UserError(
                    f"{where}: the text of the span {shown} does not stand in "
                    "that of the line. Correct it, or leave it out."
                )
        is_inside = 0 <= start < end <= len(text)
        if not (is_inside and text[start:end].strip()):
            raise errors.UserError(
                f"{where}: the span {shown} is empty, white space, or outside "
                f"of the text, which has {len(text)} characters. Correct it."
            )
        checked.append((start, end, _tag(label, where)))
    checked.sort()
    for (_, end, _), (start, _, _) in itertools.pairwise(checked):
        if start < end:
            raise errors.UserError(
                f"{where}: two spans overlap at character {start}. A word has "
                "one tag: keep one of them."
            )
    return checked, num_moved
