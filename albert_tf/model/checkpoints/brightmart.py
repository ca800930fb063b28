"""The layout of brightmart's albert_zh: its config files and variable names.

These Chinese ALBERTs were published before Google's. They project words to the
hidden width first, then add segments and positions and normalize
(`project_words_first`). All layers share their parameters, which
have the names of BERT under `layer_shared`.

Source: github.com/brightmart/albert_zh, modeling.py and run_pretraining.py.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf.common import errors

# The variable that only this layout has: [E, H].
PROJECTION = "bert/embeddings/word_embeddings_2"

# Keys that say nothing about the network, with those that begin with pooler_.
_IGNORED_KEYS = ("directionality", "ln_type")

_LAYERS = (
    "bert/encoder/layer_shared/",
    "bert/encoder/transformer/group_0/inner_group_0/",
)
# Scopes in a layer, theirs and ours.
_SCOPES = (
    ("attention/self/", "attention_1/self/"),
    ("attention/output/dense/", "attention_1/output/dense/"),
    ("attention/output/LayerNorm/", "LayerNorm/"),
    ("intermediate/dense/", "ffn_1/intermediate/dense/"),
    ("output/dense/", "ffn_1/intermediate/output/dense/"),
    ("output/LayerNorm/", "LayerNorm_1/"),
)


def describes_albert(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a JSON file is such a config.

    It is BERT's with two more keys, the second of them since October 2019.
    """
    return "ln_type" in values or {"directionality", "embedding_size"} <= set(
        values
    )


def translate_config(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the values of such a config under our keys."""
    if values.get("ln_type") not in (None, "postln"):
        raise errors.UserError(
            f"{path} has ln_type={values['ln_type']!r}: this model of "
            "brightmart's albert_zh normalizes before attention and "
            "feed-forward, which this project does not compute. Choose one "
            "with postln (tiny, base, large), or one of Google's Chinese "
            "models, such as albert_xlarge_zh."
        )
    ours = {
        key: value
        for key, value in values.items()
        if key not in _IGNORED_KEYS and not key.startswith("pooler_")
    }
    return {**ours, "project_words_first": True}


def our_name(name: str) -> str:
    """Return our name of a variable; names of other layouts stay.

    Example:
        our_name("bert/encoder/layer_shared/output/LayerNorm/beta")
        = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/beta"
    """
    their_layer, our_layer = _LAYERS
    for theirs, ours in _SCOPES:
        if name.startswith(their_layer + theirs):
            return our_layer + ours + name.removeprefix(their_layer + theirs)
    return name
