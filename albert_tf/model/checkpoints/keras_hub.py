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
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from albert_tf.common import errors, strict_json
from albert_tf.model.checkpoints import config_files, huggingface, layouts
from albert_tf.model.config import AlbertConfig
from albert_tf.text import charsmap, normalization, tokenization

_CONFIG = config_files.HUB_NAME
_WEIGHTS = "model.weights.h5"
_TOKENIZER = "tokenizer.json"
_VOCABULARIES = {
    "albert": "assets/tokenizer/vocabulary.spm",
    "bert": "assets/tokenizer/vocabulary.txt",
}
_DESCRIPTION = normalization.path_beside(_VOCABULARIES["bert"])
NAMES = _CONFIG, _WEIGHTS, _TOKENIZER, *_VOCABULARIES.values(), _DESCRIPTION
# Arguments of the encoders, by our keys.
_KEYS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}
_ALL_KEYS = {
    "bert": _KEYS,
    "albert": {
        **_KEYS,
        "num_hidden_groups": "num_groups",
        "inner_group_num": "num_inner_repetitions",
        "embedding_size": "embedding_dim",
    },
}
# All that they compute.
_COMPUTED: dict[str, Any] = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "project_words_first": False,
}
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


def _names(config: AlbertConfig) -> dict[str, str]:
    """Return names of variables there, by ours."""
    dense = [f"{layouts.POOLER}/dense"]
    if huggingface.model_type_of(config) == "albert":
        dense.insert(0, layouts.MAPPING)
    inner, names = config.inner_group_num, {}
    for ours, kind, theirs in [
        *_ROWS,
        *(
            (name, "dense", f"dense{_ending(i)}")
            for i, name in enumerate(dense)
        ),
    ]:
        is_layer = ours.startswith(layouts.OUR_LAYER)
        count = huggingface.groups_of(config) * inner if is_layer else 1
        for index in range(count):
            place = {"group": index // inner, "inner": index % inner}
            layer = theirs.format(number=_ending(index))
            for n, (leaf, _) in enumerate(layouts.LEAVES[kind]):
                name = (ours + leaf).format(**place)
                names[name] = f"layers/{layer}/vars/{n}"
    return names


def _ending(index: int) -> str:
    """Return how Keras ends the name of a layer of a class."""
    return f"_{index}" if index else ""


def contents(
    config: AlbertConfig,
    weights: Mapping[str, np.ndarray],
    tokenizer: tokenization.AnyTokenizer,
) -> dict[str, bytes]:
    """Return the files of a preset by name.

    Args:
        weights: Variable name to array: the whole encoder. Heads are left out;
            without a pooler, `pooled_output` is 0.
    """
    groups = huggingface.groups_of(config)
    huggingface.refuse_own_parts(config, "KerasHub", **_COMPUTED)
    shared = dataclasses.replace(
        config, share="all", num_hidden_groups=groups, float_group_index=False
    )
    if config.num_hidden_layers % groups or (
        config.layer_groups != shared.layer_groups
    ):
        raise errors.UserError(
            f"share={config.share!r} with {groups} num_hidden_groups for "
            f"{config.num_hidden_layers} num_hidden_layers has no counterpart "
            "in KerasHub: its groups share all parameters and have equally "
            "many layers. Keep this model in a checkpoint of this project."
        )
    model_type = huggingface.model_type_of(config)
    values = {
        n: getattr(shared, key) for key, n in _ALL_KEYS[model_type].items()
    }
    return {
        _CONFIG: _described(model_type, "Backbone", values),
        **_tokenizer_files(tokenizer, model_type),
        _WEIGHTS: _weights_file(config, weights),
    }


def _weights_file(
    config: AlbertConfig, weights: Mapping[str, np.ndarray]
) -> bytes:
    size, heads = config.hidden_size, config.num_attention_heads
    pooler = {"kernel": np.zeros([size, size]), "bias": np.zeros(size)}
    weights = {
        **{f"{layouts.POOLER}/dense/{n}": zero for n, zero in pooler.items()},
        **huggingface.with_mapping(config, weights),
    }
    content = io.BytesIO()
    with h5py.File(content, "w") as store:
        for ours, theirs in _names(config).items():
            value = weights[ours].astype(np.float32)
            if f"{_ATTENTION}/output_dense/vars/0" in theirs:
                value = value.reshape(heads, -1, size)
            elif f"{_ATTENTION}/" in theirs and "output" not in theirs:
                value = value.reshape(*value.shape[:-1], heads, -1)
            store[theirs] = value
    return content.getvalue()


def _tokenizer_files(
    tokenizer: tokenization.AnyTokenizer, model_type: str
) -> dict[str, bytes]:
    rules = tokenizer.normalization
    is_words = rules.kind == normalization.WORDPIECE
    if is_words != (model_type == "bert") or "<s>" in tokenizer.special_pieces:
        raise errors.UserError(
            f"KerasHub's {model_type.upper()} has no tokenizer for this "
            f"vocabulary, which is of {rules.kind} with "
            f"{' '.join(tokenizer.special_pieces)}: its ALBERT has a "
            "SentencePiece model with [CLS] and [SEP], its BERT such a "
            "WordPiece list. Use `format=huggingface`."
        )
    values: dict[str, Any] = {"vocabulary" if is_words else "proto": None}
    if isinstance(tokenizer, tokenization.Tokenizer):
        vocabulary = charsmap.cleaning_model(tokenizer)
    else:
        vocabulary = "".join(f"{p}\n" for p in tokenizer.pieces).encode()
        values["lowercase"] = rules.do_lower_case
        values["strip_accents"] = rules.of_classes["strip_accents"]
    return {
        _TOKENIZER: _described(model_type, "Tokenizer", values),
        _VOCABULARIES[model_type]: vocabulary,
        _DESCRIPTION: rules.to_json().encode(),
    }


def _described(model_type: str, kind: str, values: Mapping[str, Any]) -> bytes:
    """Return the JSON of which Keras makes a Backbone or Tokenizer."""
    name = model_type.capitalize() + kind
    module = f"keras_hub.src.models.{model_type}.{model_type}_{kind.lower()}"
    content = {
        "module": module,
        "class_name": name,
        "config": values,
        "registered_name": f"keras_hub>{name}",
    }
    return strict_json.dumps(content, indent=4).encode()
