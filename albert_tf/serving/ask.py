"""Ask a SavedModel: lines to requests, batches of them to answers.

Nothing here knows the model: what a request must hold is read from the
signature. So neither Keras nor the network is built, only TensorFlow and TF
Text are loaded.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's operations.
from absl import logging

from albert_tf import errors, files, strict_json

# What a signature asks for, by name: 1 text, or a list of so many.
Inputs = Mapping[str, int]
# What is no SavedModel, by a file that shows it, and what to do instead.
# Written out: most of the files that know these names would load the network.
_OTHERS = {
    **dict.fromkeys(
        ("run_options.json", "scores.json"),
        "It is the folder of a run: export it with albert_tf.export, or ask it "
        "with albert_tf.predict --run_dir.",
    ),
    "model.json": "It is an export for LiteRT or ONNX Runtime; export with "
    "--format=saved_model.",
}
# A line that begins so is meant as JSON, even if it is none.
_LIKE_JSON = re.compile(r"\s*(\{|\[\s*(\{|$))")


@dataclasses.dataclass(frozen=True)
class Request:
    """One thing to ask.

    Attributes:
        key: What tells its answer apart: the given `id`, else the `line`.
        texts: By the name of the input, a text or a list of texts.
    """

    key: dict[str, Any]
    texts: dict[str, Any]


class Signature:
    """A signature of a SavedModel that takes texts.

    Attributes:
        inputs: What it asks for.
    """

    def __init__(self, model: Any, name: str) -> None:
        """Look at a signature; see `load`."""
        # The function alone does not keep the model's weights alive.
        self._model = model
        self._function = model.signatures[name]
        specs = self._function.structured_input_signature[1]
        self.inputs: Inputs = {
            key: 1 if spec.shape.rank == 1 else spec.shape[1]
            for key, spec in sorted(specs.items())
        }

    def __call__(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Return the answer to each request: its key, and all outputs."""
        outputs = self._function(
            **{
                name: tf.constant([request.texts[name] for request in requests])
                for name in self.inputs
            }
        )
        values = {name: _plain(outputs[name].numpy()) for name in outputs}
        return [
            {**request.key, **_answer({k: v[row] for k, v in values.items()})}
            for row, request in enumerate(requests)
        ]


def open_model(path: str) -> Any:
    """Load a SavedModel.

    Raises:
        errors.UserError: There is none, or it is damaged.
    """
    if not files.exists(os.path.join(path, "saved_model.pb")):
        advice = (
            "Name the --export_dir of albert_tf.export, such as served/rte/1."
        )
        for name, mend in _OTHERS.items():
            if files.exists(os.path.join(path, name)):
                advice = mend
        raise errors.UserError(
            f"--saved_model={path} is no SavedModel: it has no saved_model.pb. "
            + advice
        )
    try:
        return tf.saved_model.load(path)
    except (OSError, IndexError, tf.errors.OpError) as error:
        raise errors.UserError(
            f"--saved_model={path} cannot be loaded: {error}. It is damaged or "
            "incomplete. Copy it again, or export it again."
        ) from None


def load(path: str, name: str) -> Signature:
    """Load a SavedModel for one of its signatures.

    Raises:
        errors.UserError: There is no SavedModel, no such signature, or it does
            not take texts.
    """
    model = open_model(path)
    usable = [
        key
        for key, function in sorted(model.signatures.items())
        if all(
            spec.dtype == tf.string
            for spec in function.structured_input_signature[1].values()
        )
    ]
    if name not in usable:
        is_known = name in model.signatures
        raise errors.UserError(
            f"--signature={name} "
            + ("takes ids, not texts" if is_known else "does not exist")
            + f" in {path}. Those that take texts are "
            f"{', '.join(usable) or 'none'}."
        )
    return Signature(model, name)


