"""What a folder of sentence-transformers has beside its encoder: read, write.

modules.json                the steps from text to vector, in order
sentence_bert_config.json   tokens of a text, at most
1_Pooling/config.json       from the vectors of tokens to one
2_Dense/                    a linear layer, where the model has one
config_sentence_transformers.json  what is put before texts

The steps that this project has are an encoder, a pooling, perhaps one linear
layer, and the division by the length, which has no file.

Source of names and keys: sentence-transformers 6.2.0, and 2.2, which had others
for the pooling; these are written, since 6.2.0 reads them, too.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.common import errors, files, prompts, strict_json
from albert_tf.model.checkpoints import tensor_files

MODULES_NAME = "modules.json"
LENGTH_NAME = "sentence_bert_config.json"
PROMPTS_NAME = "config_sentence_transformers.json"
CONFIG_NAME = "config.json"
_POOLING_CONFIG = f"1_Pooling/{CONFIG_NAME}"
_DENSE_CONFIG = f"2_Dense/{CONFIG_NAME}"
_DENSE_WEIGHTS = f"2_Dense/{tensor_files.WEIGHTS_NAME}"
# What this project writes.
NAMES = (
    MODULES_NAME,
    LENGTH_NAME,
    _POOLING_CONFIG,
    _DENSE_CONFIG,
    _DENSE_WEIGHTS,
)
# The keys of 2.2, one for each pooling, and the names of today.
MODES = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}
SCOPE = "projection"  # Of the linear layer's variables.
IDENTITY = "torch.nn.modules.linear.Identity"
_TANH = "torch.nn.modules.activation.Tanh"  # If nothing else is said.

_TOKENIZER_NAME = "tokenizer_config.json"
_OLD_MODE = "pooling_mode_"
_ADVICE = "Copy or download it again."
_INSTEAD = (
    f"Choose another model, or take {MODULES_NAME} away to use the encoder "
    "alone."
)
_FOLDER = re.compile(r"[\w.-]*", re.ASCII)
_OLD_STEPS = {"BERT": "Transformer", "ALBERT": "Transformer"}
_STEPS = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclasses.dataclass(frozen=True)
class Modules:
    """How an encoder's outputs become a vector.

    Attributes:
        text_pooling: One of `config.TEXT_POOLINGS`.
        max_seq_length: Tokens of a text, at most; None if nothing says so.
        dense: The folder of the linear layer, if there is one.
        prompting: What is put before texts.
        remarks: What a user should know, sentences.
    """

    text_pooling: str
    max_seq_length: int | None = None
    dense: str | None = None
    prompting: prompts.PromptOptions = prompts.NONE
    remarks: tuple[str, ...] = ()


def encoder_folder(folder: str) -> str:
    """Return where a folder's encoder lies: of old ones, in a folder inside."""
    path = files.safe_join(folder, MODULES_NAME)
    first = ""
    if files.exists(path):
        with contextlib.suppress(errors.UserError):  # `read` tells it.
            first = next(iter(_read_steps(path).values()), "")
    place = files.safe_join(folder, first)
    return place if first and files.exists(place) else folder


def _folder_of(encoder: str) -> str:
    """Return the folder above if the encoder is the one inside it."""
    if files.exists(files.safe_join(encoder, MODULES_NAME)):
        return encoder
    is_local = not files.is_remote(encoder)
    path = os.path.abspath(encoder) if is_local else encoder.rstrip("/")
    above = os.path.dirname(path)
    is_inside = files.identity(encoder_folder(above)) == files.identity(encoder)
    return above if is_inside else encoder


def read(folder: str) -> Modules | None:
    """Return what is said beside an encoder; None if there is no modules.json.

    Raises:
        UserError: It has a step that this project does not have.
    """
    encoder, remarks = folder, []
    folder = _folder_of(encoder)
    path = files.safe_join(folder, MODULES_NAME)
    if not files.exists(path):
        return None
    if folder != encoder:
        remarks.append(f"{path} says how vectors are made of {encoder}.")
    steps = _read_steps(path)
    expected = [kind for kind in _STEPS if kind in steps]
    if list(steps) != expected or expected[:2] != list(_STEPS[:2]):
        raise errors.UserError(
            f"{path} has the steps {', '.join(steps) or 'none'}. This project "
            f"has {', '.join(_STEPS)}, in this order, and needs the first two. "
            f"{_INSTEAD}"
        )
    if "Normalize" not in steps:
        remarks.append(
            f"{path} has no step Normalize. Vectors get length 1 here all the "
            "same; their cosines do not change."
        )
    path = files.safe_join(encoder, LENGTH_NAME)
    if files.exists(path) and _read_object(path).get("do_lower_case"):
        remarks.append(
            f"{path} has do_lower_case: sentence-transformers lower-cases "
            "every text. If the vocabulary is cased, do so yourself: this "
            "project does not."
        )
    dense = None
    if "Dense" in steps:
        dense = files.safe_join(folder, steps["Dense"])
        _check_dense(dense)
    path = os.path.join(steps["Pooling"], CONFIG_NAME)
    path = files.safe_join(folder, path)
    pooling = _read_pooling(path)
    prompting = _read_prompts(files.safe_join(folder, PROMPTS_NAME))
    if prompting.texts and _read_object(path).get("include_prompt") is False:
        raise errors.UserError(
            f"{path} has include_prompt=false; this project pools over the "
            f"prompt, too. {_INSTEAD}"
        )
    length = _read_max_length(encoder)
    return Modules(pooling, length, dense, prompting, tuple(remarks))


