"""Hugging Face folders: read one, write one, as a translation of names.

Such a folder holds `config.json` and `model.safetensors`. The same numbers are
in a checkpoint of the original release, under other names and with dense
kernels transposed; layouts.py pairs the names.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
import tensorflow as tf

from albert_tf.common import errors, files, strict_json
from albert_tf.model.checkpoints import (
    config_files,
    layouts,
    sentence_modules,
    tensor_files,
)
from albert_tf.model.config import AlbertConfig

CONFIG_NAME = config_files.HUB_NAME
WEIGHTS_NAME = tensor_files.WEIGHTS_NAME
VOCABULARY_NAME = "spiece.model"


def is_folder(path: str) -> bool:
    config_file = files.safe_join(path, CONFIG_NAME)
    if not files.exists(config_file):
        return False
    return config_files.model_type_of(_read_json(config_file)) is not None


def read_config(path: str) -> AlbertConfig:
    """Read a `config.json`, and what only the weights beside it say."""
    config: AlbertConfig = config_files.build_hub(
        _read_json(path), path, path, AlbertConfig.from_dict
    )
    return config


def read_details(folder: str) -> config_files.Details:
    """Read what a folder's `config.json` says about a classifier's outputs."""
    path = files.safe_join(folder, CONFIG_NAME)
    return config_files.read_details(_read_json(path), path)


def _read_json(path: str) -> dict[str, Any]:
    if not files.exists(path):
        raise errors.UserError(
            f"{path} does not exist. Name a Hugging Face folder, which holds "
            f"{CONFIG_NAME} and {WEIGHTS_NAME}."
        )
    return strict_json.read_object(path, "Copy or download it again.")


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """Read the weights of a folder, float32, under the original's names.

    Dense kernels are transposed to [in, out]. Where embeddings and encoder have
    one size, the mapping between them is left out if it is an identity: the
    original has no such layer then. A model without segments gets a table of
    zeros. The linear layer of a folder of sentence-transformers is
    `projection`.
    """
    config_file = files.safe_join(folder, CONFIG_NAME)
    config, values = read_config(config_file), _read_json(config_file)
    model_type = config_files.model_type_of(values)
    family = layouts.family(model_type)
    tensors = tensor_files.read_untied(folder, family)
    our_names = family.our_names(
        groups_of(config), config.inner_group_num, config_files.classes(values)
    )
    unknown = tensors.keys() - our_names.keys()
    if unknown:
        raise errors.UserError(
            f"{tensor_files.shown(folder)} holds {_join_names(unknown)}, which "
            f"{CONFIG_NAME} leaves no place for. Allowed are an encoder with "
            f"the heads of {', '.join(family.architectures)}. Save only the "
            f"part you need, such as model.{family.scope}.save_pretrained"
            "(FOLDER) for the encoder."
        )
    weights = {
        our_names[name]: layouts.transposed(our_names[name], tensor)
        for name, tensor in tensors.items()
    }
    if not config.maps_embeddings:
        for leaf in ("kernel", "bias"):
            weights.pop(f"{layouts.MAPPING}/{leaf}", None)
    if layouts.POSITIONS in weights:
        first = layouts.FIRST_POSITIONS.get(model_type, 0)
        weights[layouts.POSITIONS] = weights[layouts.POSITIONS][first:]
    if model_type == "mpnet":
        weights[layouts.SEGMENTS] = np.zeros([1, config.hidden_size], "f4")
    return weights | sentence_modules.read_projection(folder)


def bfloat16_file(weights: Mapping[str, np.ndarray]) -> bytes:
    """Return a file of weights under our names, rounded to bfloat16.

    The bias of a classifier is kept. In a regression it has the units of the
    numbers, and 2005 would become 2008.
    """
    dtype = tf.bfloat16.as_numpy_dtype
    small = {
        name: value if name == "output_bias" else value.astype(dtype)
        for name, value in weights.items()
    }
    return bytes(safetensors.numpy.save(small))


def files_of(
    config: AlbertConfig,
    weights: Mapping[str, np.ndarray],
    details: config_files.Details | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Return the content of `config.json` and of `model.safetensors`.

    Args:
        weights: Variable name to array: the whole encoder, with or without its
            pooler, and the heads of one model.
        details: By default a classifier with one label is an
            AlbertForSequenceClassification; AlbertForMultipleChoice reads the
            same folder.
    """
    refuse_own_parts(
        config, "transformers' ALBERT and BERT", project_words_first=False
    )
    groups = _check_groups(config)
    model_type = model_type_of(config)
    family = layouts.family(model_type)
    weights = with_mapping(config, weights)
    architecture = _architecture(weights, family)
    names = dict(family.pairs(groups, config.inner_group_num))
    _check_complete(weights, names, architecture in family.without_pooler)
    is_alone = not family.architectures[architecture]
    prefix = f"{family.scope}." if is_alone else ""
    tensors = {
        names[name].removeprefix(prefix): np.ascontiguousarray(
            layouts.transposed(name, weights[name]), np.float32
        )
        for name in sorted(weights, key=names.__getitem__)
    }
    values = config_files.for_hub(config, groups, model_type)
    values["architectures"] = [architecture]
    for name in weights.keys() & layouts.labelled():
        values |= config_files.for_labels(
            len(weights[name]), details or config_files.Details(), model_type
        )
    return values, tensor_files.to_bytes(tensors)


