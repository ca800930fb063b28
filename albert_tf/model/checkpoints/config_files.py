"""Config files of all layouts, translated to our keys, and for Hugging Face.

Google's BERT: layers share nothing and embeddings have the width of the
encoder, so the encoder of this project computes it with `share: none` and
E = H. brightmart's albert_zh: these Chinese ALBERTs were published before
Google's. They project words to the hidden width first, then add segments and
positions and normalize (`project_words_first`).

XLM-R is a BERT whose first two positions are of padding. So is MPNet, without
segments, with T5's buckets of distances.

Sources: github.com/google-research/bert, modeling.py;
github.com/brightmart/albert_zh, modeling.py and run_pretraining.py;
transformers 5.23.0, AlbertConfig, BertConfig, MPNetConfig, XLMRobertaConfig.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.common import errors, imports
from albert_tf.model.checkpoints import layouts, tensor_files
from albert_tf.text import keras_hub_rules

keras_hub = imports.later("albert_tf.model.checkpoints.keras_hub")

HUB_NAME = "config.json"
BERT_NAME = "bert_config.json"

# Keys with the same meaning in our configs and in those of transformers.
SHARED_KEYS = (
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
    "layer_norm_eps",
)
_ALBERT_KEYS = ("embedding_size", "num_hidden_groups", "inner_group_num")
# Keys of a BERT that say nothing about the network, with those that begin with
# pooler_.
_IGNORED_BERT_KEYS = ("directionality", "ln_type")
# Keys that show that a file is not of Google's BERT.
_NON_BERT_KEYS = ("embedding_size", "num_hidden_groups", "share", "model_type")
# Source: BertConfig; small files leave them out.
_BERT_DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
# The only values of these keys that this project computes.
_REQUIRED_VALUES = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "relative_attention_num_buckets": 32,
}
# Theirs and ours; of two of theirs, the first is written.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# By model_type, the key for the dropout of heads.
_DROPOUT_KEYS = {
    "albert": "classifier_dropout_prob",
    "bert": "classifier_dropout",
}
# Why models that look like BERT cannot be read.
_REFUSED_TYPES = dict.fromkeys(
    ("roberta", "longformer", "bart"),
    "Its texts are byte-level BPE, which this project does not have",
)
# What transformers calls a class without a name.
_NO_NAME = "LABEL_{}"
_ONE_LABEL = "single_label_classification"
_SEVERAL_LABELS = "multi_label_classification"


def build(
    values: Mapping[str, Any],
    path: str,
    source: str,
    make: Callable[[Mapping[str, Any], str], Any],
) -> Any:
    """Build an `AlbertConfig` from what any config file holds.

    Args:
        source: What messages call the file.
        make: `AlbertConfig.from_dict`, whose module imports this one.
    """
    if keras_hub_rules.is_config(values):
        return keras_hub.build(values, source, make)
    if model_type_of(values) is None:
        return make(_translate_google(values, path, source), source)
    return build_hub(values, path, source, make)


def _translate_google(
    values: Mapping[str, Any], path: str, source: str
) -> Mapping[str, Any]:
    """Return the keys of `AlbertConfig` for a file of BERT or brightmart.

    A file of brightmart is BERT's with embedding_size and, since October 2019,
    ln_type. Google's BERT has `BERT_NAME` or directionality. Other files are
    ours, and stay.

    The activation gelu had the exact form when BERT was published, and has the
    tanh form in the last version of modeling.py. The exact one is taken, as in
    transformers: the same weights give the same numbers.
    """
    albert_values = {
        key: value
        for key, value in values.items()
        if key not in _IGNORED_BERT_KEYS and not key.startswith("pooler_")
    }
    is_bert = "directionality" in values
    if "ln_type" in values or (is_bert and "embedding_size" in values):
        if values.get("ln_type") not in (None, "postln"):
            raise errors.UserError(
                f"{source} has ln_type={values['ln_type']!r}: this model of "
                "brightmart's albert_zh normalizes before attention and "
                "feed-forward, which this project does not compute. Choose one "
                "with postln (tiny, base, large), or one of Google's Chinese "
                "models, such as albert_xlarge_zh."
            )
        return {**albert_values, "project_words_first": True}
    is_bert = is_bert or os.path.basename(path) == BERT_NAME
    if not is_bert or any(key in values for key in _NON_BERT_KEYS):
        return values
    if albert_values.get("hidden_act", "gelu") == "gelu":
        albert_values["hidden_act"] = "gelu_erf"
    return _add_bert_defaults(albert_values)


def _add_bert_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Add defaults of missing keys, and how BERT is expressed as an ALBERT."""
    values = {**_BERT_DEFAULTS, **values}
    width = values["hidden_size"]
    return {**values, "share": "none", "embedding_size": width}


