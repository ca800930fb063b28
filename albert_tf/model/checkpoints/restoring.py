"""Restore checkpoints: put weights into a model by name.

One rule restores every kind of checkpoint: equal names, equal shapes, nothing
left over, and no variable keeps random values unless that was asked for.
"""

import collections
import dataclasses
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors
from albert_tf.model import base, model_options
from albert_tf.model.checkpoints import checkpoint_reader, layouts
from albert_tf.model.config import AlbertConfig
from albert_tf.model.optimizers import optimization

# Keys of a config that neither names nor shapes of variables can show.
_SILENT_KEYS = (
    "hidden_act",
    "num_attention_heads",
    "num_hidden_layers",
    "position_bias",
    "layer_norm_eps",
)
_ENCODER = "bert"


@dataclasses.dataclass(frozen=True)
class Restored:
    """What `restore` did.

    Attributes:
        copied: Names of the variables that took those of another layer.
    """

    path: str
    new: tuple[str, ...]
    copied: tuple[str, ...] = ()

    def describe(self) -> str:
        line = f"All weights start from {self.path}."
        if self.new:
            line = (
                f"Weights start from {self.path}, except these, which are new: "
                f"{', '.join(self.new)}."
            )
        if self.copied:
            line += f" {len(self.copied)} take the values of another layer."
        return line


def restore(
    model: keras.Model,
    source: str | checkpoint_reader.Checkpoint,
    option: str = "init_checkpoint",
    *,
    new_scopes: Collection[str] = (),
    new_heads: bool = False,
    layers: str = "same",
) -> Restored:
    """Put the weights of a checkpoint into the variables of `model`.

    An encoder of another scope takes the weights of `bert`, unless the
    checkpoint has that scope. Parts of the checkpoint that the model does not
    have, such as the heads when
    an encoder is restored, or the pooler, are not read. Nothing is assigned
    unless everything fits.

    Source: the original's modeling.get_assignment_map_from_checkpoint, which
    leaves random what it does not find.

    Args:
        source: A checkpoint, or its path, see `checkpoint_files.find`.
        new_scopes: Scopes whose variables keep their (random) values.
        new_heads: Whether heads that the checkpoint lacks altogether keep their
            values too. So does the pooler where the model has another
            `pooling`, and the checkpoint the original's, or where neither the
            head nor the checkpoint needs one.
        layers: See `InitOptions.layers`.
    """
    base.require_built(model)
    if isinstance(source, str):
        source = checkpoint_reader.read(source, option)
    checkpoint, origin = source, f"`{option}={source.path}`"
    encoder = getattr(model, "encoder", model)
    scope = encoder.name
    if scope not in map(checkpoint_reader.part_of, checkpoint.shapes):
        scope = _ENCODER
    inner = re.compile(f"^{re.escape(encoder.name)}/")
    variables = {
        inner.sub(f"{scope}/", checkpoint_reader.name_of(v)): v
        for v in model.variables
    }
    pooler = f"{scope}/pooler/dense/"
    has_pooler = f"{pooler}kernel" in variables
    if new_heads and has_pooler and _has_new_pooler(model, checkpoint, pooler):
        new_scopes = [*new_scopes, pooler.rstrip("/")]
    is_new = _new_variables(variables, scope, checkpoint, new_scopes, new_heads)
    names = [name for name in variables if not is_new(name)]
    if checkpoint.config and f"{pooler}kernel" in names:
        _check_pooling(encoder.config, checkpoint.config.pooling, origin)
    checkpoint_names = _map_names(encoder, checkpoint, names, layers, origin)
    shapes = {
        name: shape
        for name, shape in checkpoint.shapes.items()
        if has_pooler or not name.startswith(pooler)
    }
    _check_shapes(variables, checkpoint_names, shapes, is_new, origin)
    _check_config(encoder.config, checkpoint.config, layers, origin)
    return _assign(variables, checkpoint_names, checkpoint, origin)


def _assign(
    variables: Mapping[str, tf.Variable],
    checkpoint_names: Mapping[str, str],
    checkpoint: checkpoint_reader.Checkpoint,
    origin: str,
) -> Restored:
    values = checkpoint.load(set(checkpoint_names.values()))
    _check_finite(values, origin)
    for name, source in checkpoint_names.items():
        variables[name].assign(values[source])
    new = tuple(name for name in variables if name not in checkpoint_names)
    copied = tuple(n for n, source in checkpoint_names.items() if n != source)
    return Restored(checkpoint.path, new, copied)


