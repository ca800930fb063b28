"""Checkpoints: find one, and put its weights into a model by name.

Variables of this project carry the names of the original release, a TF2
checkpoint remembers the name of each variable beside its place in the object
graph, and huggingface.py translates names. So one rule restores all kinds:
equal names, equal shapes, nothing left over, nothing left random in silence.
"""

import dataclasses
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf import (
    errors,
    files,
    huggingface,
    modeling,
    optimization,
    scores,
)
from albert_tf.options import option

# Name of the copy of the best evaluated checkpoint, as in the original.
BEST_NAME = "model.ckpt-best"
CONFIG_NAME = "albert_config.json"
# TensorFlow's list of the checkpoints in a folder.
STATE_NAME = "checkpoint"
# Where a TF2 checkpoint keeps its object graph; TF1 checkpoints have none.
_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Names of the optimizer's variables: VARIABLE/adam_m in TF1 checkpoints,
# adam_m/VARIABLE in ours. The `lamb_` names are those of an internal version
# of the original (export_checkpoints).
_MOMENT = re.compile(r"^(.*)/(?:adam|lamb)_([mv])$|^adam_([mv])/(.*)$")
_COUNTERS = (
    *("iteration", "current_learning_rate", "learning_rate", "pace"),
    *("skipped", "skipped_in_row", "good_in_row", "loss_scale"),
    *("elapsed", "save_counter"),
)
# Heads whose variables have no scope in common.
_HEADS = {
    "output_weights": "classifier",
    "output_bias": "classifier",
    "start_logits": "squad_v2",
    "end_logits": "squad_v2",
    "answer_class": "squad_v2",
}
# Keys of a config that neither names nor shapes of variables can show.
_SILENT_KEYS = ("hidden_act", "num_attention_heads", "num_hidden_layers")


@dataclasses.dataclass(frozen=True)
class InitOptions:
    """Which weights a run starts from."""

    init_checkpoint: str | None = option(
        None,
        "Checkpoint to start from: a prefix such as FOLDER/model.ckpt-best, "
        "the folder of a run, or a Hugging Face folder. Without it all weights "
        "start from random values.",
    )
    init_from_group0: bool = option(
        False,
        "Whether groups of layers that --init_checkpoint lacks start from its "
        "first group: unshares a shared model.",
    )
    init_shallower: bool = option(
        False,
        "Whether --init_checkpoint may have fewer layers than the model: each "
        "of its layers then fills several in a row. With parameters shared by "
        "all layers nothing is copied; the same block is applied more often.",
    )
    new_weights: str | None = option(
        None,
        "Scopes that start from random values although --init_checkpoint is "
        "given, separated by commas, such as cls/seq_relationship.",
    )

    def __post_init__(self) -> None:
        if self.init_checkpoint is not None and not self.init_checkpoint:
            raise errors.UserError(
                "--init_checkpoint is empty. Name a checkpoint, or leave the "
                "option out to start from random weights."
            )
        if self.init_from_group0 and self.init_shallower:
            raise errors.UserError(
                "--init_from_group0 and --init_shallower contradict each "
                "other. The first is for models of the same depth."
            )
        if self.init_checkpoint:
            return
        for name in ("init_from_group0", "init_shallower", "new_weights"):
            if getattr(self, name):
                raise errors.UserError(
                    f"--{name} says how to use --init_checkpoint, which is not "
                    "given. Add it, or drop the option."
                )

    @property
    def layers(self) -> str:
        """See `restore`."""
        if self.init_from_group0:
            return "group0"
        return "shallower" if self.init_shallower else "same"

    @property
    def new_scopes(self) -> tuple[str, ...]:
        """The scopes of `new_weights`."""
        scopes = (self.new_weights or "").split(",")
        return tuple(s.strip().strip("/") for s in scopes if s.strip())


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The weights of a checkpoint, by the original's variable names.

    Attributes:
        path: Prefix without `.index`, or a Hugging Face folder.
        shapes: Variable name to its shape, without optimizer state.
        config: The architecture in the config file beside it, if there is one.
        load: Variable names to their values. Raises `errors.UserError` if the
            file that holds them is damaged.
        state: Optimizer state, if any: `VARIABLE/adam_m`, `VARIABLE/adam_v`
            and `global_step`, to be loaded like weights.
    """

    path: str
    shapes: Mapping[str, list[int]]
    config: modeling.AlbertConfig | None
    load: Callable[[Iterable[str]], dict[str, np.ndarray]]
    state: Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Restored:
    """What `restore` did.

    Attributes:
        path: Prefix or folder of the checkpoint that was read.
        new: Names of the variables that kept their random values.
        copied: Names of the variables that took those of another layer.
    """

    path: str
    new: tuple[str, ...]
    copied: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return one line for the log."""
        line = f"All weights start from {self.path}."
        if self.new:
            line = (
                f"Weights start from {self.path}, except these, which are new: "
                f"{', '.join(self.new)}."
            )
        if self.copied:
            line += f" {len(self.copied)} take the values of another layer."
        return line


