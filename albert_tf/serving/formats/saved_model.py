"""Services to SavedModels."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from albert_tf.common import files
from albert_tf.serving.formats import warm_up
from albert_tf.serving.services import service


def _variables(signatures: dict[str, Any]) -> Iterable[tf.Variable]:
    """Return all variables that signatures use, each once, by their names."""
    variables: dict[Any, tf.Variable] = {}
    for function in signatures.values():
        for variable in function.get_concrete_function().variables:
            variables.setdefault(variable.ref(), variable)
    # TensorFlow keeps a function's in sets: their order changes.
    return sorted(variables.values(), key=lambda variable: variable.name)


def save(what: service.Service, path: str, *, with_text: bool = True) -> None:
    """Write a SavedModel.

    Args:
        with_text: Whether to include the tokenizer and the signatures that
            take text. Without them no operation of tensorflow_text is used.
    """
    signatures = what.functions if with_text else service.id_functions(what)
    root = tf.Module()
    # Not the Keras model, which would bring its own functions, and variables
    # that a converted encoder does not use any more.
    root.weights = list(_variables(signatures))
    if with_text:
        root.tokenizer = what.tokenizer
    with files.name_full_disk(path):
        tf.saved_model.save(root, path, signatures=signatures)
        samples = what.samples()
        warm_up.write(path, {name: samples[name] for name in signatures})
