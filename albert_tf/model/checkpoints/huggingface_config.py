"""The `config.json` of Hugging Face, translated from and to our keys.

Source of keys and values: transformers 5.23.0, AlbertConfig and BertConfig.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import errors
from albert_tf.model.checkpoints import bert

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
    "layer_norm_eps",
)
ONLY_ALBERT = ("embedding_size", "num_hidden_groups", "inner_group_num")
# What other values would mean, this project does not compute.
FIXED_VALUES = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
# Ours and theirs; of two of theirs, the first is written.
_ACTIVATIONS = (
    ("gelu", "gelu_new"),
    ("gelu", "gelu_pytorch_tanh"),
    ("gelu_erf", "gelu"),
    ("relu", "relu"),
    ("tanh", "tanh"),
    ("linear", "linear"),
)
# What transformers calls a class without a name.
_NO_NAME = "LABEL_{}"
_CHOICES = {
    "albert": "AlbertForMultipleChoice",
    "bert": "BertForMultipleChoice",
}
# Why models that look like BERT cannot be read.
_ROBERTA = (
    "{}, and its positions begin with 2, which this project does not compute"
)
_REFUSED = {
    **dict.fromkeys(
        ("roberta", "longformer", "bart", "mpnet"),
        _ROBERTA.format("It is RoBERTa's kind: texts are byte-level BPE"),
    ),
    **dict.fromkeys(
        ("xlm-roberta", "xlm-roberta-xl", "camembert"),
        _ROBERTA.format(
            "It is RoBERTa's kind: the ids of its SentencePiece vocabulary are "
            "shifted"
        ),
    ),
}
_ONE_LABEL = "single_label_classification"
_SEVERAL_LABELS = "multi_label_classification"


@dataclasses.dataclass(frozen=True)
class Details:
    """What `config.json` says besides the architecture.

    Attributes:
        labels: Names of a classifier's classes; empty if they are not known.
    """

    labels: Sequence[str] = ()
    is_regression: bool = False
    are_several: bool = False  # Whether a text may have several labels.
    is_choice: bool = False


def is_config(values: Mapping[str, Any]) -> bool:
    return model_type_of(values) is not None


def model_type_of(values: Mapping[str, Any]) -> Any:
    """Return the model_type; of old files, which lack it, that of the class."""
    if "model_type" in values:
        return values["model_type"]
    name = str(values.get("architectures")).lower()
    for model_type in _CHOICES:
        if name.startswith(f"['{model_type}"):
            return model_type
    return None


def translate(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the values of a `config.json` under our keys.

    Keys that say nothing about the network are left out.
    """
    model_type = model_type_of(values)
    if model_type not in list(_CHOICES):
        why = _REFUSED.get(str(model_type))
        raise errors.UserError(
            f"{path} has model_type={model_type!r}; only 'albert' and 'bert' "
            f"can be read.{f' {why}.' if why else ''} Choose a folder with an "
            "ALBERT or BERT."
        )
    for key, wanted in FIXED_VALUES.items():
        if values.get(key, wanted) != wanted:
            raise errors.UserError(
                f"{path} has {key}={values[key]!r}; this project computes "
                f"{wanted!r} only. Choose a model that was trained with it."
            )
    ours = {key: values[key] for key in SAME_KEYS if key in values}
    if model_type == "bert":
        for key in ONLY_ALBERT:
            ours.pop(key, None)
        ours = bert.complete(ours)
    if "hidden_act" in values or model_type == "bert":
        activation = values.get("hidden_act", "gelu")
        ours["hidden_act"] = _our_activation(activation, path)
    return ours


def classes(values: Mapping[str, Any]) -> list[str]:
    """Return the classes of transformers that a `config.json` names."""
    names = values.get("architectures")
    return [*filter(None, names)] if isinstance(names, list) else []


def has_class(values: Mapping[str, Any], name: str) -> bool:
    """Tell whether a `config.json` names a class of transformers as its own."""
    names = values.get("architectures")
    return isinstance(names, list) and name in names


def label_values(
    count: int, details: Details, model_type: str = "albert"
) -> dict[str, Any]:
    """Return the keys that say what the outputs of a classifier mean."""
    if details.is_choice:
        return {"architectures": [_CHOICES[model_type]]}
    labels = details.labels or [_NO_NAME.format(i) for i in range(count)]
    if len(labels) != count:
        raise errors.UserError(
            f"The classifier has {count} outputs, but {len(labels)} names: "
            f"{', '.join(labels)}. Mend id2label in {CONFIG_NAME}, or use the "
            "run that the checkpoint belongs to."
        )
    values: dict[str, Any] = {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    if details.is_regression:
        values["problem_type"] = "regression"
    elif details.are_several:
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
        are_several=kind == _SEVERAL_LABELS,
        is_choice=any(has_class(values, n) for n in _CHOICES.values()),
    )


def _labels(found: Any, path: str) -> list[str]:
    """Return the names in `id2label`, none if they only count."""
    if found is None:
        return []
    keys = list(map(str, range(len(found)))) if isinstance(found, dict) else []
    labels = [found[key] for key in keys if key in found]
    are_names = all(isinstance(name, str) and name.strip() for name in labels)
    if not are_names or not keys or len(set(labels)) < len(found):
        raise errors.UserError(
            f"{path} has id2label={found!r}. Allowed are the numbers from 0 "
            'on, each with a name of its own, such as {"0": "no", "1": '
            '"yes"}. Mend the file.'
        )
    unnamed = [_NO_NAME.format(index) for index in range(len(labels))]
    return [] if labels == unnamed else labels


def their_activation(ours: str) -> str:
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
