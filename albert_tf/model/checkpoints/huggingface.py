"""Hugging Face folders: read one, write one, as a translation of names.

Such a folder holds `config.json` and `model.safetensors`. The same numbers are
in a checkpoint of the original release, under other names and with dense
kernels transposed. One table below pairs the names; reading and writing both
use it.

Source of names and settings: transformers 5.23.0, models/albert.
"""

import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from absl import logging

from albert_tf.common import errors, files, strict_json
from albert_tf.model.checkpoints import huggingface_config
from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import plain

CONFIG_NAME = huggingface_config.CONFIG_NAME
WEIGHTS_NAME = "model.safetensors"
VOCABULARY_NAME = "spiece.model"

# Other forms of weights, with what to do about them.
_SAVE_AGAIN = (
    "Load the folder once with transformers and save it again with "
    "save_pretrained(FOLDER, safe_serialization=True)."
)
_OTHER_WEIGHTS = {
    f"{WEIGHTS_NAME}.index.json": "Load the folder once with transformers and "
    "save it again with save_pretrained(FOLDER, max_shard_size='100GB').",
    "pytorch_model.bin": _SAVE_AGAIN,
    "pytorch_model.bin.index.json": _SAVE_AGAIN,
    "tf_model.h5": "Load it once with transformers 4 and TensorFlow "
    "(AlbertForPreTraining.from_pretrained(FOLDER, from_tf=True)), and save it "
    "with save_pretrained(FOLDER, safe_serialization=True).",
}

# What each kind of layer calls its variables: ours and theirs. A `kernel` is
# [in, out] here and [out, in] there; all else has one shape.
_LEAVES = {
    "table": (("", ".weight"),),
    "bias": (("", ".bias"),),
    "dense": (("/kernel", ".weight"), ("/bias", ".bias")),
    "norm": (("/gamma", ".weight"), ("/beta", ".bias")),
    "output": (("output_weights", ".weight"), ("output_bias", ".bias")),
}
_LAYER = (
    "bert/encoder/transformer/group_{group}/inner_group_{inner}/",
    "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
)
_MAPPING = "bert/encoder/embedding_hidden_mapping_in"
_MAPPING_THEIRS = "albert.encoder.embedding_hidden_mapping_in"
# The table of names: ours, the kind of layer, theirs.
_ENCODER = (
    *(
        (f"bert/embeddings/{name}", kind, f"albert.embeddings.{name}")
        for name, kind in (
            ("word_embeddings", "table"),
            ("token_type_embeddings", "table"),
            ("position_embeddings", "table"),
            ("LayerNorm", "norm"),
        )
    ),
    (_MAPPING, "dense", _MAPPING_THEIRS),
    *(
        (_LAYER[0] + ours, kind, _LAYER[1] + theirs)
        for ours, kind, theirs in (
            ("attention_1/self/query", "dense", "attention.query"),
            ("attention_1/self/key", "dense", "attention.key"),
            ("attention_1/self/value", "dense", "attention.value"),
            ("attention_1/output/dense", "dense", "attention.dense"),
            ("LayerNorm", "norm", "attention.LayerNorm"),
            ("ffn_1/intermediate/dense", "dense", "ffn"),
            ("ffn_1/intermediate/output/dense", "dense", "ffn_output"),
            ("LayerNorm_1", "norm", "full_layer_layer_norm"),
        )
    ),
    ("bert/pooler/dense", "dense", "albert.pooler"),
)
_MASKED_LM = (
    ("cls/predictions/transform/dense", "dense", "predictions.dense"),
    ("cls/predictions/transform/LayerNorm", "norm", "predictions.LayerNorm"),
    ("cls/predictions/output_bias", "bias", "predictions"),
)
_SENTENCE_ORDER = (
    ("cls/seq_relationship/", "output", "sop_classifier.classifier"),
)
_CLASSIFIER = (("", "output", "classifier"),)
_SQUAD_V1 = (("cls/squad/", "output", "qa_outputs"),)
_HEADS = (*_MASKED_LM, *_SENTENCE_ORDER, *_CLASSIFIER, *_SQUAD_V1)

