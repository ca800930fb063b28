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
NAMES = _CONFIG, _WEIGHTS, _TOKENIZER, *_VOCABULARIES.values()
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
    tokenizer: tokenization.AnyTokenizer,
) -> dict[str, bytes]:
    """Return the files of a preset by name.

    Args:
        weights: Variable name to array: the whole encoder. Heads are left out;
            without a pooler, `pooled_output` is 0.
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
    keys = _KEYS | (_ALBERT_KEYS if model_type == "albert" else {})
    values = {theirs: getattr(shared, ours) for ours, theirs in keys.items()}
    return {
        _CONFIG: _described(model_type, "Backbone", values),
        **_tokenizer_files(tokenizer, model_type),
        _WEIGHTS: _weights_file(config, weights, model_type),
    }


def _weights_file(
    config: AlbertConfig, weights: Mapping[str, np.ndarray], model_type: str
) -> bytes:
    size, heads = config.hidden_size, config.num_attention_heads
    weights = {
        f"{layouts.POOLER}/dense/kernel": np.zeros([size, size]),
        f"{layouts.POOLER}/dense/bias": np.zeros(size),
        **huggingface.with_mapping(config, weights),
    }
    content = io.BytesIO()
    with h5py.File(content, "w") as store:
        for ours, theirs in _names(config, model_type).items():
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
            f"KerasHub's {model_type.upper()} has no tokenizer for a "
            f"vocabulary of {rules.kind} with {tokenizer.special_pieces[2]}: "
            "its ALBERT has SentencePiece, its BERT WordPiece, both with "
            "[CLS]. Use `format=huggingface`."
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