def find(path: str, option: str = "init_checkpoint") -> str:
    """Return the checkpoint that `path` means.

    Args:
        path: A prefix (`.../model.ckpt-best`) or one of its files; a folder,
            which means its best checkpoint, else its latest, or those of the
            best of several runs in it; an unpacked TF-Hub module; a Hugging
            Face folder or the weights in it.
        option: Name of the option the path came from, for messages.

    Returns:
        A prefix without `.index`, or a Hugging Face folder.

    Raises:
        errors.UserError: There is no checkpoint.
    """
    if path.endswith(".safetensors"):
        return _hugging_face_folder_of(path, option)
    prefix = _SUFFIX.sub("", path.rstrip("/"))
    if tf.io.gfile.isdir(prefix):
        for name in (BEST_NAME, "variables/variables"):
            if _is_prefix(os.path.join(prefix, name)):
                return os.path.join(prefix, name)
        latest = _latest(prefix)
        if latest:
            return latest
        if huggingface.is_folder(prefix):
            return prefix
        best = scores.best_folder(prefix)
        if best != prefix:
            return find(best, option)
        found = sorted(
            name.removesuffix(".index")
            for name in tf.io.gfile.listdir(prefix)
            if name.endswith(".index")
        )
        hint = "such as FOLDER/model.ckpt-125000"
        if found:
            hint = f"one of {', '.join(found[:5])} there"
        raise errors.UserError(
            f"--{option}={path} is a folder that does not say which checkpoint "
            f"is meant (no {BEST_NAME}.index, no file named checkpoint that "
            "names an existing one, no config.json of a Hugging Face ALBERT). "
            f"Name the prefix, {hint}."
        )
    if not _is_prefix(prefix):
        raise errors.UserError(
            f"--{option}={path} is not a checkpoint: {prefix}.index does not "
            "exist. Give the path up to, not including, '.index'."
        )
    return prefix


def numbered(folder: str) -> list[str]:
    """Return the prefixes `model.ckpt-N` in a run's folder, newest first.

    The file named checkpoint is not asked: it may be damaged too.
    """
    if not tf.io.gfile.isdir(folder):
        return []
    numbers = [
        int(found[1])
        for name in tf.io.gfile.listdir(folder)
        if (found := re.fullmatch(r"model\.ckpt-(\d+)\.index", name))
    ]
    return [
        os.path.join(folder, f"model.ckpt-{number}")
        for number in sorted(numbers, reverse=True)
    ]


def remove_unfinished(
    folder: str, *, numbered: bool = True, best: bool = True
) -> None:
    """Remove what saves that were killed have left in a local run's folder.

    TensorFlow writes `model.ckpt-N_temp/` before `model.ckpt-N`, and its list
    of checkpoints under another name first. Nobody else may be saving there.

    Args:
        folder: The folder.
        numbered: Whether this process writes the numbered checkpoints, and
            the list of them.
        best: Whether it writes that of `BEST_NAME`.
    """
    if files.is_remote(folder) or not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if numbered and re.fullmatch(rf"{STATE_NAME}\.tmp[0-9a-f]{{32}}", name):
            os.remove(path)
        is_ours = (best and name == f"{BEST_NAME}_temp") or (
            numbered and re.fullmatch(r"model\.ckpt-\d+_temp", name)
        )
        if is_ours and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)


