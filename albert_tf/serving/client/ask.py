"""Ask a SavedModel: lines to requests, batches of them to answers.

Nothing here knows the model: what a request must hold is read from the
signature. So neither Keras nor the network is built, only TensorFlow and TF
Text are loaded.
"""

import dataclasses
import functools
import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's operations.

from albert_tf.common import errors, files, prompts, rows, strict_json
from albert_tf.text import words

# The inputs of a signature, by name: 1 text, or a list of this length; 0 for a
# text that may be given as words.
Inputs = Mapping[str, int]
Arrays = Mapping[str, np.ndarray]  # By name; texts are objects.
REPORT_NAME = "export.json"  # What an export says about itself.
# Folders that are no SavedModel: a file that shows it, and the advice.
# Written out: most of the files that know these names would load the network.
_OTHERS = {
    **dict.fromkeys(
        ("run_options.json", "scores.json"),
        "It is the folder of a run: export it with albert_tf.export, or ask it "
        "with albert_tf.predict and its `run_dir`.",
    ),
    "model.json": "It is an export for LiteRT or ONNX Runtime; export with "
    "`format=saved_model`.",
}
# What TensorFlow raises for a graph that it cannot read.
_DAMAGED = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    tf.errors.OpError,
)
_MOST_SHOWN = 300  # Characters of a message of TensorFlow.
# Its last line, without what names the operation.
_REASON = re.compile(
    r"^(?:assertion failed: \[)?([^\n]+?)(?:\.*\s*\] \[[^\n]*)?\n\t \[\[", re.M
)


@dataclasses.dataclass(frozen=True)
class Request:
    """One thing to ask."""

    key: dict[str, Any]  # Tells its answer apart: the `id`, else the `line`.
    texts: dict[str, Any]  # By the name of the input, a text or a list.
    words: Sequence[str] = ()  # What the text was joined from.
    row: rows.Row | None = dataclasses.field(default=None, compare=False)


