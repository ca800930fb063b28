"""Models that take ids, for other runtimes than TensorFlow.

Such an export is a folder: the network in one file, the vocabulary, and a small
JSON file that says what goes in and what comes out. Text is cut into pieces
outside, by answer.py, which is copied into the folder with the rules that it
needs: the other runtimes have no operations for it. lite_model.py and
onnx_model.py each describe one format.
"""

import dataclasses
import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.common import files, packages, strict_json
from albert_tf.model.config import AlbertConfig
from albert_tf.serving.formats import answer
from albert_tf.serving.services import service
from albert_tf.text import (
    cleaning,
    huggingface_rules,
    offsets,
    tokenization,
    wordpiece_rules,
)
from albert_tf.training import run_folder

DESCRIPTION_NAME = "model.json"
# An import in what is copied: the package, the modules.
_IMPORT = re.compile(r"^from (albert_tf\.\S+) import (.+)$", re.MULTILINE)

Arrays = Mapping[str, np.ndarray]
# Takes the name of a function and inputs, and returns outputs.
Ask = Callable[[str, Arrays], Arrays]
# tf.functions with fixed inputs, by name.
Functions = dict[str, Any]

# The random input of the comparison: rows, and tokens at most.
_TRIED_ROWS, _TRIED_TOKENS = 2, 64


class Format(NamedTuple):
    """A format of a network, as functions."""

    name: str  # What the option `format` calls it.
    file_name: str  # Of the network.
    modules: tuple[str, ...]  # That must be installed.
    install: str  # The packages that have them.
    # What is converted of a service.
    functions: Callable[[service.Service], Functions]
    # Takes these functions, the model and a path, and writes there.
    convert: "Callable[[Functions, IdModel, str], None]"
    open: Callable[[str], Ask]  # Takes the path.

    def require(self, argument: str | None = None) -> None:
        packages.require(
            *self.modules,
            install=f"pip install {self.install}",
            argument=argument or f"format={self.name}",
        )


@dataclasses.dataclass(frozen=True)
class IdModel:
    """A service whose tokenizer stays outside."""

    service: service.Service  # It computes in float32.
    vocabulary: tokenization.VocabularyOptions
    # Or int8: kernels and tables are 8-bit numbers in the file, and what is
    # multiplied with a kernel becomes so on the way, by its own range: no data
    # is needed. Or int8_weights: the file alone has 8-bit numbers.
    precision: str = "float32"
    # More to be written down, beside `text_options` of the service.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Real inputs of `tokens`, for int8 in ONNX: see `onnx_int8.quantize`.
    texts: Sequence[Arrays] = ()


def save(id_model: IdModel, path: str, form: Format) -> dict[str, Any]:
    """Write the network, its vocabulary and its description.

    The network is run with random ids. The largest difference of each output
    from that of the service is logged and written to the description.

    Returns:
        What the file `DESCRIPTION_NAME` says: `format`, `precision`, `service`
        (its class); `decoder`, the module beside answer.py that knows the task,
        if any, and the outputs that it reads; `functions`, by name, each with
        `inputs` and `outputs` (dtype, and shape with null for what may vary)
        and `largest_difference`, for each output of floating point;
        `max_positions` and `max_seq_length` (tokens); `texts` that a sequence
        is made of; `labels`, in the order of the logits; `special_ids`;
        `vocabulary`, its file and how it is used, with `replaced_ids`, see
        `tokenization.Tokenizer.digit_comma_ids`; `options`, see
        `Service.text_options`; `sha256` of the network and the vocabulary.
    """
    functions = form.functions(id_model.service)
    files.make_folder(path)
    network = os.path.join(path, form.file_name)
    with files.name_full_disk(network):
        form.convert(functions, id_model, network)
    description = _describe(id_model, form.name)
    config = id_model.service.encoder.config
    largest = compare(functions, config, form.open(network))
    logging.info("%s differs by %s", form.name, largest)
    description["functions"] = {
        name: {**_signature(function), "largest_difference": largest[name]}
        for name, function in functions.items()
    }
    name = str(run_folder.copy_vocabulary(id_model.vocabulary, path))
    _copy_program(path, name, id_model.service)
    description["sha256"] = {
        each: files.sha256(os.path.join(path, each))
        for each in (form.file_name, name)
    }
    text = strict_json.dumps(description, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(path, DESCRIPTION_NAME), text)
    return description