def _check_pooling(
    config: AlbertConfig, checkpoint_pooling: str, origin: str
) -> None:
    """Refuse a pooler of the other pooling: cls reads H values, pair 4 H."""
    if checkpoint_pooling != config.pooling:
        raise errors.UserError(
            f"{origin} was trained with pooling={checkpoint_pooling}, says the "
            "config file beside it, and the model has "
            f"pooling={config.pooling}. Use that file as `albert_config_file`; "
            f"for finetuning, `pooling={checkpoint_pooling}` is enough. Where "
            "a run starts from it, `new_weights=bert/pooler` gives it a new "
            "pooler."
        )


def _has_new_pooler(
    model: keras.Model, checkpoint: checkpoint_reader.Checkpoint, pooler: str
) -> bool:
    """Tell whether a head's encoder keeps its pooler; see `restore`."""
    pooling = getattr(model, "encoder", model).config.pooling
    if checkpoint.config and checkpoint.config.pooling == "cls" != pooling:
        return True
    has_weights = any(name.startswith(pooler) for name in checkpoint.shapes)
    return not (has_weights or getattr(model, "reads_pooler", True))


def _new_variables(
    names: Collection[str],
    encoder_name: str,
    checkpoint: checkpoint_reader.Checkpoint,
    new_scopes: Collection[str],
    new_heads: bool,
) -> Callable[[str], bool]:
    """Return a function that tells whether a variable is not restored."""
    parts = set()
    if new_heads:
        parts = set(map(checkpoint_reader.part_of, names)) - {encoder_name}
        parts -= set(map(checkpoint_reader.part_of, checkpoint.shapes))

    def is_in(name: str, scope: str) -> bool:
        return f"{name}/".startswith(f"{scope}/")

    for scope in new_scopes:
        if not any(is_in(name, scope) for name in names):
            scopes = {"/".join(name.split("/")[:2]) for name in names}
            raise errors.UserError(
                f"`new_weights` names {scope!r}, but no variable of the model "
                f"is called so. Its scopes are {', '.join(sorted(scopes))}."
            )
    return lambda name: (
        checkpoint_reader.part_of(name) in parts
        or any(is_in(name, scope) for scope in new_scopes)
    )


def _map_names(
    encoder: keras.Model,
    checkpoint: checkpoint_reader.Checkpoint,
    names: Collection[str],
    layers: str,
    origin: str,
) -> dict[str, str]:
    """Return each variable's name in the checkpoint; see `InitOptions`."""
    if layers == "shallower":
        return _shallower_names(encoder.config, checkpoint, names, origin)
    if layers == "same":
        return {name: name for name in names}
    shapes = checkpoint.shapes
    groups = set(re.findall(r"/group_\d+/", " ".join(shapes)))
    if len(groups) > 1:
        raise errors.UserError(
            f"{origin} has {len(groups)} groups of layers, but "
            "`init_from_group0` is for checkpoints with one. Use a config with "
            "the same groups, and leave `init_from_group0` out."
        )
    return {
        name: name
        if name in shapes
        else re.sub(r"/group_\d+/", "/group_0/", name)
        for name in names
    }