def model_type_of(values: Mapping[str, Any]) -> Any:
    """Return the model_type; of old files, which lack it, that of the class.

    Only a `config.json` of Hugging Face has one.
    """
    if "model_type" in values:
        return values["model_type"]
    name = str(values.get("architectures")).lower()
    for model_type in layouts.CLASSES:
        if name.startswith(f"['{model_type.replace('-', '')}"):
            return model_type
    return None


def build_hub(
    values: Mapping[str, Any],
    path: str,
    source: str,
    make: Callable[[Mapping[str, Any], str], Any],
) -> Any:
    """Build an `AlbertConfig` from a `config.json` of Hugging Face.

    The weights beside it say whether embeddings of the encoder's width are
    mapped.
    """
    config = make(_translate_hub(values, source), source)
    if model_type_of(values) != "albert":
        return config
    if config.embedding_size == config.hidden_size:
        maps = tensor_files.has_nontrivial_projection(os.path.dirname(path))
        config = dataclasses.replace(config, map_equal_sizes=maps)
    if not same_groups(config, config.num_hidden_groups):
        raise errors.UserError(
            f"{source} has {config.num_hidden_groups} num_hidden_groups for "
            f"{config.num_hidden_layers} num_hidden_layers. For these, "
            "transformers rounds the group of a layer in another way than this "
            "project. Choose a model whose groups divide its layers."
        )
    return config


def same_groups(config: Any, groups: int) -> bool:
    """Tell whether transformers would use the same parameters in each layer.

    Source: transformers, AlbertTransformer.forward. The two divisions round
    differently from both of `AlbertConfig.group_of_layer`.
    """
    layers = config.num_hidden_layers
    hub_groups = [int(layer / (layers / groups)) for layer in range(layers)]
    return bool(config.layer_groups == [(group, group) for group in hub_groups])


def _translate_hub(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the keys of `AlbertConfig` for a `config.json` of Hugging Face.

    Keys that change what the encoder computes are translated or refused; others
    are ignored. Without hidden_act an ALBERT has the default of `AlbertConfig`.
    """
    model_type = model_type_of(values)
    if model_type not in list(layouts.CLASSES):
        reason = _REFUSED_TYPES.get(str(model_type))
        raise errors.UserError(
            f"{source} has model_type={model_type!r}; only "
            f"{', '.join(layouts.CLASSES)} can be "
            f"read.{f' {reason}.' if reason else ''} Choose a folder with one "
            "of them."
        )
    required = dict(_REQUIRED_VALUES)
    if model_type == "xlm-roberta":
        required["pad_token_id"] = 1  # Its positions begin behind it.
    for key, expected in required.items():
        if values.get(key, expected) != expected:
            raise errors.UserError(
                f"{source} has {key}={values[key]!r}; this project computes "
                f"{expected!r} only. Choose a model that was trained with it."
            )
    albert_values = {key: values[key] for key in SHARED_KEYS if key in values}
    if model_type != "albert":
        albert_values = _translate_bert(albert_values, model_type)
    if "hidden_act" in values or model_type != "albert":
        activation = values.get("hidden_act", "gelu")
        if activation not in list(_ACTIVATIONS):
            raise errors.UserError(
                f"{source} has hidden_act={activation!r}. Allowed are "
                f"{', '.join(_ACTIVATIONS)}. Choose a model that was trained "
                "with one of them."
            )
        albert_values["hidden_act"] = _ACTIVATIONS[activation]
    return albert_values


def _translate_bert(
    values: Mapping[str, Any], model_type: str
) -> dict[str, Any]:
    """Return the keys of a BERT, or of what is like one, as an ALBERT's."""
    values = _add_bert_defaults(
        {k: value for k, value in values.items() if k not in _ALBERT_KEYS}
    )
    rows = values.get("max_position_embeddings", 512)
    if type(rows) is int:  # Else it is refused later.
        rows -= layouts.FIRST_POSITIONS.get(model_type, 0)
    values["max_position_embeddings"] = rows
    if model_type == "mpnet":
        values |= {"type_vocab_size": 1, "position_bias": "buckets"}
    return values


def for_hub(config: Any, groups: int, model_type: str) -> dict[str, Any]:
    """Return the network's part of a `config.json`, for an `AlbertConfig`."""
    values = {key: getattr(config, key) for key in SHARED_KEYS}
    values["num_hidden_groups"] = groups
    if model_type == "bert":
        for key in _ALBERT_KEYS:
            del values[key]
    activations = {
        ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())
    }
    return {
        **values,
        "hidden_act": activations[config.hidden_act],
        "model_type": model_type,
        "tie_word_embeddings": True,
        # In training; ours have the same by default.
        _DROPOUT_KEYS[model_type]: 0.1,
        "dtype": "float32",
    }


