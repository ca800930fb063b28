"""The `config.json` of Hugging Face, translated from and to our keys.

Source of keys and values: transformers 5.23.0, AlbertConfig.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf.common import errors

CONFIG_NAME = "config.json"

# Keys that mean the same on both sides.
SAME_KEYS = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)
# What other values would mean, this project does not compute.
FIXED_VALUES = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
# Ours and theirs; of two of theirs, the first is written.
_ACTIVATIONS = (
    ("gelu", "gelu_new"),
    ("gelu", "gelu_pytorch_tanh"),
    ("gelu_erf", "gelu"),
    ("relu", "relu"),
    ("tanh", "tanh"),
    ("linear", "linear"),
)


def describes_albert(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a JSON file is such a config."""
    return values.get("model_type") == "albert"


def translate(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the values of a `config.json` under our keys.

    Keys that say nothing about the network are left out.

    Args:
        values: Content of the file.
        path: Where it came from, for messages.

    Raises:
        errors.UserError: It describes a network that this project cannot
            compute.
    """
    if not describes_albert(values):
        raise errors.UserError(
            f"{path} has model_type={values.get('model_type')!r}; only "
            "'albert' can be read. Choose a folder with an ALBERT."
        )
    for key, wanted in FIXED_VALUES.items():
        if values.get(key, wanted) != wanted:
            raise errors.UserError(
                f"{path} has {key}={values[key]!r}; this project computes "
                f"{wanted!r} only. Choose a model that was trained with it."
            )
    ours = {key: values[key] for key in SAME_KEYS if key in values}
    if "hidden_act" in values:
        ours["hidden_act"] = _our_activation(values["hidden_act"], path)
    return ours


def their_activation(ours: str) -> str:
    """Return Hugging Face's name of an activation."""
    return next(theirs for name, theirs in _ACTIVATIONS if name == ours)


def _our_activation(theirs: Any, path: str) -> str:
    names = {other: ours for ours, other in _ACTIVATIONS}
    if theirs not in list(names):
        raise errors.UserError(
            f"{path} has hidden_act={theirs!r}. Allowed are "
            f"{', '.join(names)}. Choose a model that was trained with one of "
            "them."
        )
    return names[theirs]