def model_type_of(config: AlbertConfig) -> str:
    """Return albert, or bert where layers share nothing and E = H."""
    is_bert = (
        config.share == "none"
        and config.inner_group_num == 1
        and not config.maps_embeddings
    )
    return "bert" if is_bert else "albert"


def with_mapping(
    config: AlbertConfig, weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Add the identity that others' ALBERTs have where ours maps nothing."""
    if model_type_of(config) == "bert" or config.maps_embeddings:
        return dict(weights)
    size = config.hidden_size
    identity = {"kernel": np.eye(size), "bias": np.zeros(size)}
    return {
        **weights,
        **{f"{layouts.MAPPING}/{n}": value for n, value in identity.items()},
    }


def refuse_own_parts(
    config: AlbertConfig, reader: str, **other_values: object
) -> None:
    """Refuse a config with other than these values, all that `reader` has."""
    values = {"pooling": "cls", "position_bias": "none", **other_values}
    for key, default in values.items():
        if getattr(config, key) != default:
            raise errors.UserError(
                f"{key}={getattr(config, key)!r} has no counterpart in "
                f"{reader}: there it is what is called {default!r} here. Keep "
                "this model in a checkpoint of this project, or export it as a "
                "SavedModel."
            )


def groups_of(config: AlbertConfig) -> int:
    """Return `num_hidden_groups` where the layers of a group share all."""
    if config.share == "none":
        return config.num_hidden_layers
    return config.num_hidden_groups


def _check_groups(config: AlbertConfig) -> int:
    """Return `num_hidden_groups`; refuse what transformers would not share."""
    groups = groups_of(config)
    if config_files.same_groups(config, groups):
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


def _architecture(
    weights: Mapping[str, np.ndarray], family: layouts.Family
) -> str:
    """Return the class of transformers that has the heads in `weights`."""
    heads = {name for name in weights if not name.startswith("bert/")}
    for architecture, rows in family.architectures.items():
        if heads == {
            ours + leaf
            for ours, kind, _ in rows
            for leaf, _ in layouts.LEAVES[kind]
        }:
            return architecture
    raise errors.UserError(
        f"No model of transformers has a head with just {_join_names(heads)}. "
        f"Allowed are the heads of {', '.join(family.architectures)}; the head "
        "for SQuAD 2.0 has no counterpart. Give the encoder alone, or keep "
        "this model in a checkpoint of this project."
    )


def _check_complete(
    weights: Collection[str], names: Iterable[str], without_pooler: bool
) -> None:
    """Refuse an encoder that lacks variables or has more."""
    stored = {name for name in weights if name.startswith("bert/")}
    wrong = stored ^ {name for name in names if name.startswith("bert/")}
    pooler = f"{layouts.POOLER}/"
    if without_pooler and not any(name.startswith(pooler) for name in stored):
        wrong = {name for name in wrong if not name.startswith(pooler)}
    if wrong:
        raise errors.UserError(
            f"The weights do not fit the config: {_join_names(wrong)} on one "
            "side only. Give the albert_config.json that belongs to the "
            "checkpoint."
        )


def _join_names(names: Iterable[str]) -> str:
    """Return the first three names, and how many more there are."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