class Signature:
    """A signature of a SavedModel."""

    def __init__(
        self, model: Any, name: str, prompt: str | None = None
    ) -> None:
        """Open a signature; a `prompt` given here is no input any more."""
        # The function alone does not keep the model's weights alive.
        self._model = model
        self._function = model.signatures[name]
        specs = self._function.structured_input_signature[1]
        self._prompt = prompt
        left_out = () if prompt is None else ("prompt",)
        self.specs: Mapping[str, tf.TensorSpec] = {
            n: spec for n, spec in sorted(specs.items()) if n not in left_out
        }
        self.outputs: Sequence[str] = sorted(self._function.structured_outputs)

    @property
    def inputs(self) -> Inputs:
        """The inputs, if all of them are texts."""
        one = 0 if "num_spans" in self.outputs else 1
        return {
            name: one if spec.shape.rank == 1 else spec.shape[1]
            for name, spec in self.specs.items()
        }

    def __call__(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Return the answer to each request: its key, and all outputs.

        Where the model refuses its texts, it is an `error`.
        """
        texts = {
            name: np.array([request.texts[name] for request in requests], "O")
            for name in self.specs
        }
        try:
            found = split(self.compute(texts), [1] * len(requests))
        except tf.errors.InvalidArgumentError as error:
            if len(requests) > 1:
                return [answer for one in requests for answer in self([one])]
            (request,) = requests
            if request.row is None:
                raise
            place = request.row
            key = {**rows.key_of(place.guid), **place.key}
            message = f"{place.where}: {extract_reason(error)}"
            return [rows.BadLine(key, message).answer]
        return [
            {**request.key, **readable(row, request.words)}
            for request, row in zip(requests, found, strict=True)
        ]

    def compute(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return all outputs for arrays of the shapes and dtypes of `specs`."""
        tensors = {name: tf.constant(inputs[name]) for name in self.specs}
        if self._prompt is not None:
            tensors["prompt"] = tf.fill(tensors["text"].shape, self._prompt)
        outputs = self._function(**tensors)
        return {name: outputs[name].numpy() for name in self.outputs}


def extract_reason(error: tf.errors.OpError) -> str:
    """Return what TensorFlow says, without what names the operation."""
    last = _REASON.search(error.message)
    return (last[1] if last else error.message)[:_MOST_SHOWN]


def split(outputs: Arrays, sizes: Sequence[int]) -> list[Arrays]:
    """Divide the outputs of a batch into those of its requests.

    Args:
        outputs: [batch, ...]; of `mlm` [batch * n, ...].
        sizes: Rows of each request; their sum is the batch.

    Raises:
        ValueError: An output has no row for each row of the batch.
    """
    total, parts = sum(sizes), [dict[str, np.ndarray]() for _ in sizes]
    for name, value in outputs.items():
        if not value.ndim or len(value) % total:
            raise ValueError(f"{name} has no row for each of {total} inputs.")
        ends = np.cumsum(sizes) * (len(value) // total)
        rows = np.split(value, ends[:-1])
        for part, values in zip(parts, rows, strict=True):
            part[name] = values
    return [_without_filling(part) for part in parts]


def join(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Undo `split`; masks and spans are filled up to the most of a part."""
    joined = {}
    for name, first in parts[0].items():
        values = [part[name] for part in parts]
        most = np.max([value.shape for value in values], 0)
        filling = b"" if first.dtype == object else 0
        padded = [
            np.pad(
                value,
                [(0, 0), *((0, n) for n in (most - value.shape)[1:])],
                constant_values=filling,
            )
            for value in values
        ]
        joined[name] = np.concatenate(padded)
    return joined


def _without_filling(outputs: Arrays) -> Arrays:
    """Leave out what fills up masks or spans to those of other requests."""
    if "pieces" in outputs:
        names: Sequence[str] = ("pieces", "probabilities")
        count = (outputs["pieces"][..., 0] != b"").sum(1).max()
    elif "num_spans" in outputs:
        names = [name for name in outputs if name.startswith("span_")]
        count = outputs["num_spans"].max()
    else:
        return outputs
    return {**outputs, **{name: outputs[name][:, :count] for name in names}}


def one_row(row: Arrays) -> dict[str, Any]:
    """Return the outputs for one row of inputs as lists, numbers and texts."""
    return {
        name: plain(row[name] if len(row[name]) != 1 else row[name][0])
        for name in sorted(row)
    }


def readable(row: Arrays, joined: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same with spans as objects, and labels without filling.

    Spans of a text that was joined from words are spans of these.
    """
    answer = one_row(row)
    if "predicted" in answer:  # Filled up with empty labels.
        answer["predicted"] = [*filter(None, answer["predicted"])]
    if "num_spans" in answer:  # Lists `span_start`, `span_end`, ...
        count = answer.pop("num_spans")
        names = [name for name in answer if name.startswith("span_")]
        lists = {n.removeprefix("span_"): answer.pop(n) for n in names}
        answer["spans"] = [
            {name: values[i] for name, values in lists.items()}
            for i in range(count)
        ]
        if joined:
            answer["spans"] = words.snap(answer["spans"], joined)
    return answer


def open_model(path: str) -> Any:
    files.refuse_file(path, "saved_model")
    if not files.exists(files.safe_join(path, "saved_model.pb")):
        advice = "Name what albert_tf.export wrote, such as served/rte/1."
        for name, mend in _OTHERS.items():
            if files.exists(os.path.join(path, name)):
                advice = mend
        for name in glob.iglob("[0-9]*/saved_model.pb", root_dir=path):
            advice = f"Name a version of it, such as {os.path.dirname(name)}."
        raise errors.UserError(
            f"`saved_model={path}` is no SavedModel: it has no saved_model.pb. "
            f"{advice}"
        )
    if not files.is_remote(path):
        for name in glob.iglob("**", root_dir=path, recursive=True):
            files.safe_join(path, name)
    try:
        return tf.saved_model.load(path)
    except _DAMAGED as error:
        raise errors.UserError(
            f"`saved_model={path}` cannot be loaded: {error}. It is damaged or "
            "incomplete. Copy it again, or export it again."
        ) from None


def warn_of_prompts(path: str) -> None:
    """Warn if an export with prompts puts none before texts by itself."""
    given = _prompting(path)
    prompts.warn(given, "predict takes `prompt`; or ask `prompted`.")


def _prompting(path: str) -> prompts.PromptOptions:
    """Return what an export's report says of prompts."""
    report = files.safe_join(path, REPORT_NAME)
    if not files.exists(report):
        return prompts.NONE
    about = strict_json.read_object(report, "Export the model again.")
    return prompts.PromptOptions.from_dict(about.get("options", {}))


def load(path: str, name: str, prompt: str | None = None) -> Signature:
    """Load a signature of texts; `prompt` names that of all texts."""
    model = open_model(path)
    if prompt is not None:
        if "prompted" not in model.signatures:
            raise errors.UserError(
                f"`prompt={prompt}` is for a model with prompts, and that in "
                f"{path} has none. Leave it out."
            )
        if prompt and (texts := _prompting(path).texts):
            errors.require_known("prompt", [prompt], texts)
        return Signature(model, "prompted", prompt)
    if name != "prompted":
        warn_of_prompts(path)
    signatures = {n: Signature(model, n) for n in sorted(model.signatures)}
    usable = [
        key
        for key, signature in signatures.items()
        if all(spec.dtype == tf.string for spec in signature.specs.values())
    ]
    if name not in usable:
        reason = "does not exist"
        if name in signatures:
            reason = "takes ids, not texts"
        raise errors.UserError(
            f"`signature={name}` {reason} in {path}. Those that take texts are "
            f"{', '.join(usable) or 'none'}."
        )
    return signatures[name]


def plain(value: Any) -> Any:
    """Return an array as lists, and texts, which are bytes, as such."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(item) for item in value]
    return value.tolist()


def read(
    lines: Iterable[bytes], name: str, inputs: Inputs
) -> Iterator[Request | rows.BadLine]:
    """Yield the request of each entry; see `rows.read`.

    One that is no request becomes a `BadLine`.
    """
    parse = functools.partial(_request, inputs)
    requests = rows.read(lines, name, list(inputs), parse)
    first = list(itertools.islice(requests, 1))
    rows.require_examples(first, name)
    yield from itertools.chain(first, requests)


def _request(inputs: Inputs, entry: rows.Row) -> list[Request]:
    key = rows.key_of(entry.guid)
    if [*inputs] == ["text"]:
        prompts.warn_of_names(entry.values)
    if text := join_words(entry.values, inputs, entry.where):
        joined = entry.values["words"]
        return [Request({**key, **text}, text, joined, row=entry)]
    entry.require(inputs, "The signature needs")
    texts: dict[str, Any] = {}
    for name, count in inputs.items():
        value, place = entry.values[name], f"{entry.where}: {name!r}"
        if count <= 1:
            texts[name] = _text(value, place)
            continue
        options = value if isinstance(value, list) else []
        if len(options) > count or len(options) - options.count("") < 2:
            raise errors.UserError(
                f"{place} is {strict_json.brief(value)}; it must be a list of "
                f"2 to {count} texts, where an empty one stands for none. "
                "Correct the line."
            )
        texts[name] = [
            _text(item, f"{place}, number {i}")
            for i, item in enumerate(options)
        ] + [""] * (count - len(options))
    return [Request(key, texts, row=entry)]


def join_words(values: Any, inputs: Inputs, where: str) -> dict[str, str]:
    """Return the `text` of `words`, for signatures that take these, too."""
    is_object = isinstance(values, dict)
    if 0 not in inputs.values() or not (is_object and "words" in values):
        return {}
    written = rows.text_list(values["words"], "words", where)
    return {"text": words.join(written)[0]}


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise errors.UserError(
            f"{place} is {strict_json.brief(value)}; it must be a text. "
            "Correct the line."
        )
    return value
