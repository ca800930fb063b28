"""Presets of KerasHub: the encoder of a BERT or ALBERT, and its tokenizer.

config.json, tokenizer.json  the classes, with their arguments
model.weights.h5             variables, by class and number of their layer
assets/tokenizer/            the vocabulary. A SentencePiece model cleans text
                             by itself: KerasHub does not.

Source: keras-hub 0.32.0, AlbertBackbone, BertBackbone, TransformerEncoder,
AlbertTokenizer, BertTokenizer; keras 3.15.1, saving_lib.py.
"""

import dataclasses
import io
from collections.abc import Callable, Mapping
from typing import Any

import h5py
import numpy as np

from albert_tf.common import errors, files, strict_json
from albert_tf.model.checkpoints import config_files, huggingface, layouts
from albert_tf.model.config import AlbertConfig
from albert_tf.text import (
    charsmap,
    keras_hub_rules,
    normalization,
    tokenization,
)

CONFIG_NAME = config_files.HUB_NAME
_WEIGHTS = "model.weights.h5"
VOCABULARY_NAMES = keras_hub_rules.VOCABULARY_NAMES
_TOKENIZER = keras_hub_rules.TOKENIZER_NAME
NAMES = CONFIG_NAME, _WEIGHTS, _TOKENIZER, *VOCABULARY_NAMES.values()
# Arguments of the encoders, by our keys.
_KEYS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "attention_probs_dropout_prob": "dropout",
    "hidden_dropout_prob": "dropout",  # This one is written.
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}
_ALBERT_KEYS = {
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_repetitions",
    "embedding_size": "embedding_dim",
}
# All that they compute.
_COMPUTED: dict[str, Any] = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "project_words_first": False,
}
_BACKBONES = {"BertBackbone": _KEYS, "AlbertBackbone": _KEYS | _ALBERT_KEYS}
# What h5py raises.
_DAMAGES = OSError, LookupError, RuntimeError, ValueError, ArithmeticError
_ATTENTION = "self_attention_layer"
_ROWS: layouts.Rows = (
    ("bert/embeddings/word_embeddings", "table", "reversible_embedding"),
    (layouts.SEGMENTS, "table", "embedding"),
    (layouts.POSITIONS, "table", "position_embedding"),
    ("bert/embeddings/LayerNorm", "norm", "layer_normalization"),
    *layouts.layer_rows(
        "transformer_encoder{number}/_",
        [
            *(f"{_ATTENTION}/{n}_dense" for n in ("query", "key", "value")),
            f"{_ATTENTION}/output_dense",
            f"{_ATTENTION}_norm",
            "feedforward_intermediate_dense",
            "feedforward_output_dense",
            "feedforward_layer_norm",
        ],
    ),
)


def is_folder(path: str) -> bool:
    """Tell whether a folder holds a preset of any class."""
    file = files.safe_join(path, CONFIG_NAME)
    return files.exists(file) and keras_hub_rules.is_config(_read_json(file))


def _read_json(path: str) -> dict[str, Any]:
    return strict_json.read_object(path, keras_hub_rules.ADVICE)


def read_config(folder: str) -> AlbertConfig:
    path = files.safe_join(folder, CONFIG_NAME)
    config: AlbertConfig = build(_read_json(path), path, AlbertConfig.from_dict)
    return config


def build(
    values: Mapping[str, Any],
    source: str,
    make: Callable[[Mapping[str, Any], str], Any],
) -> Any:
    """Build an `AlbertConfig` from the `config.json` of a preset.

    Its ALBERTs map embeddings of every width. For the arguments see
    `config_files.build`.
    """
    allowed = {
        name: {**dict.fromkeys(keys.values()), "dtype": ["float32"]}
        for name, keys in _BACKBONES.items()
    }
    name, given = keras_hub_rules.arguments(values, source, allowed)
    keys = _BACKBONES[name]
    if lacking := keys.values() - given.keys():
        raise errors.UserError(
            f"{source} has no {min(lacking)}. {keras_hub_rules.ADVICE}"
        )
    ours = {key: given[theirs] for key, theirs in keys.items()} | _COMPUTED
    if "embedding_size" in ours:
        is_mapped = ours["embedding_size"] == ours["hidden_size"]
        ours["map_equal_sizes"] = is_mapped
    else:
        ours |= {"share": "none", "embedding_size": ours["hidden_size"]}
    return make(ours, source)


def weights_path(folder: str) -> str:
    """Return the path of a preset's weights; refuse one without."""
    path = files.safe_join(folder, _WEIGHTS)
    if not files.exists(path):
        raise errors.UserError(
            f"{folder} has no {_WEIGHTS}. {keras_hub_rules.ADVICE} Of shards "
            "save_to_preset(FOLDER, max_shard_size=None) makes one file."
        )
    return path


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """Read the weights of a preset under the original's names."""
    config, path = read_config(folder), weights_path(folder)
    stored = _read_arrays(path)
    names = _names(config, huggingface.model_type_of(config))
    if unknown := stored.keys() - names.values():
        raise errors.UserError(
            f"{path} holds {min(unknown)}, which {CONFIG_NAME} leaves no place "
            f"for. {keras_hub_rules.ADVICE}"
        )
    weights = {o: stored[name] for o, name in names.items() if name in stored}
    for ours, value in weights.items():  # Other shapes do not fit the model.
        shape = _shape_of_heads(names[ours], config)
        if value.shape == shape:
            size = config.hidden_size
            weights[ours] = value.reshape([size] * (len(shape) - 1))
    return weights


