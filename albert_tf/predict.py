r"""Predict a file of your own: with a finetuned run, or with a SavedModel.

    python -m albert_tf.predict pairs.tsv --run_dir=runs/rte \
        --output_file=predictions.jsonl

The input is a table whose first row names the columns `text`, `text_pair`
(for tasks with pairs) and, if wanted, `id`; or JSON with these keys: one object
a line, or a list. Where `text` is all that is needed, a line may also be the
text itself. For SQuAD the keys are `question`, `context` and `id`, or the file
has SQuAD's own layout. For RACE it is one article a line, as in `all.txt`,
with or without answers. The output has the prediction and the probabilities
for each: JSON lines, or a table if its name ends in .tsv.

A file is a table if its name ends in .tsv or .csv, in any case, or if its first
line names all inputs, separated by tabs.

    python -m albert_tf.predict --saved_model=served/cola/1 < sentences.txt

The same files are read. The keys, or the columns, are the inputs of the
signature: `text`, `text_pair`; `question`, `context`; `article`, `question`,
`options`.

Each answer has the `id` that was given with it, as it was given, else the
number of its `line` (in a list its `object`); for RACE's articles also that of
its `question`.

Answers are written one after another, in the order of the lines. A line that
cannot be answered gets an `error`, with its `line` and, if it can be read, its
`id`; with --strict the program stops at it. OUTPUT_FILE appears when the last
answer is written. The exit status is 0 if any line was answered.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import tqdm
from absl import logging

from albert_tf.common import (
    errors,
    files,
    imports,
    options,
    outputs,
    packed_vectors,
    ranges,
    rows,
    shared_options,
    streams,
    strict_json,
)
from albert_tf.common.options import checked, option, shown

predictions = imports.later("albert_tf.finetuning.predictions")
ask = imports.later("albert_tf.serving.client.ask")

STANDARD = "-"
# Bytes at the beginning of a file that tell text from other content.
_SNIFFED_BYTES = 65536
# Bytes of one line, which may be a list of many examples.
_MAX_LINE_BYTES = 2**27
_DEFAULT_SIGNATURE = "serving_default"
_Answers = list[dict[str, Any]]
# What readers of tables may take for the end of a cell or a row.
_BREAK = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# Columns that a table of answers may have, beside those of classes.
_COLUMNS = frozenset(["id", "line", "object", "prediction", "error"])


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="run_dir saved_model checkpoint",
    Data="input_file task_module",
    Training="batch_size",
    Output="output_file signature strict overwrite",
)
class PredictOptions:
    """Options of predict."""

    run_dir: str | None = option(
        None,
        "The --output_dir of run_classifier or its siblings.",
        must_exist=True,
    )
    saved_model: str | None = option(
        None, "Instead of --run_dir: the --export_dir of albert_tf.export."
    )
    input_file: str | None = option(
        None,
        "TSV, CSV or JSON lines, without labels; with --run_dir Parquet, too. "
        "- is standard input, the default with --saved_model.",
        positional=True,
    )
    output_file: str = option(
        STANDARD,
        "JSON lines to write, or with --run_dir a table (.tsv). - is standard "
        "output.",
    )
    checkpoint: str | None = option(
        None,
        "Of --run_dir. Default: the best, else the latest.",
        needs="run_dir",
    )
    signature: str | None = option(
        None,
        f"Of --saved_model, such as fill_mask. Default: {_DEFAULT_SIGNATURE}.",
        needs="saved_model",
    )
    prompt: str | None = option(
        None,
        "Vectors of texts: the name of the prompt that all texts get; empty: "
        "none. Default: as the run or the export, if it has one.",
    )
    batch_size: int = option(
        32,
        "Texts, or records, that go through the model together.",
        within=ranges.BATCH,
    )
    # An export has its own.
    given_out: packed_vectors.VectorOptions = options.part(
        packed_vectors.VectorOptions(), needs="run_dir"
    )
    task_module: str | None = shared_options.task_module()
    strict: bool = option(
        False,
        "Whether to stop at the first line that cannot be answered. Otherwise "
        "its answer is an error.",
    )
    overwrite: bool = shared_options.overwrite("--output_file")

    def __post_init__(self) -> None:
        if (self.run_dir is None) == (self.saved_model is None):
            raise errors.UserError(
                "--run_dir and --saved_model: exactly one of the two is "
                "needed. The first is the folder of a finetuned run, the "
                "second one that albert_tf.export wrote."
            )
        if self.prompt is not None and self.signature:
            raise errors.UserError(
                f"--prompt={self.prompt} chooses the signature `prompted`. "
                "Leave --signature out."
            )
        if self.input_file == "":
            allowed = "Name a file" + (
                "." if self.run_dir else ", or leave it out: standard input."
            )
            raise errors.UserError(f"--input_file is empty. {allowed}")
        if self.run_dir and self.input_file in (None, STANDARD):
            raise errors.UserError(
                "--run_dir needs a file as --input_file. Standard input is "
                "read with --saved_model only."
            )
        if self.output_file.lower().endswith(".csv"):
            raise errors.UserError(
                f"--output_file={self.output_file}: tables are written with "
                "tabs. Use a name such as answers.tsv."
            )
        if self.saved_model and rows.is_table(self.output_file):
            raise errors.UserError(
                f"--output_file={self.output_file}: tables are written with "
                "--run_dir only. Use a name such as answers.jsonl."
            )


def run(settings: PredictOptions) -> None:
    path = settings.input_file or STANDARD
    if path == STANDARD:
        streams.require_input()
    if settings.output_file == STANDARD:
        streams.require_output()
    else:
        outputs.check(settings, "output_file", [settings.output_file])
        files.make_folder(os.path.dirname(settings.output_file), "output_file")
    if path != STANDARD and not (settings.run_dir and files.is_remote(path)):
        is_device = pathlib.Path(path).is_char_device()  # A pipe is none.
        if not files.exists(path) or os.path.isdir(path) or is_device:
            files.require_file(path, "input_file")
        is_parquet = path.lower().endswith(rows.PARQUET)
        is_text = not (settings.run_dir and is_parquet)
        if is_text and os.path.isfile(path):
            with files.open_binary(path) as stream:
                if b"\0" in stream.read(_SNIFFED_BYTES):
                    raise errors.UserError(
                        f"--input_file={path} is not text: it has zero bytes. "
                        "Give a file of UTF-8 text, such as JSON lines."
                    )
    ask_all = _ask_run if settings.run_dir else _ask_saved_model
    answers = ask_all(settings, path)
    _write_all(settings.output_file, answers, strict=settings.strict)


def _ask_run(settings: PredictOptions, path: str) -> Iterator[_Answers]:
    assert settings.run_dir is not None
    predictor = predictions.RunPredictor(
        settings.run_dir,
        settings.checkpoint,
        settings.batch_size,
        task_module=settings.task_module,
        changes=options.to_dict(settings.given_out)
        | {"prompt": settings.prompt},
    )
    items = predictor.read(path)
    if settings.strict:
        items = list(rows.raise_bad_lines(items))
    predictor.load()
    for start in range(0, len(items), predictor.group_size):
        yield predictor.answers(items[start : start + predictor.group_size])
    predictor.log_remarks()


def _ask_saved_model(settings: PredictOptions, path: str) -> Iterator[_Answers]:
    assert settings.saved_model is not None
    name = settings.signature or _DEFAULT_SIGNATURE
    signature = ask.load(settings.saved_model, name, settings.prompt)
    source = "standard input" if path == STANDARD else path
    if settings.strict and path != STANDARD and os.path.isfile(path):
        with _open_input(path) as lines:  # Before the first answer.
            for _ in rows.raise_bad_lines(
                ask.read(lines, source, signature.inputs)
            ):
                pass
    # Typed lines are answered one by one.
    is_typed = path == STANDARD and sys.stdin.isatty()
    size = 1 if is_typed else settings.batch_size
    with _open_input(path) as lines:
        items = ask.read(lines, source, signature.inputs)
        if settings.strict:
            items = rows.raise_bad_lines(items)
        while batch := list(itertools.islice(items, size)):
            yield rows.answer_items(batch, signature)


def _write_all(path: str, batches: Iterable[_Answers], *, strict: bool) -> None:
    """Write answers as they come, a table at the end; count the errors."""
    is_table = rows.is_table(path)
    table: _Answers = []
    count, failures = 0, []
    is_shown = path == STANDARD and sys.stdout.isatty()
    bar = tqdm.tqdm(
        disable=is_shown or not sys.stderr.isatty(), unit=" answers"
    )
    with _open_output(path) as stream, bar:
        for answers in batches:
            count += len(answers)
            bar.update(len(answers))
            failures += [a["error"] for a in answers if "error" in a]
            if strict and failures:
                raise errors.UserError(failures[0])
            if is_table:
                table += answers
                continue
            for answer in answers:
                line = strict_json.dumps(answer, ensure_ascii=False) + "\n"
                stream.write(line.encode())
            stream.flush()
        if is_table:
            stream.write(_to_table(table).encode())
        if 0 < count == len(failures):
            raise errors.UserError(
                f"No line can be answered. The first error: {failures[0]}"
            )
    logging.info("Predicted %d examples", count)
    if failures:
        logging.warning(
            "%d of %d answers are errors. The first: %s --strict stops at such "
            "a line.",
            len(failures),
            count,
            failures[0],
        )


@contextlib.contextmanager
def _open_input(path: str) -> Iterator[Iterable[bytes]]:
    if path == STANDARD:
        yield _read_lines(sys.stdin.buffer, "standard input")
    else:
        with files.open_binary(path) as stream:
            yield _read_lines(stream, path)


def _read_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a stream; refuse one that may never end."""
    read = functools.partial(stream.readline, _MAX_LINE_BYTES + 1)
    for number, line in enumerate(iter(read, b""), 1):
        if len(line) > _MAX_LINE_BYTES:
            raise errors.UserError(
                f"{name}: line {number} has more than {_MAX_LINE_BYTES:,} "
                "bytes. Give one example a line, as text."
            )
        yield line