def _read_steps(path: str) -> dict[str, str]:
    """Return the kinds of the steps in order, each with its folder."""
    modules = strict_json.read(path, _ADVICE)
    try:
        names = [(str(m["type"]), str(m["path"])) for m in modules]
    except (TypeError, KeyError):
        names = [("", "?")]
    if not all(_FOLDER.fullmatch(folder) for _, folder in names):
        raise errors.UserError(
            f"{path} is no list of steps, each with type and path, a folder "
            f"beside it. {_ADVICE}"
        )
    kinds = [kind.rsplit(".", 1)[-1] for kind, _ in names]
    steps = {
        _OLD_STEPS.get(kind, kind): folder
        for kind, (_, folder) in zip(kinds, names, strict=True)
    }
    if len(steps) < len(names):
        raise errors.UserError(f"{path} has a step twice. {_INSTEAD}")
    return steps


def _read_pooling(path: str) -> str:
    """Return the one pooling of a config, in today's form or that of 2.2."""
    values = _read_object(path)
    modes = values.get("pooling_mode")
    if modes is None:
        old = {key: name for name, key in MODES.items()}
        modes = [
            old.get(key, key.removeprefix(_OLD_MODE))
            for key, value in values.items()
            if key.startswith(_OLD_MODE) and value is True
        ]
    if isinstance(modes, str):
        modes = [modes]
    if (
        not isinstance(modes, list)
        or len(modes) != 1
        or (modes[0] not in list(MODES))
    ):
        raise errors.UserError(
            f"{path} has the pooling {strict_json.dumps(modes)}; this project "
            f"has {', '.join(MODES)}, one at a time. {_INSTEAD}"
        )
    return str(modes[0])


def _read_max_length(folder: str) -> int | None:
    for name, key in (
        (LENGTH_NAME, "max_seq_length"),
        (_TOKENIZER_NAME, "model_max_length"),
    ):
        path = files.safe_join(folder, name)
        value = _read_object(path).get(key) if files.exists(path) else None
        # A tokenizer without a limit has 10^30.
        if type(value) is int and 0 < value < 10**6:
            return value
    return None


def _check_dense(folder: str) -> None:
    """Refuse a layer that is not linear, or has no width."""
    path = files.safe_join(folder, CONFIG_NAME)
    values = _read_object(path)
    allowed: Mapping[str, Any] = {
        "activation_function": IDENTITY,
        "use_residual": False,
        "module_input_name": "sentence_embedding",
    }
    for key, expected in allowed.items():
        default = _TANH if expected == IDENTITY else expected
        value = values.get(key, default)
        if value != expected:
            raise errors.UserError(
                f"{path} has {key}={value!r}; this project computes "
                f"{expected!r} only. {_INSTEAD}"
            )
    size = values.get("out_features")
    if type(size) is not int or size < 1:
        raise errors.UserError(
            f"{path} has out_features={size!r}, which is no width. {_ADVICE}"
        )


def _read_prompts(path: str) -> prompts.PromptOptions:
    values = _read_object(path) if files.exists(path) else {}
    try:
        return prompts.PromptOptions.from_dict(values)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {error} {_INSTEAD}") from None


def _read_object(path: str) -> dict[str, Any]:
    if not files.exists(path):
        raise errors.UserError(f"{path} does not exist. {_ADVICE}")
    return strict_json.read_object(path, _ADVICE)


def read_projection(folder: str) -> dict[str, np.ndarray]:
    """Return kernel and bias of the linear layer, if there is one."""
    try:
        modules = read(folder)
    except errors.UserError:  # Refused where vectors of texts are wanted.
        return {}
    if modules is None or modules.dense is None:
        return {}
    tensors = tensor_files.read(modules.dense)
    kernel = tensors.get("linear.weight")
    if kernel is None or kernel.ndim != 2:
        raise errors.UserError(
            f"{modules.dense} holds no linear.weight with two axes. Copy or "
            "download it again."
        )
    bias = tensors.get("linear.bias", np.zeros(len(kernel), np.float32))
    return {
        f"{SCOPE}/kernel": np.ascontiguousarray(kernel.T),
        f"{SCOPE}/bias": bias,
    }


def contents(
    width: int, modules: Modules, projection: Mapping[str, np.ndarray]
) -> dict[str, bytes]:
    """Return the files by their names, see `NAMES`; prompts have one, too.

    Args:
        width: That of the encoder.
        projection: What `read_projection` returns.
    """
    steps = ["Transformer", "Pooling", "Normalize"]
    tensors: dict[str, bytes] = {}
    values: dict[str, Any] = {
        LENGTH_NAME: {
            "max_seq_length": modules.max_seq_length,
            "do_lower_case": False,
        },
        _POOLING_CONFIG: {
            "word_embedding_dimension": width,
            **{
                key: name == modules.text_pooling for name, key in MODES.items()
            },
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
    if modules.prompting.texts:
        values[PROMPTS_NAME] = modules.prompting.to_dict()
    if projection:
        steps.insert(2, "Dense")
        kernel, bias = (projection[f"{SCOPE}/{n}"] for n in ("kernel", "bias"))
        values[_DENSE_CONFIG] = {
            "in_features": kernel.shape[0],
            "out_features": kernel.shape[1],
            "bias": True,
            "activation_function": IDENTITY,
        }
        tensors[_DENSE_WEIGHTS] = tensor_files.to_bytes(
            {
                "linear.weight": np.ascontiguousarray(kernel.T),
                "linear.bias": bias,
            }
        )
    values[MODULES_NAME] = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{step}" if index else "",
            "type": f"sentence_transformers.models.{step}",
        }
        for index, step in enumerate(steps)
    ]
    return tensors | {
        name: (strict_json.dumps(value, indent=2) + "\n").encode()
        for name, value in values.items()
    }