def _read_arrays(path: str) -> dict[str, np.ndarray]:
    content, arrays = files.read_bytes(path), {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and "/seed_generator/" not in name:
            arrays[name] = np.asarray(item[()])

    try:
        with h5py.File(io.BytesIO(content), "r") as store:
            store.visititems(visit)
    except _DAMAGES as error:
        raise errors.UserError(
            f"{path} cannot be read: {error}. The file is damaged or "
            f"incomplete. {keras_hub_rules.ADVICE}"
        ) from None
    return arrays


def _names(config: AlbertConfig, model_type: str) -> dict[str, str]:
    """Return names of variables there, by ours."""
    inner, names = config.inner_group_num, {}
    rows = [(f"{layouts.POOLER}/dense", "dense", "dense"), *_ROWS]
    if model_type == "albert":
        rows[0] = *rows[0][:2], "dense_1"
        rows.append((layouts.MAPPING, "dense", "dense"))
    for ours, kind, theirs in rows:
        is_layer = ours.startswith(layouts.OUR_LAYER)
        count = huggingface.groups_of(config) * inner if is_layer else 1
        for index in range(count):
            place = {"group": index // inner, "inner": index % inner}
            layer = theirs.format(number=f"_{index}" if index else "")
            for n, (leaf, _) in enumerate(layouts.LEAVES[kind]):
                name = (ours + leaf).format(**place)
                names[name] = f"layers/{layer}/vars/{n}"
    return names


def contents(
    config: AlbertConfig,
    weights: Mapping[str, np.ndarray],
    tokenizer: tokenization.AnyTokenizer | None = None,
) -> dict[str, bytes]:
    """Return the files of a preset by name.

    Args:
        weights: Variable name to array: the whole encoder. Heads are left out;
            without a pooler, `pooled_output` is 0.
        tokenizer: None: the preset has none.
    """
    huggingface.refuse_own_parts(config, "KerasHub", **_COMPUTED)
    groups = huggingface.groups_of(config)
    shared = dataclasses.replace(
        config, share="all", num_hidden_groups=groups, float_group_index=False
    )
    is_even = config.num_hidden_layers % groups == 0
    if not is_even or config.layer_groups != shared.layer_groups:
        raise errors.UserError(
            f"share={config.share!r} with {groups} num_hidden_groups for "
            f"{config.num_hidden_layers} num_hidden_layers has no counterpart "
            "in KerasHub: its groups share all parameters and have equally "
            "many layers. Keep this model in a checkpoint of this project."
        )
    model_type = huggingface.model_type_of(config)
    keys = _BACKBONES[f"{model_type.capitalize()}Backbone"]
    values = {theirs: getattr(shared, ours) for ours, theirs in keys.items()}
    return {
        CONFIG_NAME: _described(model_type, "Backbone", values),
        **(_tokenizer_files(tokenizer, model_type) if tokenizer else {}),
        _WEIGHTS: _weights_file(config, weights, model_type),
    }


def _weights_file(
    config: AlbertConfig, weights: Mapping[str, np.ndarray], model_type: str
) -> bytes:
    size = config.hidden_size
    weights = {
        f"{layouts.POOLER}/dense/kernel": np.zeros([size, size]),
        f"{layouts.POOLER}/dense/bias": np.zeros(size),
        **huggingface.with_mapping(config, weights),
    }
    content = io.BytesIO()
    with h5py.File(content, "w") as store:
        for ours, theirs in _names(config, model_type).items():
            value = weights[ours].astype(np.float32)
            shape = _shape_of_heads(theirs, config) or value.shape
            store[theirs] = value.reshape(shape)
    return content.getvalue()


def _shape_of_heads(name: str, config: AlbertConfig) -> tuple[int, ...] | None:
    """Return the shape there of what is divided among heads, else None."""
    size, heads = config.hidden_size, config.num_attention_heads
    shape, of_output = (heads, size // heads), "output_dense/" in name
    if f"{_ATTENTION}/" not in name or (of_output and name.endswith("/1")):
        return None
    if name.endswith("/1"):
        return shape
    return (*shape, size) if of_output else (size, *shape)


def _tokenizer_files(
    tokenizer: tokenization.AnyTokenizer, model_type: str
) -> dict[str, bytes]:
    rules = tokenizer.normalization
    is_words = rules.kind == normalization.WORDPIECE
    if is_words != (model_type == "bert") or "<s>" in tokenizer.special_pieces:
        raise errors.UserError(
            f"KerasHub's {model_type.upper()} has no tokenizer for a "
            f"vocabulary of {rules.kind} with {tokenizer.special_pieces[2]}: "
            "its ALBERT has SentencePiece, its BERT WordPiece, both with "
            "[CLS]. Use `format=huggingface`."
        )
    values: dict[str, Any] = {"vocabulary" if is_words else "proto": None}
    option = "vocab_file" if is_words else "spm_model_file"
    if isinstance(tokenizer, tokenization.Tokenizer):
        vocabulary = charsmap.cleaning_model(tokenizer)
    else:
        vocabulary = "".join(f"{p}\n" for p in tokenizer.pieces).encode()
        values["lowercase"] = rules.do_lower_case
        values["strip_accents"] = rules.of_classes["strip_accents"]
    return {
        _TOKENIZER: _described(model_type, "Tokenizer", values),
        VOCABULARY_NAMES[option]: vocabulary,
    }


def _described(model_type: str, kind: str, values: Mapping[str, Any]) -> bytes:
    """Return the JSON of which Keras makes a Backbone or Tokenizer."""
    module = f"keras_hub.src.models.{model_type}.{model_type}_{kind.lower()}"
    content = {
        "module": module,
        "class_name": f"{model_type.capitalize()}{kind}",
        "config": values,
        "registered_name": f"keras_hub>{model_type.capitalize()}{kind}",
    }
    return strict_json.dumps(content, indent=4).encode()