def clean_state(folder: str) -> None:
    """Have TensorFlow's list of checkpoints name those of its folder, and all.

    A `tf.train.CheckpointManager` deletes the oldest of the list, wherever they
    lie, and a folder may have come from somebody. One that was saved just
    before the process was killed may not be in the list yet, or the list may be
    damaged; what is not in it would never be deleted.
    """
    path = os.path.join(folder, STATE_NAME)
    state = _read_state(folder) if files.exists(path) else None
    if state is None and files.exists(path):
        logging.warning("%s is damaged; it will be made again.", path)
    prefixes = numbered(folder)[::-1]
    if not prefixes:
        if files.exists(path):
            tf.io.gfile.remove(path)
        return
    times = dict(
        zip(
            map(os.path.basename, state.all_model_checkpoint_paths),
            state.all_model_checkpoint_timestamps,
            strict=False,
        )
        if state
        else ()
    )
    # A relative folder is taken off by TensorFlow; to an absolute one it adds
    # the name.
    names = [os.path.basename(prefix) for prefix in prefixes]
    listed = names if os.path.isabs(folder) else prefixes
    tf.compat.v1.train.update_checkpoint_state(
        folder,
        listed[-1],
        listed,
        all_model_checkpoint_timestamps=[
            times.get(name) or _time(prefix)
            for name, prefix in zip(names, prefixes, strict=True)
        ],
        # Later ones only may be deleted.
        last_preserved_timestamp=0.0,
    )


def _time(prefix: str) -> float:
    """Return when a checkpoint was written, in seconds."""
    return files.size_and_time(f"{prefix}.index")[1] / 1e9


def _read_state(folder: str) -> Any:
    """Return TensorFlow's list of checkpoints, None if it cannot be read."""
    try:
        return tf.train.get_checkpoint_state(folder)
    except (ValueError, UnicodeDecodeError, tf.errors.OpError):
        return None


def _hugging_face_folder_of(path: str, option: str) -> str:
    folder, name = os.path.split(path)
    folder = folder or "."
    known = name == huggingface.WEIGHTS_NAME and files.exists(path)
    if not (known and huggingface.is_folder(folder)):
        raise errors.UserError(
            f"--{option}={path} is not the {huggingface.WEIGHTS_NAME} of a "
            "Hugging Face ALBERT folder with its config.json. Name a folder "
            "that holds both."
        )
    return folder


def _latest(folder: str) -> str | None:
    """Return what the file named checkpoint says, as a file of the folder.

    Only the name counts: the folder may have been moved since, and what lies
    elsewhere is not asked for.
    """
    state = _read_state(folder)
    if state is None:
        return None
    name = os.path.basename(state.model_checkpoint_path)
    prefix = os.path.join(folder, name)
    return prefix if _is_prefix(prefix) else None


def _is_prefix(prefix: str) -> bool:
    return bool(tf.io.gfile.exists(prefix + ".index"))