def _shallower_names(
    config: AlbertConfig,
    checkpoint: checkpoint_reader.Checkpoint,
    variables: Iterable[str],
    origin: str,
) -> dict[str, str]:
    """Return, for each variable, its name in a checkpoint with fewer layers.

    Layer i of L takes the weights of layer floor(i * K / L) of the checkpoint's
    K layers; where layers share weights, the most frequent ones, of two as
    frequent the first.
    """
    stored = checkpoint.config
    if stored is None:
        raise errors.UserError(
            f"{origin} has no {checkpoint_reader.CONFIG_NAME} beside it, so "
            "`init_shallower` cannot know its layers. Put the file there."
        )
    layers, depth = config.num_hidden_layers, stored.num_hidden_layers
    if depth > layers:
        raise errors.UserError(
            f"{origin} has {depth} layers, more than the {layers} of the "
            "model. `init_shallower` is for checkpoints with fewer."
        )
    attentions, ffns = (
        collections.defaultdict[str, list[int]](list) for _ in range(2)
    )
    for layer, (attention, ffn) in enumerate(config.layer_groups):
        source = stored.layer_groups[layer * depth // layers]
        attentions[str(attention)].append(source[0])
        ffns[str(ffn)].append(source[1])

    def renamed(name: str) -> str:
        layer = re.search(r"/group_(\d+)/(?:inner_group|layer)_\d+/(\w+)", name)
        if not layer:
            return name
        groups = ffns if layer[2] in ("ffn_1", "LayerNorm_1") else attentions
        source = statistics.mode(groups[layer[1]])
        return name.replace(f"/group_{layer[1]}/", f"/group_{source}/")

    return {name: renamed(name) for name in variables}


def require_finite_weights(path: str) -> None:
    """Refuse an `init_checkpoint` with NaN or infinity in its encoder, early.

    Heads are checked when they are restored.
    """
    checkpoint = checkpoint_reader.read(path)
    for name in checkpoint.shapes:
        if checkpoint_reader.part_of(name) == _ENCODER:
            values = checkpoint.load([name])
            _check_finite(values, f"`init_checkpoint={checkpoint.path}`")


def _check_finite(values: Mapping[str, np.ndarray], origin: str) -> None:
    """Refuse weights that are not finite float32 numbers."""
    for name, value in values.items():
        if value.dtype != np.float32:
            raise errors.UserError(
                f"{origin} holds {name} as {value.dtype}; weights are float32. "
                "Convert the checkpoint with the program that wrote it."
            )
        if not np.isfinite(value).all():
            raise errors.UserError(
                f"{origin} holds numbers in {name} that are not finite. Its "
                "training has failed; use an earlier checkpoint."
            )


def _check_shapes(
    variables: Mapping[str, tf.Variable],
    checkpoint_names: Mapping[str, str],
    shapes: Mapping[str, list[int]],
    is_new: Callable[[str], bool],
    origin: str,
) -> None:
    """Refuse unless both sides hold the same names with the same shapes."""
    parts = {checkpoint_reader.part_of(name) for name in variables}
    lines = [
        f"  {name}: model {list(variables[name].shape)}, checkpoint "
        f"{shapes.get(source, 'nothing')}"
        for name, source in checkpoint_names.items()
        if shapes.get(source) != list(variables[name].shape)
    ]
    lines += [
        f"  {name}: model nothing, checkpoint {shape}"
        for name, shape in shapes.items()
        if checkpoint_reader.part_of(name) in parts
        and name not in set(checkpoint_names.values())
        and not is_new(name)
    ]
    if not lines:
        return
    lacking = [
        n for n, source in checkpoint_names.items() if source not in shapes
    ]
    if len(lacking) < len(lines):  # Something else does not fit, too.
        lacking = []
    raise errors.UserError(
        "\n".join([f"{origin} does not fit the model:", *sorted(lines)])
        + f"\n{_explain_misfit(variables, shapes, lacking)}"
    )


# Parts that some objectives of pretraining train and others lack.
_PARTS_OF_OBJECTIVES = {
    "generator",
    "plm",
    "decoder",
    "cls/replaced_tokens",
    "cls/tasks",
    "cls/predictions",
    "cls/seq_relationship",
}


def _explain_misfit(
    variables: Collection[str],
    stored: Collection[str],
    lacking: Collection[str],
) -> str:
    """Return advice; `lacking` is empty if something else does not fit, too."""
    if layouts.BRIGHTMART_PROJECTION in set(stored) - set(variables):
        return (
            "This is the layout of brightmart's albert_zh. Use the config file "
            "of its archive, or `albert_config_file=albert_tiny_zh_brightmart` "
            "(also base and large). The key that makes the difference is "
            "project_words_first."
        )
    if not any(name.startswith("bert/pooler/") for name in stored) and (
        "bert/embeddings/word_embeddings" in stored
    ):
        return (
            "The checkpoint has no pooler, as transformers saves "
            "AlbertForMaskedLM, AlbertForQuestionAnswering and "
            "AlbertForTokenClassification. A run that starts from it gets a "
            "new one with `new_weights=bert/pooler`; convert_checkpoint and "
            "the exports of encoders, masked words, SQuAD 1.1, tags and "
            "vectors of texts need none."
        )
    parts = {checkpoint_reader.part_of(name) for name in lacking}
    if parts and parts <= _PARTS_OF_OBJECTIVES:
        return (
            "The checkpoint lacks what these objectives train beside the "
            "encoder. Where a run starts from it, "
            f"`new_weights={','.join(sorted(parts))}` gives that random "
            "weights."
        )
    if not set(variables) & set(stored):
        return (
            "The checkpoint has none of the model's variables, but "
            f"{', '.join(sorted(stored)[:3])} and so on. Only the layouts in "
            "docs/checkpoints.md can be read."
        )
    return (
        f"Use the {checkpoint_reader.CONFIG_NAME} that belongs to the "
        "checkpoint, whole and undamaged, and the task that its head was "
        "trained for. Where a run starts from it, scopes that are meant to "
        "be random are named in `new_weights`."
    )


def _check_config(
    config: AlbertConfig, stored: AlbertConfig | None, layers: str, origin: str
) -> None:
    """Refuse weights trained with another config, though all shapes fit."""
    if stored is None:
        return
    lines = [
        f"  {key}: model {getattr(config, key)}, checkpoint "
        f"{getattr(stored, key)}"
        for key in _SILENT_KEYS
        if getattr(config, key) != getattr(stored, key)
        and not (layers == "shallower" and key == "num_hidden_layers")
    ]
    same_groups = config.layer_groups == stored.layer_groups
    if not lines and layers == "same" and not same_groups:
        lines = [
            f"  group of each layer, attention and feed-forward: model "
            f"{config.layer_groups}, checkpoint {stored.layer_groups}"
        ]
    if lines:
        raise errors.UserError(
            f"{origin} does not fit the model, says the config file beside "
            "it:\n"
            + "\n".join(lines)
            + "\nUse that file as `albert_config_file`; where a run starts "
            "from a checkpoint with fewer layers, add `init_shallower`."
        )


def initialize(
    model: keras.Model,
    options: model_options.InitOptions,
    *,
    new_heads: bool = False,
) -> Restored | None:
    """Restore `init_checkpoint` in a new model, and log what is restored."""
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
        logging.warning(
            "`init_from_group0` changed nothing: the checkpoint has all groups."
        )
    return restored


def _are_of_muon(values: Mapping[str, np.ndarray]) -> bool:
    """Tell whether moments are Muon's: of kernels, `adam_v` are zeros."""
    names = [n for n in values if "/kernel/adam_" in n and values[n].any()]
    return bool(names) and all(name.endswith("m") for name in names)


def restore_optimizer(
    optimizer: optimization.AdamW, variables: Iterable[tf.Variable], path: str
) -> None:
    """Restore step and moments; `variables` in the order of the optimizer."""
    checkpoint = checkpoint_reader.read(path)
    moments = {
        f"{checkpoint_reader.name_of(variable)}/{kind}": moment
        for kind in ("adam_m", "adam_v")
        for variable, moment in zip(
            variables, getattr(optimizer, kind), strict=True
        )
    }
    missing = {"global_step", *moments} - set(checkpoint.state)
    if missing:
        raise errors.UserError(
            f"`init_checkpoint={path}` lacks {len(missing)} values of the "
            f"optimizer state, such as {min(missing)}. Released checkpoints "
            "often have none: start a new schedule from them "
            "(`init_schedule=restart`)."
        )
    values = checkpoint.load(["global_step", *moments])
    if not isinstance(optimizer, optimization.Muon) and _are_of_muon(values):
        # Their zeros would make AdamW's steps huge.
        raise errors.UserError(
            f"`init_checkpoint={path}` holds the moments of Muon, which other "
            "optimizers cannot use. Set `optimizer=muon`, or start a new "
            "schedule (`init_schedule=restart`)."
        )
    for name, variable in moments.items():
        if list(values[name].shape) != list(variable.shape):
            raise errors.UserError(
                f"`init_checkpoint={path}` holds {name} as "
                f"{values[name].shape}, the model needs "
                f"{tuple(variable.shape)}. Use `init_schedule=restart`."
            )
    for name, variable in moments.items():
        variable.assign(values[name])
    optimizer.iterations.assign(int(values["global_step"]))
    logging.info("Step and moments continue at %d.", values["global_step"])
