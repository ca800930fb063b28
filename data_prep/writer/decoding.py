"""Decode blocks of bytes into lines of text, in any process."""

import contextlib
import dataclasses
import functools
import itertools
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
    decoder = _Decoder(block, options, counts)
    if options.is_text:
        lines = decoder.text()
        if options.input_format == "dialogues":
            lines = decoder.turns(lines)
        return lines, counts
    lines = []
    for text in decoder.objects():
        # Cleaning empties no line with a letter or digit. So few lines are
        # cleaned here.
        lines += [
            line for line in text if any(map(str.isalnum, line)) or clean(line)
        ]
        lines.append("")
    return lines, counts


@dataclasses.dataclass(frozen=True)
class _Decoder:
    """Decodes a block; a place is the number of a line in it."""

    block: corpus.Block
    options: corpus.CorpusOptions
    counts: dict[str, int]  # Of bad lines.

    def text(self) -> list[str]:
        text = self.block.text
        if text_lines.count_controls(text) <= text_lines.MOST_CONTROLS:
            with contextlib.suppress(UnicodeDecodeError):
                return text.decode("utf-8").split("\n")[:-1]
        decoded = []
        stored = text.split(b"\n")[:-1]
        for place, line in enumerate(stored):
            is_long = line == text_lines.TOO_LONG
            is_text = not is_long and not text_lines.is_binary(line)
            with contextlib.suppress(UnicodeDecodeError):
                if is_text:
                    decoded.append(line.decode("utf-8"))
                    continue
            if self.options.on_bad_line == "fail":
                raise self._bad_line(stored, place)
            if self.options.on_bad_line == "replace" and is_text:
                decoded.append(line.decode("utf-8", "replace"))
                self.counts["lines_replaced"] += 1
            else:
                self.counts["lines_skipped"] += 1
        return decoded

    def turns(self, lines: Sequence[str]) -> list[str]:
        """Return turns of dialogues, and empty lines; others are bad lines."""
        found = []
        for place, line in enumerate(lines):
            if line[:2] in ("Q\t", "R\t") or not line.strip():
                found.append(line)
            elif self.options.on_bad_line == "fail":
                raise errors.UserError(
                    f"{self._tell(place)} is no turn of a dialogue: it begins "
                    f"with {line[:10]!r}. With --input_format=dialogues a line "
                    "is Q or R, a tab and the text. Correct the line, or leave "
                    "such lines out with --on_bad_line=skip."
                )
            else:
                self.counts["lines_skipped"] += 1
        return found

    def objects(self) -> Iterator[Iterable[str]]:
        """Yield the lines of each JSON object."""
        cut: Callable[[str], Iterable[str]]
        cut = functools.partial(str.split, sep="\n")
        if self.options.split_sentences:
            language = self.options.language
            cut = functools.partial(split_text, language=language)
        records = self.block.text.split(b"\n")[:-1]
        for place, record in enumerate(records):
            if not record.strip():
                continue
            try:
                text = self._read(record)
            except UnicodeDecodeError as error:
                raise self._bad_line(records, place) from error
            except ValueError as error:
                raise self._not_a_record(place, error) from error
            if text is not None:
                yield cut(text)

    def _read(self, record: bytes) -> str | None:
        """Return the text of a JSON object; None to leave the line out.

        If the line is bad and `on_bad_line` is "fail", that is a `ValueError`.
        """
        options = self.options
        field = options.text_column if options.is_table else options.json_field
        try:
            return _parse_record(record.decode("utf-8"), field)
        except ValueError:
            if options.on_bad_line == "fail":
                raise
        if options.on_bad_line == "replace":
            decoded = record.decode("utf-8", "replace")
            with contextlib.suppress(ValueError):
                whole = strict_json.replace_halves(decoded)
                text = _parse_record(whole, field)
                self.counts["lines_replaced"] += 1
                return text
        self.counts["lines_skipped"] += 1
        return None

    def _tell(self, place: int) -> str:
        number = self.block.first_line + place
        return text_lines.tell_line(self.block.path, number)

    def _bad_line(self, lines: list[bytes], place: int) -> errors.UserError:
        remedy = " Or leave such lines out with --on_bad_line=skip."
        return text_lines.bad_line(lines, place, self._tell(place), remedy)

    def _not_a_record(self, place: int, reason: object) -> errors.UserError:
        if self.options.is_table:
            return errors.UserError(
                f"{text_lines.tell_file(self.block.path)}: row "
                f"{self.block.first_line + place} has no usable text in "
                f"--text_column={self.options.text_column}: {reason}. Correct "
                "the row, or leave such rows out with --on_bad_line=skip."
            )
        return errors.UserError(
            f"{self._tell(place)} cannot be read with --input_format=jsonl "
            f"--json_field={self.options.json_field}: {reason}. Each line must "
            "be a JSON object with a text in that field. Correct the line, "
            "name the right field, or leave such lines out with "
            "--on_bad_line=skip."
        )


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