def read(path: str, option: str = "init_checkpoint") -> Checkpoint:
    """Open a checkpoint of any kind that `find` knows.

    Raises:
        errors.UserError: There is none, or its files are damaged.
    """
    found = find(path, option)
    if not _is_prefix(found):
        weights = huggingface.read_weights(found)
        return Checkpoint(
            path=found,
            shapes={n: list(value.shape) for n, value in weights.items()},
            config=config_beside(found),
            load=lambda names: {name: weights[name] for name in names},
        )
    try:
        reader = tf.train.load_checkpoint(found)
        shapes = reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH_KEY in shapes:
            keys = _names_of_object_graph(reader.get_tensor(_OBJECT_GRAPH_KEY))
        else:
            keys = {name: name for name in shapes}
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise _damaged(f"--{option}={path}", error) from None
    keys = _original_names(keys)

    def load(names: Iterable[str]) -> dict[str, np.ndarray]:
        try:
            return {name: reader.get_tensor(keys[name]) for name in names}
        except (tf.errors.OpError, IndexError) as error:
            raise _damaged(f"--{option}={path}", error) from None

    state = {n for n in keys if n == "global_step" or _MOMENT.search(n)}
    return Checkpoint(
        path=found,
        shapes={n: shapes[key] for n, key in keys.items() if n not in state},
        config=config_beside(found),
        load=load,
        state=state,
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


def _original_names(keys: Mapping[str, str]) -> dict[str, str]:
    """Give moments and step the names of the original; drop other counters."""
    named = {}
    for name, key in keys.items():
        # Variables taken out of a TF-Hub module carry one more scope.
        name = name.removeprefix("module/")
        moment = _MOMENT.search(name)
        if moment:
            variable = moment[1] or moment[4]
            name = f"{variable}/adam_{moment[2] or moment[3]}"
        elif name == "iteration":
            name = "global_step"
        if name not in _COUNTERS:
            named[name] = key
    return named


def config_beside(path: str) -> modeling.AlbertConfig | None:
    """Return the architecture from the config file beside a checkpoint.

    Args:
        path: From `find`.

    Returns:
        None if there is no such file, or none that can be understood, which a
        warning says.
    """
    if not _is_prefix(path):
        return huggingface.read_config(
            os.path.join(path, huggingface.CONFIG_NAME)
        )
    config_file = os.path.join(os.path.dirname(path), CONFIG_NAME)
    if not files.exists(config_file):
        return None
    try:
        return modeling.AlbertConfig.from_json_file(config_file)
    except errors.UserError as error:
        logging.warning("%s is not used: %s", config_file, error)
        return None


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


def restore(
    model: keras.Model,
    source: str | Checkpoint,
    option: str = "init_checkpoint",
    *,
    new_scopes: Collection[str] = (),
    new_heads: bool = False,
    layers: str = "same",
) -> Restored:
    """Put the weights of a checkpoint into the variables of `model`.

    Parts of the checkpoint that the model does not have, such as the heads when
    an encoder is restored, are not wanted and not read. Nothing is assigned
    unless everything fits.

    Source: the original's modeling.get_assignment_map_from_checkpoint, which
    leaves random what it does not find.

    Args:
        model: An encoder, or an encoder with heads.
        source: A path, see `find`; or what `read` returned.
        option: Name of the option the path came from, for messages.
        new_scopes: Scopes of variables that keep their values.
        new_heads: Whether heads that the checkpoint lacks altogether keep their
            values too.
        layers: How those of the model follow from those of the checkpoint.
            same: they are the same; group0: groups that the checkpoint lacks
            take the weights of its only group; shallower: it may have fewer,
            see `_shallower_names` (ALBERT appendix A.1).

    Returns:
        Where the weights came from, and which variables kept their values.

    Raises:
        errors.UserError: A variable has no partner of its shape, the checkpoint
            has more variables in the model's own parts, or its config file says
            that the same weights mean another function.
    """
    checkpoint = read(source, option) if isinstance(source, str) else source
    what = f"--{option}={checkpoint.path}"
    if layers == "group0":
        _check_one_group(checkpoint, what)
    variables = {name_of(variable): variable for variable in model.variables}
    _check_scopes(new_scopes, variables)
    stored_parts = {part_of(name) for name in checkpoint.shapes}
    encoder = getattr(model, "encoder", model)
    own_parts = {part_of(name) for name in variables}
    missing = own_parts - stored_parts - {encoder.name}

    def is_new(name: str) -> bool:
        if new_heads and part_of(name) in missing:
            return True
        return any(f"{name}/".startswith(f"{scope}/") for scope in new_scopes)

    renamed: Mapping[str, str] = {}
    if layers == "shallower":
        renamed = _shallower_names(encoder.config, checkpoint, variables, what)
    partners = {
        name: _partner(
            renamed.get(name, name), checkpoint.shapes, layers == "group0"
        )
        for name in variables
        if not is_new(name)
    }
    _check_partners(variables, partners, checkpoint.shapes, is_new, what)
    if checkpoint.config:
        _check_config(encoder.config, checkpoint.config, layers, what)
    values = checkpoint.load(set(partners.values()))
    _check_numbers(values, what)
    for name, partner in partners.items():
        variables[name].assign(values[partner])
    return Restored(
        checkpoint.path,
        new=tuple(name for name in variables if is_new(name)),
        copied=tuple(n for n, partner in partners.items() if n != partner),
    )


def _shallower_names(
    config: modeling.AlbertConfig,
    checkpoint: Checkpoint,
    variables: Iterable[str],
    what: str,
) -> dict[str, str]:
    """Return which name in a shallower checkpoint each variable takes.

    Layer i of L takes what layer floor(i * K / L) of the checkpoint's K layers
    uses; where layers share, the first that uses a variable decides.

    Raises:
        errors.UserError: The checkpoint is deeper, or no config file beside it
            says how deep it is.
    """
    other = checkpoint.config
    if other is None:
        raise errors.UserError(
            f"{what} has no {CONFIG_NAME} beside it, so --init_shallower "
            "cannot know its layers. Put the file there."
        )
    layers, others = config.num_hidden_layers, other.num_hidden_layers
    if others > layers:
        raise errors.UserError(
            f"{what} has {others} layers, more than the {layers} of the model. "
            "--init_shallower is for checkpoints with fewer."
        )
    attentions: dict[str, int] = {}
    ffns: dict[str, int] = {}
    for layer, (attention, ffn) in enumerate(config.groups):
        source = other.groups[layer * others // layers]
        attentions.setdefault(str(attention), source[0])
        ffns.setdefault(str(ffn), source[1])

    def renamed(name: str) -> str:
        found = re.search(r"/group_(\d+)/inner_group_\d+/(\w+)", name)
        if not found:
            return name
        groups = ffns if found[2] in ("ffn_1", "LayerNorm_1") else attentions
        return name.replace(
            f"/group_{found[1]}/", f"/group_{groups[found[1]]}/"
        )

    return {name: renamed(name) for name in variables}


def _check_one_group(checkpoint: Checkpoint, what: str) -> None:
    """Refuse to unshare what is not shared by all layers.

    Raises:
        errors.UserError: The checkpoint has more than one group.
    """
    groups = {
        found[1]
        for name in checkpoint.shapes
        if (found := re.search(r"/group_(\d+)/", name))
    }
    if len(groups) > 1:
        raise errors.UserError(
            f"{what} has {len(groups)} groups of layers, but "
            "--init_from_group0 is for checkpoints with one. Use a config with "
            "the same groups, and drop the option."
        )


def _check_numbers(values: Mapping[str, np.ndarray], what: str) -> None:
    """Refuse weights that are not finite float32 numbers.

    Raises:
        errors.UserError: Some are not.
    """
    for name, value in values.items():
        if value.dtype != np.float32:
            raise errors.UserError(
                f"{what} holds {name} as {value.dtype}; weights are float32. "
                "Convert the checkpoint with the program that wrote it."
            )
        if not np.isfinite(value).all():
            raise errors.UserError(
                f"{what} holds numbers in {name} that are not finite. Its "
                "training has failed; use an earlier checkpoint."
            )


def _check_scopes(
    scopes: Collection[str], variables: Mapping[str, tf.Variable]
) -> None:
    for scope in scopes:
        if not any(f"{name}/".startswith(f"{scope}/") for name in variables):
            names = {"/".join(name.split("/")[:2]) for name in variables}
            raise errors.UserError(
                f"--new_weights names {scope!r}, but no variable of the model "
                f"is called so. Its scopes are {', '.join(sorted(names))}."
            )


def _partner(
    name: str, stored: Mapping[str, list[int]], from_group0: bool
) -> str:
    """Return the name under which a checkpoint holds a variable."""
    if name in stored or not from_group0:
        return name
    return re.sub(r"/group_\d+/", "/group_0/", name)


def _check_partners(
    variables: Mapping[str, tf.Variable],
    partners: Mapping[str, str],
    stored: Mapping[str, list[int]],
    is_new: Callable[[str], bool],
    what: str,
) -> None:
    """Refuse unless both sides hold the same names with the same shapes."""
    parts = {part_of(name) for name in variables}
    lines = [
        f"  {name}: model {list(variables[name].shape)}, checkpoint "
        f"{stored.get(partner, 'nothing')}"
        for name, partner in partners.items()
        if stored.get(partner) != list(variables[name].shape)
    ]
    lines += [
        f"  {name}: model nothing, checkpoint {shape}"
        for name, shape in stored.items()
        if part_of(name) in parts
        and name not in set(partners.values())
        and not is_new(name)
    ]
    if lines:
        raise errors.UserError(
            f"{what} does not fit the model:\n"
            + "\n".join(sorted(lines))
            + f"\nUse the {CONFIG_NAME} that belongs to the checkpoint, whole "
            "and undamaged, and the task that its head was trained for. Where "
            "a run starts from it, scopes that are meant to be random are "
            "named in --new_weights."
        )


def _check_config(
    config: modeling.AlbertConfig,
    other: modeling.AlbertConfig,
    layers: str,
    what: str,
) -> None:
    """Refuse weights that were trained for another function.

    Raises:
        errors.UserError: See `restore`.
    """
    lines = [
        f"  {key}: model {getattr(config, key)}, checkpoint "
        f"{getattr(other, key)}"
        for key in _SILENT_KEYS
        if getattr(config, key) != getattr(other, key)
        and not (layers == "shallower" and key == "num_hidden_layers")
    ]
    if not lines and layers == "same" and config.groups != other.groups:
        lines = [
            f"  group of each layer, attention and feed-forward: model "
            f"{config.groups}, checkpoint {other.groups}"
        ]
    if lines:
        raise errors.UserError(
            f"{what} does not fit the model, says the config file beside it:\n"
            + "\n".join(lines)
            + "\nUse that file as --albert_config_file."
        )


def initialize(
    model: keras.Model, options: InitOptions, *, new_heads: bool = False
) -> Restored | None:
    """Give a new model the weights it starts from, and say which.

    Args:
        model: An encoder with heads.
        options: Without `init_checkpoint` nothing is done.
        new_heads: See `restore`.

    Raises:
        errors.UserError: See `restore`.
    """
    if not options.init_checkpoint:
        return None
    restored = restore(
        model,
        options.init_checkpoint,
        new_scopes=options.new_scopes,
        new_heads=new_heads,
        layers=options.layers,
    )
    logging.info("%s", restored.describe())
    if options.init_from_group0 and not restored.copied:
        logging.warning("--init_from_group0 changed nothing: no group lacked.")
    return restored


def restore_optimizer(
    optimizer: optimization.AdamW,
    variables: Iterable[tf.Variable],
    path: str,
    option: str = "init_checkpoint",
) -> None:
    """Take step and moments from a checkpoint that training wrote.

    Args:
        optimizer: Built for the variables.
        variables: In the order it was built for.
        path: See `find`.
        option: Name of the option the path came from, for messages.

    Raises:
        errors.UserError: The checkpoint holds no such state, or not of all
            variables.
    """
    checkpoint = read(path, option)
    wanted = {
        f"{name_of(variable)}/{kind}": moments[index]
        for index, variable in enumerate(variables)
        for kind, moments in (
            ("adam_m", optimizer.adam_m),
            ("adam_v", optimizer.adam_v),
        )
    }
    missing = {"global_step", *wanted} - set(checkpoint.state)
    if missing:
        raise errors.UserError(
            f"--{option}={path} lacks {len(missing)} of the numbers that "
            f"continue a training, such as {min(missing)}. Released "
            "checkpoints often have none: start a new schedule from them "
            "(--init_schedule=restart)."
        )
    values = checkpoint.load(["global_step", *wanted])
    for name, variable in wanted.items():
        if list(values[name].shape) != list(variable.shape):
            raise errors.UserError(
                f"--{option}={path} holds {name} as {values[name].shape}, the "
                f"model needs {tuple(variable.shape)}. Use --init_schedule="
                "restart."
            )
    for name, variable in wanted.items():
        variable.assign(values[name])
    optimizer.iterations.assign(int(values["global_step"]))
    logging.info("Step and moments continue at %d.", values["global_step"])


def explain(error: tf.errors.OpError) -> str:
    """Return an error of TensorFlow without the names of its operations."""
    return re.sub(r"\{\{.*?\}\} ?| \[Op:.*\]", "", error.message).strip()
