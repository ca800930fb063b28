"""Decode blocks of bytes into lines of text, in any process."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

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
    controls = text_lines.count_controls(block.text)
    if options.input_format == "lines" and controls <= text_lines.MOST_CONTROLS:
        with contextlib.suppress(UnicodeDecodeError):  # Nearly every block.
            return block.text.decode("utf-8").split("\n")[:-1], counts
    decoded = _Decoder(block, options, counts).read()
    if options.is_text:
        return list(decoded), counts
    split: Callable[[str], Iterable[str]]
    split = functools.partial(str.split, sep="\n")
    if options.split_sentences:
        split = functools.partial(split_text, language=options.language)
    lines: list[str] = []
    for text in decoded:
        # Cleaning empties no line with a letter or digit. So few lines are
        # cleaned here.
        lines += [
            line
            for line in split(text)
            if any(map(str.isalnum, line)) or clean(line)
        ]
        lines.append("")
    return lines, counts


@dataclasses.dataclass(frozen=True)
class _Decoder:
    """Decodes the lines of a block: sentences, turns or JSON objects."""

    block: corpus.Block
    options: corpus.CorpusOptions
    counts: dict[str, int]  # Of bad lines.

    def read(self) -> Iterator[str]:
        """Yield the text of each line; treat bad ones by `on_bad_line`."""
        lines = self.block.text.split(b"\n")[:-1]
        for index, line in enumerate(lines):
            if not (self.options.is_text or line.strip()):
                continue
            try:
                text = self._parse(line, is_replaced=False)
            except ValueError as error:
                if self.options.on_bad_line == "fail":
                    raise self._bad_line_error(lines, index, error) from error
                try:
                    if self.options.on_bad_line == "skip":
                        raise
                    text = self._parse(line, is_replaced=True)
                except ValueError:
                    self.counts["lines_skipped"] += 1
                    continue
                self.counts["lines_replaced"] += 1
            yield text

    def _parse(self, line: bytes, *, is_replaced: bool) -> str:
        """Return the text of a line; a bad line raises a `ValueError`.

        It is a `UnicodeError` if the line is not text at all.
        """
        options = self.options
        if options.is_text and (
            line == text_lines.TOO_LONG or text_lines.is_binary(line)
        ):
            raise UnicodeError
        text = line.decode("utf-8", "replace" if is_replaced else "strict")
        if not options.is_text:
            if is_replaced:
                text = strict_json.replace_lone_surrogates(text)
            return _parse_object(text, options.text_field)
        is_turn = text[:2] in ("Q\t", "R\t") or not text.strip()
        if options.input_format == "dialogues" and not is_turn:
            raise ValueError(f"it begins with {text[:10]!r}")
        return text

    def _bad_line_error(
        self, lines: list[bytes], index: int, reason: ValueError
    ) -> errors.UserError:
        number = self.block.first_line + index
        where = text_lines.line_name(self.block.path, number)
        remedy = "leave such lines out with --on_bad_line=skip."
        if isinstance(reason, UnicodeError):
            return text_lines.bad_line(lines, index, where, f" Or {remedy}")
        if self.options.is_text:
            return errors.UserError(
                f"{where} is no turn of a dialogue: {reason}. With "
                "--input_format=dialogues a line is Q or R, a tab and the "
                f"text. Correct the line, or {remedy}"
            )
        if self.options.is_table:
            return errors.UserError(
                f"{text_lines.file_name(self.block.path)}: row {number} has no "
                f"usable text in --text_column={self.options.text_column}: "
                f"{reason}. Correct the row, or leave such rows out with "
                "--on_bad_line=skip."
            )
        return errors.UserError(
            f"{where} cannot be read with --input_format=jsonl "
            f"--json_field={self.options.json_field}: {reason}. Each line must "
            "be a JSON object with a text in that field. Correct the line, "
            f"name the right field, or {remedy}"
        )


def _parse_object(record: str, field: str) -> str:
    """Return the text in a JSON object; a `ValueError` if there is none."""
    value = strict_json.loads(record)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {record[:20]!r}")
    if not isinstance(value.get(field), str):
        fields = ", ".join(sorted(map(repr, value))[:9])
        raise ValueError(f"no text in {field!r}; its fields are: {fields}")
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
