"""Read checkpoints of any kind by the original's variable names.

Variables of this project carry the names of the original release, a TF2
checkpoint stores the name of each variable beside its place in the object
graph, and layouts.py knows the names of others.
"""

import dataclasses
import errno
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.common import errors, files
from albert_tf.model.checkpoints import (
    checkpoint_files,
    config_files,
    huggingface,
    keras_hub,
    layouts,
    sentence_modules,
    tensor_files,
)
from albert_tf.model.config import AlbertConfig

CONFIG_NAME = checkpoint_files.CONFIG_NAME
# Where a TF2 checkpoint keeps its object graph; TF1 checkpoints have none.
_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Names of the optimizer's variables: VARIABLE/adam_m in TF1 checkpoints,
# adam_m/VARIABLE in ours. The `lamb_` names are those of an internal version
# of the original (export_checkpoints).
_MOMENT = re.compile(r"^(.*)/(?:adam|lamb)_([mv])$|^adam_([mv])/(.*)$")
_COUNTERS = [
    "iteration",
    "current_learning_rate",
    "learning_rate",
    "pace",
    "skipped",
    "skipped_in_row",
    "good_in_row",
    "loss_scale",
    "elapsed",
    "save_counter",
]
# What TensorFlow 1's own Adam writes; it fits no optimizer of ours.
_OTHER_STATE = re.compile(r"/Adam(_1)?$|^beta[12]_power$")
# Heads whose variables have no scope in common.
_HEADS = {
    "output_weights": "classifier",
    "output_bias": "classifier",
    "start_logits": "squad_v2",
    "end_logits": "squad_v2",
    "answer_class": "squad_v2",
}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The weights of a checkpoint, by the original's variable names.

    Attributes:
        path: What `checkpoint_files.find` returns.
        shapes: Variable name to its shape, without optimizer state.
        config: The architecture in the config file beside it, if there is one.
        load: Variable names to their values. A damaged file is a `UserError`.
        state: Optimizer state, if any: `VARIABLE/adam_m`, `VARIABLE/adam_v`
            and `global_step`, to be loaded like weights.
    """

    path: str
    shapes: Mapping[str, list[int]]
    config: AlbertConfig | None
    load: Callable[[Iterable[str]], dict[str, np.ndarray]]
    state: Collection[str] = ()

    @property
    def projection_size(self) -> int:
        """Width of the linear layer after the pooling of vectors; 0: none."""
        return self.shapes.get(f"{sentence_modules.SCOPE}/bias", [0])[0]


def read(path: str, option: str = "init_checkpoint") -> Checkpoint:
    """Open a checkpoint of any kind that `find` knows.

    A run may replace its best one meanwhile; it is read again then.
    """
    target = checkpoint_files.find(path, option)
    if not checkpoint_files.is_prefix(target):
        return _read_folder(target)
    before = checkpoint_files.identities(target)

    def is_replaced() -> bool:
        return checkpoint_files.identities(target) != before

    try:
        reader = tf.train.load_checkpoint(target)
        shapes = reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH_KEY in shapes:
            keys = _names_of_object_graph(reader.get_tensor(_OBJECT_GRAPH_KEY))
        else:
            keys = {name: name for name in shapes}
    except (tf.errors.OpError, ValueError, IndexError) as error:
        if is_replaced():
            return read(path, option)
        raise _damaged(f"`{option}={path}`", error) from None
    keys = _original_names(keys)

    def load(names: Iterable[str]) -> dict[str, np.ndarray]:
        try:
            return {name: reader.get_tensor(keys[name]) for name in names}
        except (tf.errors.OpError, IndexError) as error:
            if is_replaced():
                return read(path, option).load(names)
            raise _damaged(f"`{option}={path}`", error) from None

    state = {n for n in keys if n == "global_step" or _MOMENT.search(n)}
    return Checkpoint(
        path=target,
        shapes={n: shapes[key] for n, key in keys.items() if n not in state},
        config=config_beside(target),
        load=load,
        state=state,
    )


def _read_folder(folder: str) -> Checkpoint:
    config = config_beside(folder)
    if checkpoint_files.is_small(folder):
        weights = tensor_files.read(folder)
    elif keras_hub.is_folder(folder):
        weights = keras_hub.read_weights(folder)
    else:
        weights = huggingface.read_weights(folder)
    return Checkpoint(
        path=folder,
        shapes={n: list(value.shape) for n, value in weights.items()},
        config=config,
        load=lambda names: {name: weights[name] for name in names},
    )


def _damaged(source: str, error: Exception) -> errors.UserError:
    if os.strerror(errno.EACCES) in str(error):
        return errors.UserError(
            f"{source} cannot be read: {error}. Ask its owner for the right to."
        )
    return errors.UserError(
        f"{source} cannot be read: {error}. The file is damaged or incomplete; "
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


def _original_names(keys: Mapping[str, str]) -> dict[str, str]:
    """Give variables, moments and step the original's names; drop the rest."""
    original = {}
    for name, key in keys.items():
        # Variables taken out of a TF-Hub module carry one more scope.
        name = layouts.from_bert(name.removeprefix("module/"))
        moment = _MOMENT.search(name)
        if moment:
            variable = moment[1] or moment[4]
            name = f"{variable}/adam_{moment[2] or moment[3]}"
        elif name == "iteration":
            name = "global_step"
        if name not in _COUNTERS and not _OTHER_STATE.search(name):
            original[name] = key
    return original


def config_beside(path: str) -> AlbertConfig | None:
    """Return the architecture from the config file beside a checkpoint.

    None if there is no such file, or none that can be understood, which a
    warning says.
    """
    folder = os.path.dirname(path)
    if checkpoint_files.is_small(path):
        folder = path
    elif keras_hub.is_folder(path):
        return keras_hub.read_config(path)
    elif not checkpoint_files.is_prefix(path):
        config_file = files.safe_join(path, huggingface.CONFIG_NAME)
        return huggingface.read_config(config_file)
    config_file = files.safe_join(folder, CONFIG_NAME)
    if not files.exists(config_file):
        config_file = files.safe_join(folder, config_files.BERT_NAME)
    if not files.exists(config_file):
        return None
    try:
        return AlbertConfig.from_json_file(config_file)
    except errors.UserError as error:
        logging.warning("%s is not used: %s", config_file, error)
        return None


def modules_beside(path: str) -> sentence_modules.Modules | None:
    """Return what a folder of sentence-transformers says of its vectors.

    None if `path`, that of a `Checkpoint`, is no such folder. Its remarks are
    logged.
    """
    if checkpoint_files.is_prefix(path):
        return None
    modules = sentence_modules.read(path)
    for remark in modules.remarks if modules else ():
        _warn(remark)
    return modules


@functools.cache  # Says it once.
def _warn(remark: str) -> None:
    logging.warning("%s", remark)


def name_of(variable: tf.Variable) -> str:
    """Return a variable's name in the original's checkpoints."""
    return str(variable.name).split(":", 1)[0]


def part_of(name: str) -> str:
    """Return the encoder's or head's scope that a variable belongs to.

    Example:
        part_of("bert/pooler/dense/bias") = "bert"
        part_of("cls/predictions/output_bias") = "cls/predictions"
        part_of("output_weights") = "classifier"
    """
    depth = 2 if name.startswith("cls/") else 1
    scope = "/".join(name.split("/")[:depth])
    return _HEADS.get(scope, scope)