def classes(values: Mapping[str, Any]) -> list[str]:
    """Return the classes of transformers that a `config.json` names."""
    names = values.get("architectures")
    return [*filter(None, names)] if isinstance(names, list) else []


@dataclasses.dataclass(frozen=True)
class Details:
    """What `config.json` says about the outputs of a classifier.

    Attributes:
        labels: Names of the classes; empty if they are not known.
    """

    labels: Sequence[str] = ()
    is_regression: bool = False
    is_multi_label: bool = False  # Whether a text may have several labels.
    is_choice: bool = False


def for_labels(
    count: int, details: Details, model_type: str = "albert"
) -> dict[str, Any]:
    """Return the keys that say what the outputs of a classifier mean."""
    if details.is_choice:
        return {
            "architectures": [f"{layouts.CLASSES[model_type]}ForMultipleChoice"]
        }
    labels = details.labels or [_NO_NAME.format(i) for i in range(count)]
    if len(labels) != count:
        raise errors.UserError(
            f"The classifier has {count} outputs, but {len(labels)} names: "
            f"{', '.join(labels)}. Mend id2label in {HUB_NAME}, or use the run "
            "that the checkpoint belongs to."
        )
    values: dict[str, Any] = {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    if details.is_regression:
        values["problem_type"] = "regression"
        values["sentence_transformers"] = {
            "activation_fn": "torch.nn.modules.linear.Identity"
        }
    elif details.is_multi_label:
        values["problem_type"] = _SEVERAL_LABELS
    elif details.labels:
        values["problem_type"] = _ONE_LABEL
    return values


def read_details(values: Mapping[str, Any], path: str) -> Details:
    """Return what a `config.json` says about the outputs of a classifier."""
    kind = values.get("problem_type")
    allowed = None, "regression", _ONE_LABEL, _SEVERAL_LABELS
    if kind not in allowed:
        raise errors.UserError(
            f"{path} has problem_type={kind!r}. Allowed are "
            f"{', '.join(map(str, allowed[1:]))}. Mend the file."
        )
    return Details(
        labels=_labels(values.get("id2label"), path),
        is_regression=kind == "regression",
        is_multi_label=kind == _SEVERAL_LABELS,
        is_choice=any(
            f"{name}ForMultipleChoice" in classes(values)
            for name in layouts.CLASSES.values()
        ),
    )


def _labels(table: Any, path: str) -> list[str]:
    """Return the names in `id2label`; none if they are LABEL_0, LABEL_1, ..."""
    if table is None:
        return []
    keys = list(map(str, range(len(table)))) if isinstance(table, dict) else []
    labels = [table[key] for key in keys if key in table]
    are_names = all(isinstance(name, str) and name.strip() for name in labels)
    if not are_names or not keys or len(set(labels)) < len(table):
        raise errors.UserError(
            f"{path} has id2label={table!r}. Allowed are the numbers from 0 "
            'on, each with a name of its own, such as {"0": "no", "1": '
            '"yes"}. Mend the file.'
        )
    unnamed = [_NO_NAME.format(index) for index in range(len(labels))]
    return [] if labels == unnamed else labels
