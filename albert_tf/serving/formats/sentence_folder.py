"""A folder that sentence-transformers uses: `hub_folder`, and what follows.

modules.json                the steps from text to vector, in order
sentence_bert_config.json   tokens of a text, at most
1_Pooling/config.json       from the vectors of tokens to one
2_Dense/                    the projection, where the model has one

The last step, which divides by the length, has no file.

Source of names and keys: sentence-transformers 2.2; 6.2.0 reads them, too.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from albert_tf.common import strict_json
from albert_tf.model.checkpoints import huggingface_names, sentence_modules
from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.serving.formats import hub_folder, model_card

NAMES = sentence_modules.NAMES
_MODULES, _LENGTH, _POOLING, _DENSE, _WEIGHTS = NAMES
_MODES = sentence_modules.MODES
assert _MODES.keys() == set(TEXT_POOLINGS)


def write(
    folder: str,
    model: hub_folder.Model,
    text_pooling: str,
    max_seq_length: int,
) -> None:
    """Write the folder.

    Args:
        model: Of its weights only encoder and projection are written. A pooler
            that transformers does not have is left out: nothing reads it.
    """
    config, weights = model.config, dict(model.weights)
    projection = {
        leaf: weights.pop(f"{sentence_modules.SCOPE}/{leaf}", None)
        for leaf in ("kernel", "bias")
    }
    has_pooler = config.pooling == "cls"
    kept = {
        name: value
        for name, value in weights.items()
        if name.startswith("bert/")
        and (has_pooler or not name.startswith(f"{huggingface_names.POOLER}/"))
    }
    more = {
        _LENGTH: _json(
            {"max_seq_length": max_seq_length, "do_lower_case": False}
        ),
        _POOLING: _json(
            {
                "word_embedding_dimension": config.hidden_size,
                **{k: m == text_pooling for m, k in _MODES.items()},
                "pooling_mode_mean_sqrt_len_tokens": False,
            }
        ),
        **_projection_files(projection),
    }
    more[_MODULES] = _json(_modules(_DENSE in more))
    hub_folder.write(
        folder,
        dataclasses.replace(
            model,
            config=dataclasses.replace(config, pooling="cls"),
            weights=kept,
            details=None,
            shown_as=model_card.SENTENCES,
        ),
        more,
    )


def _projection_files(
    projection: Mapping[str, np.ndarray | None],
) -> dict[str, bytes]:
    kernel, bias = projection["kernel"], projection["bias"]
    if kernel is None or bias is None:
        return {}
    config = {
        "in_features": kernel.shape[0],
        "out_features": kernel.shape[1],
        "bias": True,
        "activation_function": sentence_modules.IDENTITY,
    }
    tensors = {
        "linear.weight": np.ascontiguousarray(kernel.T),
        "linear.bias": bias,
    }
    return {
        _DENSE: _json(config),
        _WEIGHTS: safetensors.numpy.save(tensors, {"format": "pt"}),
    }


def _modules(has_projection: bool) -> list[dict[str, Any]]:
    kinds = ["Transformer", "Pooling", "Normalize"]
    if has_projection:
        kinds.insert(2, "Dense")
    return [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]


def _json(value: Any) -> bytes:
    return (strict_json.dumps(value, indent=2) + "\n").encode()