# The class that transformers has for each set of heads.
_ARCHITECTURES = {
    "AlbertForPreTraining": (*_MASKED_LM, *_SENTENCE_ORDER),
    "AlbertForMaskedLM": _MASKED_LM,
    "AlbertForSequenceClassification": _CLASSIFIER,
    "AlbertForQuestionAnswering": _SQUAD_V1,
    "AlbertModel": (),
}
POOLER = "bert/pooler"
# Those that transformers may save without a pooler.
_WITHOUT_POOLER = {
    "AlbertModel",
    "AlbertForMaskedLM",
    "AlbertForQuestionAnswering",
}

# Tensors that transformers ties: each equals another, and may replace it.
_TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
# The numbers 0, 1, 2, ..., which older versions saved, too.
_BUFFER = "embeddings.position_ids"
_DTYPES = ("F32", "F16", "BF16")


def is_folder(path: str) -> bool:
    """Tell whether `path` is a folder with the config of an ALBERT."""
    config_file = files.in_folder(path, CONFIG_NAME)
    if not files.exists(config_file):
        return False
    return huggingface_config.describes_albert(_read_json(config_file))


def read_config(path: str) -> AlbertConfig:
    """Read a `config.json`."""
    values = huggingface_config.translate(_read_json(path), path)
    config = AlbertConfig.from_dict(values, path)
    if config.embedding_size == config.hidden_size:
        folder = os.path.dirname(path)
        config = dataclasses.replace(
            config, map_equal_sizes=_has_mapping(folder)
        )
    if not _same_groups(config, config.num_hidden_groups):
        raise errors.UserError(
            f"{path} has {config.num_hidden_groups} num_hidden_groups for "
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
    original has no such layer then. A classifier of tokens is left out, too:
    this project has none.
    """
    config_file = files.in_folder(folder, CONFIG_NAME)
    config = read_config(config_file)
    path = find_weights(folder)
    tensors = _without_token_head(
        _read_json(config_file), _untied(_read_tensors(path), path), path
    )
    ours = {
        theirs: name
        for name, theirs in _names(config, config.num_hidden_groups)
    }
    unknown = tensors.keys() - ours.keys()
    if unknown:
        raise errors.UserError(
            f"{path} holds {_listed(unknown)}, which {CONFIG_NAME} leaves no "
            "place for. Allowed are an ALBERT encoder with the heads of "
            f"{', '.join(_ARCHITECTURES)}. Save only the part you need, such "
            "as model.albert.save_pretrained(FOLDER) for the encoder."
        )
    weights = {
        ours[name]: _transposed(ours[name], tensor)
        for name, tensor in tensors.items()
    }
    if not config.maps_embeddings:
        for leaf in ("kernel", "bias"):
            weights.pop(f"{_MAPPING}/{leaf}", None)
    return weights


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
    weights = dict(weights)
    if not config.maps_embeddings:
        weights[f"{_MAPPING}/kernel"] = np.eye(config.hidden_size)
        weights[f"{_MAPPING}/bias"] = np.zeros(config.hidden_size)
    architecture = _architecture(weights)
    names = dict(_names(config, groups))
    _check_complete(weights, names, architecture)
    prefix = "albert." if architecture == "AlbertModel" else ""
    tensors = {
        names[name].removeprefix(prefix): np.ascontiguousarray(
            _transposed(name, weights[name]), np.float32
        )
        for name in sorted(weights, key=names.__getitem__)
    }
    details = details or huggingface_config.Details()
    values = {
        **_config_values(config, groups),
        "architectures": [architecture],
        **details.ids,
    }
    if "output_bias" in weights:
        count = len(weights["output_bias"])
        values |= huggingface_config.label_values(count, details)
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


def _names(config: AlbertConfig, groups: int) -> Iterable[tuple[str, str]]:
    """Yield every pair of names, ours and theirs, heads included."""
    for ours, kind, theirs in (*_ENCODER, *_HEADS):
        layers = [(0, 0)]
        if ours.startswith(_LAYER[0]):
            inner = range(config.inner_group_num)
            layers = [(i, j) for i in range(groups) for j in inner]
        for our_leaf, their_leaf in _LEAVES[kind]:
            for group, layer in layers:
                numbers = {"group": group, "inner": layer}
                yield (
                    (ours + our_leaf).format(**numbers),
                    (theirs + their_leaf).format(**numbers),
                )


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


def find_weights(folder: str) -> str:
    """Return the path of the weights in a folder."""
    path = files.in_folder(folder, WEIGHTS_NAME)
    if files.exists(path):
        return path
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
    tensors: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
    """Give every tensor its full name, and tied tensors only one.

    An encoder that was saved alone lacks the `albert.` before its names.
    """
    full = {}
    for name, tensor in tensors.items():
        bare = name.split(".")[0] in ("embeddings", "encoder", "pooler")
        full[f"albert.{name}" if bare else name] = tensor
    for copy, name in _TIED.items():
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


def _without_token_head(
    values: Mapping[str, Any], tensors: dict[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
    """Leave out a classifier of tokens, whose names are those of texts'."""
    if not huggingface_config.has_class(values, "AlbertForTokenClassification"):
        return tensors
    logging.warning(
        "%s holds a classifier of tokens (AlbertForTokenClassification), which "
        "this project does not have. Its encoder is read.",
        path,
    )
    head = ("classifier.weight", "classifier.bias")
    return {name: value for name, value in tensors.items() if name not in head}


def _has_mapping(folder: str) -> bool:
    """Tell whether the mapping of a model with E == H does something.

    transformers always has one. An identity is what `files_of` writes for a
    model without one. Without weights it is not known; transformers' own
    models have one.
    """
    path = files.in_folder(folder, WEIGHTS_NAME)
    if not files.exists(path):
        return True
    tensors = _untied(_read_tensors(path), path)
    kernel = tensors.get(f"{_MAPPING_THEIRS}.weight")
    bias = tensors.get(f"{_MAPPING_THEIRS}.bias")
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


def _groups_to_write(config: AlbertConfig) -> int:
    """Return `num_hidden_groups` for transformers."""
    groups = config.num_hidden_groups
    if config.share == "none":
        groups = config.num_hidden_layers
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


def _architecture(weights: Mapping[str, np.ndarray]) -> str:
    """Return the class of transformers that has the heads in `weights`."""
    heads = {name for name in weights if not name.startswith("bert/")}
    allowed = {
        architecture: {
            ours + leaf for ours, kind, _ in rows for leaf, _ in _LEAVES[kind]
        }
        for architecture, rows in _ARCHITECTURES.items()
    }
    for architecture, names in allowed.items():
        if heads == names:
            return architecture
    raise errors.UserError(
        f"No ALBERT of transformers has a head with just {_listed(heads)}. "
        f"Allowed are the heads of {', '.join(allowed)}; the head for SQuAD "
        "2.0 has no counterpart. Give the encoder alone, or keep this model in "
        "a checkpoint of this project."
    )


def _check_complete(
    weights: Collection[str], known: Iterable[str], architecture: str
) -> None:
    """Refuse an encoder that lacks variables or has more."""
    stored = {name for name in weights if name.startswith("bert/")}
    wrong = stored ^ {name for name in known if name.startswith("bert/")}
    has_pooler = any(name.startswith(POOLER + "/") for name in stored)
    if architecture in _WITHOUT_POOLER and not has_pooler:
        wrong = {n for n in wrong if not n.startswith(POOLER + "/")}
    if wrong:
        raise errors.UserError(
            f"The weights do not fit the config: {_listed(wrong)} on one side "
            "only. Give the albert_config.json that belongs to the checkpoint."
        )


def _config_values(config: AlbertConfig, groups: int) -> dict[str, Any]:
    """Return the network's part of `config.json`."""
    values = dataclasses.asdict(config)
    return {
        **{key: values[key] for key in huggingface_config.SAME_KEYS},
        "num_hidden_groups": groups,
        "hidden_act": huggingface_config.their_activation(config.hidden_act),
        "model_type": "albert",
        "layer_norm_eps": plain.LAYER_NORM_EPSILON,
        "tie_word_embeddings": True,
        # Dropout of their heads in training; ours have the same by default.
        "classifier_dropout_prob": 0.1,
        "dtype": "float32",
    }
