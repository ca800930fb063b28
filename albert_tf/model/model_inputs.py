"""The inputs of models: their names, the other names they may have, checks."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.common import errors

ENCODER = ("input_ids", "input_mask", "segment_ids", "position_ids")
# Of training batches: a seed for the step, int32 [2], the same on all replicas,
# for what is drawn for each example.
SEED = "seed"
# Further names in batches of this project's records and features.
# A model that does not need them ignores them.
BATCH = (
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "token_boundary",
    "query_ids",
    "target_ids",
    "ranks",
    "horizons",
    "instance_ids",
    "cls_positions",
    "next_sentence_labels",
    "sentence_task",
    "marks",
    "label_ids",
    "is_real_example",
    "unique_ids",
    "record_number",
    SEED,
    "p_mask",
    "start_positions",
    "end_positions",
    "is_impossible",
)
# Names of Hugging Face, and ours.
ALIASES = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}


def standardize(inputs: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return a model's inputs, or `input_ids` alone, by this project's names.

    The names of `ALIASES` are translated, those of `BATCH` are left out.
    """
    _refuse_keras_3(inputs)
    if not isinstance(inputs, Mapping):
        inputs = {"input_ids": inputs}
    standardized: dict[str, Any] = {}
    for key, value in inputs.items():
        name = ALIASES.get(key, key)
        if name in BATCH and name not in names:
            continue
        if name not in names:
            aliases = "; ".join(f"{a} means {b}" for a, b in ALIASES.items())
            raise errors.UserError(
                f"Unknown input {key!r}. Known are {', '.join(names)} "
                f"({aliases}). Rename it, or leave it out."
            )
        if name in standardized:
            raise errors.UserError(
                f"{key!r} gives {name} a second time. Give it under one name."
            )
        standardized[name] = value
    if "input_ids" not in standardized:
        raise errors.UserError(
            f"input_ids are missing; the inputs are {', '.join(inputs)}. Give "
            "the ids of the pieces, whole numbers [batch, sequence]."
        )
    _check_ids(standardized["input_ids"])
    mask = standardized.get("input_mask")
    if tf.as_dtype(getattr(mask, "dtype", tf.int32)) == tf.bool:
        standardized["input_mask"] = tf.cast(mask, tf.int32)
    return standardized


def _check_ids(ids: Any) -> None:
    dtype = getattr(ids, "dtype", None)
    if dtype is not None and not tf.as_dtype(dtype).is_integer:
        raise errors.UserError(
            f"input_ids are {tf.as_dtype(dtype).name}; they must be whole "
            'numbers. Use int32, such as keras.Input([None], dtype="int32").'
        )


def _refuse_keras_3(inputs: Any) -> None:
    """Refuse to be used in a model of Keras 3, which ignores our variables."""
    tensors = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    symbolic = any(
        type(tensor).__module__.startswith("keras.") for tensor in tensors
    )
    # Where Keras 3 keeps the layer that is being called.
    state = sys.modules.get("keras.src.backend.common.global_state")
    if symbolic or (state and state.get_global_attribute("current_call_ctx")):
        raise errors.UserError(
            "This model belongs to Keras 2 (tf_keras) and cannot be a part of "
            "a Keras 3 model, which would not train or save its variables. "
            "Build it with tf_keras (import tf_keras as keras), or "
            "set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported."
        )
