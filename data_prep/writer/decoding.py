"""Decode blocks of bytes into lines of text, in any process."""

import contextlib
import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from albert_tf.common import errors, strict_json
from data_prep.writer import corpus, sentences, text_lines


def decode_lines(
    block: corpus.Block,
    options: corpus.CorpusOptions,
    clean: Callable[[str], str] = str.strip,
) -> tuple[list[str], dict[str, int]]:
    r"""Decode a block; `clean` is the tokenizer's cleaning of a line.

    Example:
        text b"one\ntwo\n\nthree\n" gives ["one", "two", "", "three"]; so do
        the JSON objects {"text": "one\ntwo"} and {"text": "three"}

    Returns:
        The lines without "\n", and counts of bad ones: "lines_skipped",
        "lines_replaced". A line is empty, and ends a document, if nothing is
        left of it after cleaning; the lines of a JSON object are never empty.
        DIFFERS: with a WordPiece vocabulary only a line of white space is empty
        in the original; here also a line that holds only zero-width or control
        characters, or accents.
    """
    counts = {"lines_skipped": 0, "lines_replaced": 0}
    if options.is_text:
        lines = _decode_text(block, options, counts)
        if options.input_format == "dialogues":
            lines = _only_turns(lines, block, options, counts)
        return lines, counts
    lines = []
    for text in _decode_json(block, options, counts):
        lines += [line for line in text if _is_visible(line, clean)]
        lines.append("")
    return lines, counts


def _decode_text(
    block: corpus.Block, options: corpus.CorpusOptions, counts: dict[str, int]
) -> list[str]:
    if text_lines.count_controls(block.text) <= text_lines.MOST_CONTROLS:
        with contextlib.suppress(UnicodeDecodeError):
            return block.text.decode("utf-8").split("\n")[:-1]
    decoded = []
    stored = block.text.split(b"\n")[:-1]
    for place, line in enumerate(stored):
        is_text = line != text_lines.TOO_LONG and not text_lines.is_binary(line)
        with contextlib.suppress(UnicodeDecodeError):
            if is_text:
                decoded.append(line.decode("utf-8"))
                continue
        if options.on_bad_line == "fail":
            raise _bad_line(block, stored, place)
        if options.on_bad_line == "replace" and is_text:
            decoded.append(line.decode("utf-8", "replace"))
            counts["lines_replaced"] += 1
        else:
            counts["lines_skipped"] += 1
    return decoded


def _only_turns(
    lines: Sequence[str],
    block: corpus.Block,
    options: corpus.CorpusOptions,
    counts: dict[str, int],
) -> list[str]:
    """Return turns of dialogues, and empty lines; others are bad lines."""
    found = []
    for place, line in enumerate(lines):
        if line[:2] in ("Q\t", "R\t") or not line.strip():
            found.append(line)
        elif options.on_bad_line == "fail":
            raise errors.UserError(
                f"{_tell(block, place)} is no turn of a dialogue: it begins "
                f"with {line[:10]!r}. With --input_format=dialogues a line is "
                "Q or R, a tab and the text. Correct the line, or leave such "
                "lines out with --on_bad_line=skip."
            )
        else:
            counts["lines_skipped"] += 1
    return found


def _tell(block: corpus.Block, place: int) -> str:
    """Name file and line; `place` is the line's number in the block."""
    return text_lines.tell_line(block.path, block.first_line + place)


def _bad_line(
    block: corpus.Block, lines: list[bytes], place: int
) -> errors.UserError:
    """Return the error for a line; `place` is its number in the block."""
    remedy = " Or leave such lines out with --on_bad_line=skip."
    return text_lines.bad_line(lines, place, _tell(block, place), remedy)


def _decode_json(
    block: corpus.Block, options: corpus.CorpusOptions, counts: dict[str, int]
) -> Iterator[Iterable[str]]:
    """Yield the lines of each object."""
    cut: Callable[[str], Iterable[str]] = functools.partial(str.split, sep="\n")
    if options.split_sentences:
        cut = functools.partial(split_text, language=options.language)
    records = block.text.split(b"\n")[:-1]
    for place, record in enumerate(records):
        if not record.strip():
            continue
        try:
            text = _read_record(record, options, counts)
        except UnicodeDecodeError as error:
            raise _bad_line(block, records, place) from error
        except ValueError as error:
            raise _not_a_record(block, place, options, error) from error
        if text is not None:
            yield cut(text)


def _read_record(
    record: bytes, options: corpus.CorpusOptions, counts: dict[str, int]
) -> str | None:
    """Return the text of a JSON object; None to leave the line out.

    If the line is bad and `on_bad_line` is "fail", that is a `ValueError`.
    """
    try:
        return _parse_record(record.decode("utf-8"), _field(options))
    except ValueError:
        if options.on_bad_line == "fail":
            raise
    if options.on_bad_line == "replace":
        decoded = record.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            whole = strict_json.replace_halves(decoded)
            text = _parse_record(whole, _field(options))
            counts["lines_replaced"] += 1
            return text
    counts["lines_skipped"] += 1
    return None


def _field(options: corpus.CorpusOptions) -> str:
    return options.text_column if options.is_table else options.json_field


def _parse_record(record: str, field: str) -> str:
    """Return the text in a JSON object; a `ValueError` if there is none."""
    value = strict_json.loads(record)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {record[:20]!r}")
    if not isinstance(value.get(field), str):
        known = ", ".join(sorted(map(repr, value))[:9])
        raise ValueError(f"no text in {field!r}; its fields are: {known}")
    text: str = value[field]
    content = text.encode("utf-8", "replace")
    if text_lines.is_binary(content):
        raise ValueError(f"not text: {text_lines.tell_controls(content)}")
    return text


def _not_a_record(
    block: corpus.Block,
    place: int,
    options: corpus.CorpusOptions,
    reason: object,
) -> errors.UserError:
    if options.is_table:
        return errors.UserError(
            f"{text_lines.tell_file(block.path)}: row "
            f"{block.first_line + place} has no usable text in "
            f"--text_column={options.text_column}: {reason}. Correct the row, "
            "or leave such rows out with --on_bad_line=skip."
        )
    return errors.UserError(
        f"{_tell(block, place)} cannot be read with "
        f"--input_format=jsonl --json_field={options.json_field}: {reason}. "
        "Each line must be a JSON object with a text in that field. Correct "
        "the line, name the right field, or leave such lines out with "
        "--on_bad_line=skip."
    )


def _is_visible(line: str, clean: Callable[[str], str]) -> bool:
    """Tell whether something is left of a line after cleaning.

    Cleaning removes some of the characters of the classes C, M and Z, and no
    others. So few lines are cleaned here.
    """
    return any(unicodedata.category(c)[0] not in "CMZ" for c in line) or bool(
        clean(line)
    )


def split_text(text: str, language: str | None = None) -> Iterator[str]:
    r"""Cut a text into sentences, by rules, as split_sentences.py does.

    Example:
        "It was\nlate. We\n\nleft.\n" yields "It was late.", "We", "left."

    Paragraphs are separated by empty lines.
    """
    lines = map(str.split, text.split("\n"))
    for is_filled, words in itertools.groupby(lines, key=bool):
        if is_filled:
            paragraph = " ".join(itertools.chain.from_iterable(words))
            yield from sentences.split_paragraph(paragraph, language)
