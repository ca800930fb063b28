"""Hugging Face folders: read one, write one, as a translation of names.

Such a folder holds `config.json` and `model.safetensors`. The same numbers are
in a checkpoint of the original release, under other names and with dense
kernels transposed; huggingface_names.py pairs the names.
"""

import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

from albert_tf.common import errors, files, strict_json
from albert_tf.model.checkpoints import (
    huggingface_config,
    huggingface_names,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig

CONFIG_NAME = huggingface_config.CONFIG_NAME
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = f"{WEIGHTS_NAME}.index.json"
VOCABULARY_NAME = "spiece.model"

# Other forms of weights, with what to do about them.
_SAVE_AGAIN = (
    "Load the folder once with transformers and save it again with "
    "save_pretrained(FOLDER, safe_serialization=True)."
)
_OTHER_WEIGHTS = {
    "pytorch_model.bin": _SAVE_AGAIN,
    "pytorch_model.bin.index.json": _SAVE_AGAIN,
    "tf_model.h5": "Load it once with transformers 4 and TensorFlow "
    "(AlbertForPreTraining.from_pretrained(FOLDER, from_tf=True)), and save it "
    "with save_pretrained(FOLDER, safe_serialization=True).",
}

# The numbers 0, 1, 2, ..., which older versions saved, too.
_BUFFER = "embeddings.position_ids"
_DTYPES = ("F32", "F16", "BF16")


def is_folder(path: str) -> bool:
    config_file = files.in_folder(path, CONFIG_NAME)
    if not files.exists(config_file):
        return False
    return huggingface_config.is_config(_read_json(config_file))


def read_config(path: str, source: str | None = None) -> AlbertConfig:
    """Read a `config.json`, and what only the weights beside it say.

    Args:
        source: What messages call it. Default: the path.
    """
    source, theirs = source or path, _read_json(path)
    values = huggingface_config.translate(theirs, source)
    config = AlbertConfig.from_dict(values, source)
    if _family(theirs).scope == "bert":
        return config
    if config.embedding_size == config.hidden_size:
        folder = os.path.dirname(path)
        config = dataclasses.replace(
            config, map_equal_sizes=_has_mapping(folder)
        )
    if not _same_groups(config, config.num_hidden_groups):
        raise errors.UserError(
            f"{source} has {config.num_hidden_groups} num_hidden_groups for "
            f"{config.num_hidden_layers} num_hidden_layers. For these, "
            "transformers rounds the group of a layer in another way than this "
            "project. Choose a model whose groups divide its layers."
        )
    return config


def read_details(folder: str) -> huggingface_config.Details:
    """Read what a folder's `config.json` says about a classifier's outputs."""
    path = files.in_folder(folder, CONFIG_NAME)
    return huggingface_config.read_details(_read_json(path), path)


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """Read the weights of a folder, float32, under the original's names.

    Dense kernels are transposed to [in, out]. Where embeddings and encoder have
    one size, the mapping between them is left out if it is an identity: the
    original has no such layer then. The linear layer of a folder of
    sentence-transformers is `projection`.
    """
    config_file = files.in_folder(folder, CONFIG_NAME)
    config, values = read_config(config_file), _read_json(config_file)
    family = _family(values)
    paths = find_weights(folder)
    path = paths[0] if len(paths) == 1 else folder
    tensors = _untied(_read_all(paths), path, family)
    ours = family.ours(
        groups_of(config),
        config.inner_group_num,
        huggingface_config.classes(values),
    )
    unknown = tensors.keys() - ours.keys()
    if unknown:
        raise errors.UserError(
            f"{path} holds {_listed(unknown)}, which {CONFIG_NAME} leaves no "
            "place for. Allowed are an encoder with the heads of "
            f"{', '.join(family.architectures)}. Save only the part you need, "
            f"such as model.{family.scope}.save_pretrained(FOLDER) for the "
            "encoder."
        )
    weights = {
        ours[name]: _transposed(ours[name], tensor)
        for name, tensor in tensors.items()
    }
    if not config.maps_embeddings:
        for leaf in ("kernel", "bias"):
            weights.pop(f"{huggingface_names.MAPPING}/{leaf}", None)
    return weights | _projection(folder)


def read_own(folder: str) -> dict[str, np.ndarray]:
    """Read weights that have the original's names, as float32."""
    return _read_all(find_weights(folder))


def bfloat16_file(weights: Mapping[str, np.ndarray]) -> bytes:
    """Return the file of `read_own`: weights rounded to bfloat16.

    The bias of a classifier is kept. In a regression it has the units of the
    numbers, and 2005 would become 2008.
    """
    dtype = tf.bfloat16.as_numpy_dtype
    small = {
        name: value if name == "output_bias" else value.astype(dtype)
        for name, value in weights.items()
    }
    return bytes(safetensors.numpy.save(small))


def _projection(folder: str) -> dict[str, np.ndarray]:
    """Return the layer after the pooling, if this project has its kind."""
    try:
        modules = sentence_modules.read(folder)
    except errors.UserError:  # Refused where vectors of texts are wanted.
        return {}
    if modules is None or modules.dense is None:
        return {}
    tensors = _read_all(find_weights(modules.dense))
    kernel = tensors.get("linear.weight")
    if kernel is None or kernel.ndim != 2:
        raise errors.UserError(
            f"{modules.dense} holds no linear.weight with two axes. Copy or "
            "download it again."
        )
    bias = tensors.get("linear.bias", np.zeros(len(kernel), np.float32))
    scope = sentence_modules.SCOPE
    return {
        f"{scope}/kernel": _transposed("/kernel", kernel),
        f"{scope}/bias": bias,
    }


def files_of(
    config: AlbertConfig,
    weights: Mapping[str, np.ndarray],
    details: huggingface_config.Details | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Return the content of `config.json` and of `model.safetensors`.

    Args:
        weights: Variable name to array: the whole encoder, with or without its
            pooler, and the heads of one model.
        details: By default a classifier with one label is an
            AlbertForSequenceClassification; AlbertForMultipleChoice reads the
            same folder.
    """
    refuse_own_parts(config, "transformers", project_words_first=False)
    groups = _groups_to_write(config)
    model_type = _model_type(config)
    family = huggingface_names.family(model_type)
    weights = dict(weights)
    if family.scope == "albert" and not config.maps_embeddings:
        mapping = huggingface_names.MAPPING
        weights[f"{mapping}/kernel"] = np.eye(config.hidden_size)
        weights[f"{mapping}/bias"] = np.zeros(config.hidden_size)
    architecture = _architecture(weights, family)
    names = dict(family.pairs(groups, config.inner_group_num))
    _check_complete(weights, names, architecture in family.without_pooler)
    is_alone = not family.architectures[architecture]
    prefix = f"{family.scope}." if is_alone else ""
    tensors = {
        names[name].removeprefix(prefix): np.ascontiguousarray(
            _transposed(name, weights[name]), np.float32
        )
        for name in sorted(weights, key=names.__getitem__)
    }
    details = details or huggingface_config.Details()
    values = {
        **_config_values(config, groups, model_type),
        "architectures": [architecture],
    }
    for name in weights:
        if name in huggingface_names.labelled():
            count = len(weights[name])
            values |= huggingface_config.label_values(
                count, details, model_type
            )
    return values, safetensors.numpy.save(tensors, {"format": "pt"})


def _read_json(path: str) -> dict[str, Any]:
    if not files.exists(path):
        raise errors.UserError(
            f"{path} does not exist. Name a Hugging Face folder, which holds "
            f"{CONFIG_NAME} and {WEIGHTS_NAME}."
        )
    return strict_json.read_object(path, "Copy or download it again.")


def _same_groups(config: AlbertConfig, groups: int) -> bool:
    """Tell whether transformers would use the same parameters in each layer.

    Source: transformers, AlbertTransformer.forward. The two divisions round
    differently from both of `AlbertConfig.group_of_layer`.
    """
    layers = config.num_hidden_layers
    theirs = [int(layer / (layers / groups)) for layer in range(layers)]
    return config.layer_groups == [(group, group) for group in theirs]


def _family(values: Mapping[str, Any]) -> huggingface_names.Family:
    model_type = huggingface_config.model_type_of(values)
    return huggingface_names.family(model_type)


def _transposed(name: str, value: np.ndarray) -> np.ndarray:
    """Transpose a dense kernel; return other variables as they are."""
    if name.endswith("/kernel"):
        return np.ascontiguousarray(value.T)
    return value


def _listed(names: Iterable[str]) -> str:
    """Name the first three, and say how many more there are."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def find_weights(folder: str) -> list[str]:
    """Return the paths of the weights in a folder: one, or several shards."""
    path = files.in_folder(folder, WEIGHTS_NAME)
    if files.exists(path):
        return [path]
    index = files.in_folder(folder, INDEX_NAME)
    if files.exists(index):
        return _shards(folder, index)
    for name, mend in _OTHER_WEIGHTS.items():
        if files.exists(os.path.join(folder, name)):
            raise errors.UserError(
                f"{folder} has no {WEIGHTS_NAME}, but {name}, which this "
                f"project does not read. {mend}"
            )
    raise errors.UserError(
        f"{folder} has no {WEIGHTS_NAME}. Copy or download it to its "
        f"{CONFIG_NAME}."
    )


def _shards(folder: str, index: str) -> list[str]:
    """Return the paths of the files that an index names."""
    table = _read_json(index).get("weight_map")
    names = set(map(str, table.values())) if isinstance(table, dict) else set()
    wrong = [name for name in names if os.path.basename(name) != name]
    if not names or wrong:
        raise errors.UserError(
            f"{index} names no files in its folder under weight_map. Copy or "
            "download it again."
        )
    paths = [files.in_folder(folder, name) for name in sorted(names)]
    for path in paths:
        if not files.exists(path):
            raise errors.UserError(
                f"{path} does not exist, but {index} names it. Copy or "
                "download it."
            )
    return paths


def _read_all(paths: Iterable[str]) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    for path in paths:
        tensors |= _read_tensors(path)
    return tensors


def _read_tensors(path: str) -> dict[str, np.ndarray]:
    """Return all tensors of a file as float32, without the known buffer."""
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        local = path
        if files.is_remote(path):  # safetensors opens local files only.
            local = os.path.join(folder, WEIGHTS_NAME)
            with open(local, "wb") as copy:
                copy.write(files.read_bytes(path))
        try:
            with safetensors.safe_open(local, framework="numpy") as stream:
                for name in stream.keys():
                    if name.endswith(_BUFFER):
                        continue
                    dtype = stream.get_slice(name).get_dtype()
                    if dtype not in _DTYPES:
                        raise errors.UserError(
                            f"{path} holds {name} as {dtype}. Allowed are "
                            f"{', '.join(_DTYPES)}; save it again in one of "
                            "them."
                        )
                    tensors[name] = stream.get_tensor(name).astype(np.float32)
        except (OSError, safetensors.SafetensorError) as error:
            raise errors.UserError(
                f"{path} cannot be read: {error}. The file is damaged or "
                "incomplete; copy or download it again."
            ) from None
    return tensors


def _untied(
    tensors: Mapping[str, np.ndarray],
    path: str,
    family: huggingface_names.Family,
) -> dict[str, np.ndarray]:
    """Give every tensor its full name, and tied tensors only one."""
    full = {family.full_name(name): value for name, value in tensors.items()}
    for copy, name in family.tied.items():
        if copy not in full:
            continue
        tensor = full.pop(copy)
        if not np.array_equal(tensor, full.setdefault(name, tensor)):
            raise errors.UserError(
                f"{path} holds a {copy} that differs from {name}. This project "
                "has one variable for both, as the paper has. Choose a model "
                "that was trained with tie_word_embeddings."
            )
    return full


def _has_mapping(folder: str) -> bool:
    """Tell whether the mapping of a model with E == H does something.

    transformers always has one. An identity is what `files_of` writes for a
    model without one. Without weights it is not known; transformers' own
    models have one.
    """
    names = WEIGHTS_NAME, INDEX_NAME
    if not any(files.exists(files.in_folder(folder, name)) for name in names):
        return True
    paths = find_weights(folder)
    tensors = _untied(_read_all(paths), folder, huggingface_names.ALBERT)
    kernel, bias = (
        tensors.get(f"{huggingface_names.MAPPING_THEIRS}.{leaf}")
        for leaf in ("weight", "bias")
    )
    if kernel is None or bias is None or kernel.ndim != 2:
        return True  # Restoring names what is missing.
    return not np.array_equal(kernel, np.eye(len(kernel))) or bool(bias.any())


def refuse_own_parts(
    config: AlbertConfig, reader: str, **other_values: object
) -> None:
    """Refuse an encoder that computes what only this project does."""
    known = {"pooling": "cls", "position_bias": "none", **other_values}
    for key, usual in known.items():
        if getattr(config, key) != usual:
            raise errors.UserError(
                f"{key}={getattr(config, key)!r} has no counterpart in "
                f"{reader}, which has what is called {usual!r} here. Keep this "
                "model in a checkpoint of this project, or export it as a "
                "SavedModel."
            )


def groups_of(config: AlbertConfig) -> int:
    """Return `num_hidden_groups` where the layers of a group share all."""
    if config.share == "none":
        return config.num_hidden_layers
    return config.num_hidden_groups


def _groups_to_write(config: AlbertConfig) -> int:
    """Return `num_hidden_groups` for transformers."""
    groups = groups_of(config)
    if _same_groups(config, groups):
        return groups
    if config.share not in ("all", "none"):
        raise errors.UserError(
            f"share={config.share!r} has no counterpart in transformers, where "
            "a layer shares all parameters or none. Allowed are all and none; "
            "keep this model in a checkpoint of this project."
        )
    raise errors.UserError(
        f"{groups} num_hidden_groups for {config.num_hidden_layers} "
        f"num_hidden_layers (float_group_index={config.float_group_index}) "
        "cannot be written: transformers rounds the group of a layer in "
        "another way. Keep this model in a checkpoint of this project."
    )


def _model_type(config: AlbertConfig) -> str:
    """Return bert where its class computes the same, else albert."""
    is_bert = (
        config.share == "none"
        and config.inner_group_num == 1
        and not config.maps_embeddings
    )
    return "bert" if is_bert else "albert"


def _architecture(
    weights: Mapping[str, np.ndarray], family: huggingface_names.Family
) -> str:
    """Return the class of transformers that has the heads in `weights`."""
    heads = {name for name in weights if not name.startswith("bert/")}
    allowed = {
        architecture: {
            ours + leaf
            for ours, kind, _ in rows
            for leaf, _ in huggingface_names.LEAVES[kind]
        }
        for architecture, rows in family.architectures.items()
    }
    for architecture, names in allowed.items():
        if heads == names:
            return architecture
    raise errors.UserError(
        f"No model of transformers has a head with just {_listed(heads)}. "
        f"Allowed are the heads of {', '.join(allowed)}; the head for SQuAD "
        "2.0 has no counterpart. Give the encoder alone, or keep this model in "
        "a checkpoint of this project."
    )


def _check_complete(
    weights: Collection[str], known: Iterable[str], without_pooler: bool
) -> None:
    """Refuse an encoder that lacks variables or has more."""
    stored = {name for name in weights if name.startswith("bert/")}
    wrong = stored ^ {name for name in known if name.startswith("bert/")}
    pooler = f"{huggingface_names.POOLER}/"
    has_pooler = any(name.startswith(pooler) for name in stored)
    if without_pooler and not has_pooler:
        wrong = {name for name in wrong if not name.startswith(pooler)}
    if wrong:
        raise errors.UserError(
            f"The weights do not fit the config: {_listed(wrong)} on one side "
            "only. Give the albert_config.json that belongs to the checkpoint."
        )


def _config_values(
    config: AlbertConfig, groups: int, model_type: str
) -> dict[str, Any]:
    """Return the network's part of `config.json`."""
    values = dataclasses.asdict(config)
    ours = {key: values[key] for key in huggingface_config.SAME_KEYS}
    dropout = "classifier_dropout_prob"
    if model_type == "bert":
        dropout = "classifier_dropout"
        for key in huggingface_config.ONLY_ALBERT:
            del ours[key]
    else:
        ours["num_hidden_groups"] = groups
    return {
        **ours,
        "hidden_act": huggingface_config.their_activation(config.hidden_act),
        "model_type": model_type,
        "tie_word_embeddings": True,
        # Dropout of their heads in training; ours have the same by default.
        dropout: 0.1,
        "dtype": "float32",
    }