def answers(
    signature: Signature, requests: Iterable[Request], batch_size: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the answers to each `batch_size` requests, in their order."""
    waiting = iter(requests)
    while batch := list(itertools.islice(waiting, batch_size)):
        yield signature(batch)


def _plain(value: Any) -> Any:
    """Return an array as lists, and texts, which are bytes, as such."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == object:
        return [_plain(item) for item in value]
    return value.tolist()


def _answer(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs for one request, by name.

    Rows that only fill up a text with fewer masks than its neighbours in the
    batch are left out: an answer does not depend on its neighbours.
    """
    if "pieces" not in outputs:
        return dict(sorted(outputs.items()))
    count = sum(bool(best) for best, *_ in outputs["pieces"])
    filled = {k: outputs[k][:count] for k in ("pieces", "probabilities")}
    return dict(sorted({**outputs, **filled}.items()))


def read(
    lines: Iterable[bytes], name: str, inputs: Inputs
) -> Iterator[Request]:
    """Yield the request of each line; empty lines are counted and left out.

    Args:
        lines: Of a file, as they come.
        name: Its name, for messages. If it ends in .tsv, the first line names
            the columns of the others.
        inputs: What is needed.

    Raises:
        errors.UserError: A line is no request; the message has its number.
    """
    names: list[str] | None = None
    empty = []
    for number, line in enumerate(lines, 1):
        where = f"{name}, line {number}"
        text = _decode(line, where)
        if number == 1:
            text = text.removeprefix("\ufeff")
            if name.endswith(".tsv"):
                names = text.split("\t")
                continue
        if not text.strip():
            empty.append(number)
        elif names:
            yield _request(_columns(text, names, where), number, inputs, where)
        else:
            yield _request(_entry(text, inputs, where), number, inputs, where)
    if empty:
        logging.warning(
            "%s: left out %d empty lines; the first is line %d. Write an empty "
            'text as {"text": ""}.',
            name,
            len(empty),
            empty[0],
        )


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{where} is not UTF-8 (byte {error.start}). Convert the file "
            "first."
        ) from None


def _columns(text: str, names: Sequence[str], where: str) -> dict[str, str]:
    """Return the fields of a row by the names of their columns."""
    fields = text.split("\t")
    if len(fields) != len(names):
        raise errors.UserError(
            f"{where}: {len(fields)} columns, but the first row names "
            f"{len(names)}. Columns are separated by one tab each."
        )
    return dict(zip(names, fields, strict=True))


def _entry(text: str, inputs: Inputs, where: str) -> dict[str, Any]:
    """Return the JSON object of a line, or the line as the only text."""
    takes_lines = list(inputs) == ["text"]
    if takes_lines and not _LIKE_JSON.match(text):
        return {"text": text}
    try:
        entry = strict_json.loads(text)
    except strict_json.JsonError as error:
        entry = error
    if not isinstance(entry, dict):
        found = f" ({entry})" if isinstance(entry, Exception) else ""
        keys = ", ".join(f'"{name}": ...' for name in inputs)
        raise errors.UserError(
            f"{where} is not one JSON object{found}. Write {{{keys}}}"
            + (', also for a text that begins with "{".' * takes_lines or ".")
        )
    return entry


def _request(
    entry: Mapping[str, Any], number: int, inputs: Inputs, where: str
) -> Request:
    """Take out of an object what the signature asks for."""
    missing = [name for name in inputs if name not in entry]
    if missing:
        raise errors.UserError(
            f"{where} has no {missing[0]!r}; there are "
            f"{', '.join(map(repr, entry)) or 'none'}. The signature needs "
            f"{', '.join(inputs)}."
        )
    texts = {
        name: _text(entry[name], f"{where}: {name!r}")
        if count == 1
        else _texts(entry[name], count, f"{where}: {name!r}")
        for name, count in inputs.items()
    }
    key = {"id": entry["id"]} if "id" in entry else {"line": number}
    return Request(key, texts)


def _text(value: Any, what: str) -> str:
    """Return a text.

    Raises:
        errors.UserError: It is none.
    """
    if not isinstance(value, str):
        raise errors.UserError(
            f"{what} is {strict_json.shown(value)}; it must be a text. Correct "
            "the line."
        )
    return value


def _texts(value: Any, count: int, what: str) -> list[str]:
    """Return a list of texts, filled up with empty ones.

    Raises:
        errors.UserError: It is none, or has another length.
    """
    if not isinstance(value, list) or not 2 <= len(value) <= count:
        raise errors.UserError(
            f"{what} is {strict_json.shown(value)}; it must be a list of 2 to "
            f"{count} texts. Correct the line."
        )
    texts = [_text(item, f"{what}, number {i}") for i, item in enumerate(value)]
    return texts + [""] * (count - len(texts))