def _copy_program(
    folder: str, vocabulary: str, served: service.Service
) -> None:
    """Copy answer.py and what it imports; the vocabulary gets its own form."""
    is_wordpiece = vocabulary == run_folder.VOCABULARY_NAMES["vocab_file"]
    modules = [answer, wordpiece_rules if is_wordpiece else cleaning]
    if served.reads_offsets and not is_wordpiece:
        modules.append(offsets)
    if served.portable:
        modules.append(served.portable)
    contents = {}
    for module in modules:  # Also those that are found on the way.
        path = str(module.__file__)
        content = files.read_bytes(path).decode()
        for package, names in _IMPORT.findall(content):
            modules += [
                importlib.import_module(f"{package}.{name}")
                for name in names.split(", ")
            ]
        # There they are no package.
        alone = _IMPORT.sub(r"import \2", content)
        name = f"{_decoder(served)}.py"
        if module is not served.portable:
            name = os.path.basename(path)
        contents[name] = alone.encode()
    path = os.path.join(folder, vocabulary)
    contents[vocabulary] = huggingface_rules.content_of(path)
    files.write_together(
        {os.path.join(folder, name): new for name, new in contents.items()}
    )


def _decoder(served: service.Service) -> str | None:
    """Return what a folder calls the module that knows a task."""
    if served.portable is None:
        return None
    *_, folder, _ = served.portable.__name__.split(".")
    return f"answer_{folder}"


def sample(function: Any, config: AlbertConfig) -> dict[str, np.ndarray]:
    """Return random sequences for a function, the last of them padded.

    Ids are random and the same each time; what else goes in is 0.
    """
    length = min(_TRIED_TOKENS, config.max_position_embeddings)
    inputs = {}
    for spec in function.input_signature:
        shape = [_TRIED_ROWS, *spec.shape[1:-1], length]
        inputs[spec.name] = np.zeros(shape, np.int32)
    ids = inputs["input_ids"]
    generator = np.random.default_rng(0)
    ids[:] = generator.integers(config.vocab_size, size=ids.shape)
    mask = inputs["input_mask"]
    mask[:] = 1
    mask[-1, ..., length // 2 :] = 0
    return inputs


def ask(function: Any, inputs: Arrays) -> Arrays:
    """Return the outputs of a tf.function with fixed inputs."""
    names = [spec.name for spec in function.input_signature]
    outputs = function(*(tf.constant(inputs[name]) for name in names))
    return {name: value.numpy() for name, value in outputs.items()}


def differences(
    function: Any, inputs: Arrays, answers: Arrays
) -> dict[str, float]:
    """Return the largest differences of answers from a function's.

    Only for outputs of floating point.
    """
    return {
        name: float(np.max(np.abs(value - answers[name])))
        for name, value in sorted(ask(function, inputs).items())
        if value.dtype.kind == "f"
    }


def compare(
    functions: Functions, config: AlbertConfig, ask: Ask
) -> dict[str, dict[str, float]]:
    """Return `differences` of what `ask` says about samples, by function."""
    largest = {}
    for name, function in functions.items():
        inputs = sample(function, config)
        largest[name] = differences(function, inputs, ask(name, inputs))
    return largest


def _describe(id_model: IdModel, format_name: str) -> dict[str, Any]:
    """Return the description without what is measured; see `save`."""
    asked = id_model.service
    tokenizer = tokenization.load(id_model.vocabulary)
    kind = str(id_model.vocabulary.kind)
    outputs: Sequence[str] = asked.read_outputs
    if "windows" in asked.text_options:
        outputs = ("logits",)
    replaced: dict[str, Any] = {}
    if not isinstance(tokenizer, tokenization.Tokenizer):
        replaced["longest_word"] = tokenizer.longest_word
    else:
        table = tokenizer.digit_comma_ids.items()
        replaced["replaced_ids"] = {str(id_): new for id_, new in table}
        if asked.reads_offsets:
            table = tokenizer.digit_comma_lengths.items()
            replaced["replaced_lengths"] = {str(id_): n for id_, n in table}
    return {
        "format": format_name,
        "precision": id_model.precision,
        "service": asked.kind or type(asked).__name__,
        "decoder": {"module": _decoder(asked), "outputs": list(outputs)},
        "max_positions": asked.encoder.config.max_position_embeddings,
        "max_seq_length": asked.max_seq_length,
        "texts": list(asked.texts),
        "read_whole": asked.read_whole,
        "labels": list(getattr(asked, "labels", ())),
        "special_ids": {
            name: getattr(tokenizer, f"{name}_id")
            for name in ("pad", "unk", "cls", "sep", "mask")
        },
        "vocabulary": {
            kind: run_folder.VOCABULARY_NAMES[kind],
            **tokenizer.settings,
            **replaced,
        },
        "options": {**id_model.options, **asked.text_options},
    }


def _signature(function: Any) -> dict[str, Any]:
    specs = {spec.name: spec for spec in function.input_signature}
    outputs = function.get_concrete_function().structured_outputs
    return {
        key: {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in values.items()
        }
        for key, values in (("inputs", specs), ("outputs", outputs))
    }
