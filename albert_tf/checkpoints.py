"""Checkpoints: find one, and put its weights into a model by name.

Variables of this project carry the names of the original release, and a TF2
checkpoint remembers the name of each variable beside its place in the object
graph. So one rule restores both kinds: equal names, equal shapes, nothing left
over, nothing left random.
"""

import dataclasses
import os
import re
from collections.abc import Iterable

import tensorflow as tf
import tf_keras as keras
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf import errors

# Name of the copy of the best evaluated checkpoint, as in the original.
BEST_NAME = "model.ckpt-best"
# Where a TF2 checkpoint keeps its object graph; TF1 checkpoints have none.
_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Optimizer state and counters: never part of a model. The `lamb_` names are
# those of an internal version of the original (export_checkpoints).
_NOT_WEIGHTS = re.compile(
    r"(^|/)(adam|lamb)_[mv](/|$)|^global_step$|^iteration$"
)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The weights of a checkpoint, by the original's variable names.

    Attributes:
        prefix: Path without `.index`.
        keys: Variable name to the key it is stored under.
    """

    prefix: str
    keys: dict[str, str]

    def load(self, names: Iterable[str]) -> dict[str, tf.Tensor]:
        """Read some weights.

        Raises:
            errors.UserError: The file that holds them is damaged.
        """
        reader = tf.train.load_checkpoint(self.prefix)
        try:
            return {name: reader.get_tensor(self.keys[name]) for name in names}
        except (tf.errors.OpError, IndexError) as error:
            raise _damaged(self.prefix, error) from None

    def shapes(self) -> dict[str, list[int]]:
        """Return the shape of every weight."""
        shapes = tf.train.load_checkpoint(
            self.prefix
        ).get_variable_to_shape_map()
        return {name: shapes[key] for name, key in self.keys.items()}


def find(path: str, option: str = "init_checkpoint") -> str:
    """Return the prefix of the checkpoint that `path` means.

    Args:
        path: A prefix (`.../model.ckpt-best`), one of its files, or a folder:
            then its best checkpoint, else its latest, is taken.
        option: Name of the option the path came from, for messages.

    Raises:
        errors.UserError: There is no checkpoint.
    """
    prefix = _SUFFIX.sub("", path.rstrip("/"))
    if tf.io.gfile.isdir(prefix):
        best = os.path.join(prefix, BEST_NAME)
        found = best if _is_prefix(best) else tf.train.latest_checkpoint(prefix)
        if found:
            return str(found)
        raise errors.UserError(
            f"--{option}={path} is a folder without a checkpoint (no "
            f"{BEST_NAME}.index, no file named checkpoint). Name the prefix, "
            "such as FOLDER/model.ckpt-125000."
        )
    if not _is_prefix(prefix):
        raise errors.UserError(
            f"--{option}={path} is not a checkpoint: {prefix}.index does not "
            "exist. Give the path up to, not including, '.index'."
        )
    return prefix


def _is_prefix(prefix: str) -> bool:
    return bool(tf.io.gfile.exists(prefix + ".index"))


def read(path: str, option: str = "init_checkpoint") -> Checkpoint:
    """Open a checkpoint of the original release or of this project.

    Raises:
        errors.UserError: There is none, or its files are damaged.
    """
    prefix = find(path, option)
    try:
        reader = tf.train.load_checkpoint(prefix)
        stored = reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH_KEY in stored:
            keys = _names_of_object_graph(reader.get_tensor(_OBJECT_GRAPH_KEY))
        else:
            keys = {name: name for name in stored}
    except (tf.errors.OpError, ValueError) as error:
        raise _damaged(f"--{option}={path}", error) from None
    # Variables taken out of a TF-Hub module carry one more scope.
    keys = {name.removeprefix("module/"): key for name, key in keys.items()}
    return Checkpoint(
        prefix, {n: k for n, k in keys.items() if not _NOT_WEIGHTS.search(n)}
    )


def _damaged(what: str, error: Exception) -> errors.UserError:
    return errors.UserError(
        f"{what} cannot be read: {error}. The file is damaged or incomplete; "
        "copy it again, or use an earlier checkpoint."
    )


def _names_of_object_graph(serialized: bytes) -> dict[str, str]:
    """Return variable name to checkpoint key for a TF2 checkpoint."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(serialized)
    return {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
    }


def name_of(variable: tf.Variable) -> str:
    """Return a variable's name in the original's checkpoints."""
    return str(variable.name).split(":", 1)[0]


def restore(
    model: keras.Model, path: str, option: str = "init_checkpoint"
) -> str:
    """Put the weights of a checkpoint into all variables of `model`.

    Weights of the checkpoint in scopes that the model does not have, such as
    the heads when an encoder is restored, are not wanted and not read.

    Args:
        model: An encoder, or an encoder with heads.
        path: See `find`.
        option: Name of the option the path came from, for messages.

    Returns:
        The prefix of the checkpoint.

    Raises:
        errors.UserError: A variable has no partner of its shape, or the
            checkpoint has more variables in the model's own scopes.
    """
    checkpoint = read(path, option)
    variables = {name_of(variable): variable for variable in model.variables}
    scopes = {name.split("/", 1)[0] for name in variables}
    shapes = {
        name: shape
        for name, shape in checkpoint.shapes().items()
        if name.split("/", 1)[0] in scopes
    }
    _check_partners(
        {name: list(v.shape) for name, v in variables.items()},
        shapes,
        f"--{option}={path}",
    )
    for name, value in checkpoint.load(variables).items():
        variables[name].assign(value)
    return checkpoint.prefix


def _check_partners(
    wanted: dict[str, list[int]], stored: dict[str, list[int]], what: str
) -> None:
    """Refuse unless both sides hold the same names with the same shapes."""
    lines = []
    for name in sorted(wanted.keys() | stored.keys()):
        if wanted.get(name) != stored.get(name):
            here = wanted.get(name, "nothing")
            there = stored.get(name, "nothing")
            lines.append(f"  {name}: model {here}, checkpoint {there}")
    if lines:
        raise errors.UserError(
            f"{what} does not fit the model:\n"
            + "\n".join(lines)
            + "\nUse the "
            "albert_config.json that belongs to the checkpoint."
        )
