"""The layout of BERT: its scopes of a layer, and Google's config file.

Layers share nothing and embeddings have the width of the encoder, so the
encoder of this project computes BERT with `share: none` and E = H. Names of
Hugging Face's BERT are these with dots, see huggingface_names.py.

Source: github.com/google-research/bert, modeling.py.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

CONFIG_NAME = "bert_config.json"
# The prefix in the archives of the release.
CHECKPOINT_NAME = "bert_model.ckpt"

# Scopes in a layer, theirs and ours.
SCOPES = (
    ("attention/self/query", "attention_1/self/query"),
    ("attention/self/key", "attention_1/self/key"),
    ("attention/self/value", "attention_1/self/value"),
    ("attention/output/dense", "attention_1/output/dense"),
    ("attention/output/LayerNorm", "LayerNorm"),
    ("intermediate/dense", "ffn_1/intermediate/dense"),
    ("output/dense", "ffn_1/intermediate/output/dense"),
    ("output/LayerNorm", "LayerNorm_1"),
)
OUR_LAYER = "bert/encoder/transformer/group_{group}/inner_group_{inner}/"
# brightmart's albert_zh has one layer, which is shared.
_LAYER = re.compile(r"bert/encoder/layer_(\d+|shared)/")

# Keys that say nothing about the network, with those that begin with pooler_.
_IGNORED_KEYS = ("directionality", "ln_type")
# Source: BertConfig; small files leave them out.
_DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
# Those that only files of this project and of the original ALBERT have.
_NOT_OF_BERT = ("embedding_size", "num_hidden_groups", "share", "model_type")


def our_name(name: str) -> str:
    """Return our name of a variable; names of other layouts stay.

    Example:
        our_name("bert/encoder/layer_3/output/LayerNorm/beta")
        = "bert/encoder/transformer/group_3/inner_group_0/LayerNorm_1/beta"
    """
    layer = _LAYER.match(name)
    if not layer:
        return name
    rest = name[layer.end() :]
    group = 0 if layer[1] == "shared" else int(layer[1])
    for theirs, ours in SCOPES:
        if rest.startswith(f"{theirs}/"):
            leaf = rest.removeprefix(theirs)
            return OUR_LAYER.format(group=group, inner=0) + ours + leaf
    return name


def describes_bert(values: Mapping[str, Any], path: str) -> bool:
    """Tell whether the content of a JSON file is Google's config of a BERT.

    Such a file has a name of its own, and no key that only it has.
    """
    is_bert = (
        os.path.basename(path) == CONFIG_NAME or "directionality" in values
    )
    return is_bert and not any(key in values for key in _NOT_OF_BERT)


def keys_of_network(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without what is not about the network."""
    return {
        key: value
        for key, value in values.items()
        if key not in _IGNORED_KEYS and not key.startswith("pooler_")
    }


def translate_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of Google's config under our keys.

    The activation gelu had the exact form when BERT was published, and has the
    tanh form in the last version of modeling.py. The exact one is taken, as in
    transformers: the same weights give the same numbers.
    """
    ours = keys_of_network(values)
    if ours.get("hidden_act", "gelu") == "gelu":
        ours["hidden_act"] = "gelu_erf"
    return complete(ours)


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """Add to BERT's keys its defaults, and what only our configs say."""
    values = {**_DEFAULTS, **values}
    own = {"share": "none", "embedding_size": values["hidden_size"]}
    return {**values, **own}