@contextlib.contextmanager
def _open_output(path: str) -> Iterator[IO[bytes]]:
    """Open standard output, or a file that appears when it is complete."""
    if path != STANDARD:
        with files.replace_atomically(path) as stream:
            yield stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except BrokenPipeError:
        streams.drop_output()
        sys.exit(1)


def _to_table(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with a header; each probability has a column of its own.

    It has the name of its class, or, where a class is called as one of the
    other columns, `probabilities.CLASS`. Tabs and line breaks become blanks,
    one for each, so that positions in a text stay.
    """
    classes = {
        key
        for answer in answers
        for name, value in answer.items()
        if _is_nested(name, value)
        for key in value
    }
    clashes = classes & _COLUMNS.union(*answers)
    rows: list[dict[str, Any]] = []
    for answer in answers:
        row: dict[str, Any] = {}
        for name, value in answer.items():
            prefix = f"{name}." if clashes else ""
            if _is_nested(name, value):
                row |= {prefix + key: number for key, number in value.items()}
            else:
                row[name] = value
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    return "".join(
        "\t".join(_BREAK.sub(" ", _to_text(cell)) for cell in line) + "\n"
        for line in lines
    )


def _is_nested(name: str, value: Any) -> bool:
    return isinstance(value, dict) and name != "id"


def _to_text(cell: Any) -> str:
    return cell if isinstance(cell, str) else strict_json.dumps(cell)


if __name__ == "__main__":
    options.run_script(run, PredictOptions)
