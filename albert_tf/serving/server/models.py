"""Load the SavedModels of a server."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.common import errors, files
from albert_tf.serving.client import ask, views
from albert_tf.serving.server import schema


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A loaded SavedModel.

    Attributes:
        signatures: Those that can be asked in JSON.
        form: None if the page cannot show it.
        definitions: The protocol buffers of all signatures, as JSON.
    """

    name: str
    version: str
    signatures: Mapping[str, ask.Signature]
    form: views.Form | None
    definitions: Mapping[str, Any]


def load(name: str, version: str, folder: str) -> ServedModel:
    """Load a version, and ask each signature once: the first call is slow."""
    loaded = ask.open_model(folder)
    signatures = {key: ask.Signature(loaded, key) for key in loaded.signatures}
    usable = {
        key: signature
        for key, signature in sorted(signatures.items())
        if schema.can_be_asked(signature.specs)
    }
    for key in sorted(signatures.keys() - usable.keys()):
        logging.warning(
            "%s: the signature %s is left out: its inputs are no rows of "
            "texts or numbers.",
            folder,
            key,
        )
    if not usable:
        raise errors.UserError(
            f"`saved_model={folder}` has no signature that can be asked. "
            "Export it again with albert_tf.export."
        )
    ask.warn_of_prompts(folder)
    for key, signature in usable.items():
        _warm_up(signature, f"{folder}: the signature {key}")
    definitions = _definitions(folder, usable)
    return ServedModel(name, version, usable, views.find(usable), definitions)


def _warm_up(signature: ask.Signature, place: str) -> None:
    inputs = {
        name: np.full(
            [size or 1 for size in spec.shape],
            "" if spec.dtype == tf.string else int(name == "input_mask"),
            "O" if spec.dtype == tf.string else spec.dtype.as_numpy_dtype,
        )
        for name, spec in signature.specs.items()
    }
    try:
        signature.compute(inputs)
    except tf.errors.OpError as error:
        logging.warning("%s failed to warm up: %s", place, error.message)


def _definitions(folder: str, names: Mapping[str, Any]) -> dict[str, Any]:
    with files.open_binary(os.path.join(folder, "saved_model.pb")) as stream:
        saved = saved_model_pb2.SavedModel.FromString(stream.read())
    return {
        name: json_format.MessageToDict(
            saved.meta_graphs[0].signature_def[name],
            always_print_fields_with_no_presence=True,
            preserving_proto_field_name=True,
        )
        for name in names
    }
